//! The result of a star query as batches.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use halocline_joins::star::{GroupStates, Groups};

use super::branches::GroupSource;
use super::group_domain::GroupDomain;
use super::shape::StarShape;

/// The result of a star query, which partitions return in shares.
pub(super) enum StarResult {
    /// Groups of the join.
    Groups(Arc<StarGroups>),
    /// The plan that the join replaces answers the query.
    Replaced(Arc<dyn ExecutionPlan>),
}

impl std::fmt::Debug for StarResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StarResult").finish_non_exhaustive()
    }
}

/// The groups of a join, and the values that they are groups of.
pub(super) struct StarGroups {
    pub(super) shape: Arc<StarShape>,
    pub(super) groups: Groups,
    /// Number of groups of each branch, and of each probe of a dynamic filter, which has one.
    pub(super) branch_groups: Vec<u64>,
    /// The attributes of each branch, with one value per group.
    pub(super) attributes: Vec<Vec<ArrayRef>>,
    pub(super) domains: Vec<GroupDomain>,
    /// Memory of the groups, freed with them.
    pub(super) _memory: Vec<MemoryReservation>,
}

impl StarResult {
    /// Returns the batches of one of some shares.
    ///
    /// # Errors
    /// The replaced plan cannot be started.
    pub(super) fn batches(
        &self,
        (share, shares): (usize, usize),
        schema: SchemaRef,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let groups = match self {
            StarResult::Groups(groups) => Arc::clone(groups),
            StarResult::Replaced(plan) if share == 0 => {
                // Its own streams, so that a large result is not collected.
                let stream = execute_stream(Arc::clone(plan), context)?;
                return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)));
            }
            StarResult::Replaced(_) => {
                let none = futures::stream::empty();
                return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, none)));
            }
        };
        let mut cursor = groups.groups.cursor(share, shares);
        let most = context.session_config().batch_size();
        let mut is_done = false;
        let of_schema = Arc::clone(&schema);
        let batches = std::iter::from_fn(move || {
            let states = if groups.shape.groups.is_empty() {
                // One row, whatever matches.
                (share == 0 && !std::mem::replace(&mut is_done, true)).then(|| groups.groups.whole())
            } else {
                groups.groups.next(&mut cursor, most)
            };
            Some(groups.batch(&states?, &of_schema))
        });
        let batches = futures::stream::iter(batches);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

impl StarGroups {
    /// Returns groups as rows.
    ///
    /// # Errors
    /// A sum is outside of its type; a dictionary cannot be read.
    fn batch(&self, states: &GroupStates, schema: &SchemaRef) -> Result<RecordBatch> {
        let outputs = &self.shape.aggregates.outputs;
        let mut columns = Vec::with_capacity(self.shape.groups.len() + outputs.len());
        for source in &self.shape.groups {
            columns.push(match *source {
                GroupSource::Attribute(branch, attribute) => {
                    let rows = self.part(states, branch);
                    let rows: UInt32Array = rows.map(|group| Some(group as u32)).collect();
                    match self.attributes[branch].get(attribute) {
                        Some(values) => arrow_select::take::take(values, &rows, None)?,
                        // The dimension is empty, and so is the result.
                        None => arrow_array::new_empty_array(schema.field(columns.len()).data_type()),
                    }
                }
                GroupSource::Fact(column) => {
                    let numbers = self.part(states, self.branch_groups.len() + column);
                    self.domains[column].values(&numbers.collect::<Vec<u64>>())?
                }
            });
        }
        for output in outputs {
            columns.push(output.array(states)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(states.len()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            columns,
            &options,
        )?)
    }

    /// Returns a part of the numbers of groups: that of a branch or, after the branches, of a group column.
    fn part<'a>(&self, states: &'a GroupStates, part: usize) -> impl Iterator<Item = u64> + use<'a> {
        let sizes = self.domains.iter().map(|domain| domain.group.size.max(1));
        let sizes: Vec<u64> = self.branch_groups.iter().copied().chain(sizes).collect();
        let (stride, size) = (sizes[..part].iter().product::<u64>(), sizes[part]);
        let numbers = states.numbers().iter();
        numbers.map(move |number| number / stride % size)
    }
}
