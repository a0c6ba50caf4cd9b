//! Loading of a dimension: the hash table or bit vector that the join probes, and the attributes of its
//! groups.

use std::any::Any;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
use arrow_schema::Schema;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::TryStreamExt;
use halocline_joins::JoinError;
use halocline_joins::star::{Dimension, DimensionBuilder, MOST_GROUPS, MeasureValues};
use halocline_scan::leaf::LeafExec;
use halocline_sql::cancel::CancelOnDrop;
use halocline_sql::error::external;

use super::branch::Branch;
use super::delta_rows::{integers, strings, values};
use super::dimension_scan::{CodedRows, DimensionScan};
use super::key_match::KeyMatch;

/// A loaded dimension.
pub(super) struct LoadedDimension {
    pub(super) dimension: Dimension,
    /// The grouping attributes, with one value per group; empty if there are none.
    pub(super) attributes: Vec<ArrayRef>,
    /// Its memory reservation.
    pub(super) memory: MemoryReservation,
    /// Peak memory of loading it in bytes.
    pub(super) peak: usize,
}

/// Loads a dimension from a plan of its keys and attributes. `None` if the join cannot use it: two rows have
/// the same key, or there are more groups than a join supports. O(rows).
///
/// # Errors
/// The plan fails, or the memory pool has not enough left.
pub(super) async fn read(
    branch: &Branch,
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    memory: MemoryReservation,
) -> Result<Option<LoadedDimension>> {
    let mut rows = DimensionRows::new(branch, &plan.schema(), memory)?;
    if let Some(scan) = coded(&plan) {
        let ended = CancelOnDrop::default();
        let (scan, heard) = (scan.clone(), ended.flag());
        let read = SpawnedTask::spawn_blocking(move || {
            let mut fits = true;
            scan.for_each(&heard, |coded| {
                fits = fits && rows.add_coded(coded)?;
                Ok(())
            })?;
            if fits { rows.finish() } else { Ok(None) }
        });
        return read
            .join_unwind()
            .await
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
    }
    let mut batches = execute_stream(plan, context)?;
    while let Some(batch) = batches.try_next().await? {
        if !rows.add(&batch)? {
            return Ok(None);
        }
    }
    rows.finish()
}

/// Returns the dimension scan of a plan, below the node by which DataFusion makes leaves yield (this scan
/// runs on a thread of its own).
fn coded(plan: &Arc<dyn ExecutionPlan>) -> Option<&DimensionScan> {
    let plan = plan.as_ref() as &dyn Any;
    match plan.downcast_ref::<CooperativeExec>() {
        Some(around) => coded(around.input()),
        None => plan.downcast_ref::<LeafExec<DimensionScan>>().map(|leaf| &leaf.0),
    }
}

/// The rows read so far.
struct DimensionRows {
    /// Number of columns of the key.
    columns: usize,
    has_string_keys: bool,
    /// Number of grouping attributes.
    attributes: usize,
    builder: DimensionBuilder,
    most: u64,
    groups: Option<Box<dyn GroupValues>>,
    numbers: Vec<usize>,
    memory: MemoryReservation,
    peak: usize,
}

impl DimensionRows {
    fn new(branch: &Branch, schema: &Schema, memory: MemoryReservation) -> Result<Self> {
        let attributes = &schema.fields()[branch.columns.len()..schema.fields().len() - branch.payload];
        let builder = if branch.has_string_keys {
            DimensionBuilder::of_strings()
        } else {
            DimensionBuilder::new(branch.columns.len())
        };
        let groups = match attributes {
            [] => None,
            fields => {
                let schema = Arc::new(Schema::new(fields.to_vec()));
                Some(new_group_values(schema, &GroupOrdering::None)?)
            }
        };
        Ok(Self {
            has_string_keys: branch.has_string_keys,
            builder: match (branch.key_match, builder) {
                (KeyMatch::Lookup, builder) => builder.payload(branch.payload),
                (KeyMatch::Optional, builder) => builder.payload(branch.payload).optional(),
                (KeyMatch::Exists, builder) => builder.existence(),
                (KeyMatch::Absent(low, high), builder) => builder.absence(low, high),
            },
            columns: branch.columns.len(),
            attributes: attributes.len(),
            most: branch.most_rows.unwrap_or(u64::MAX),
            groups,
            numbers: Vec::new(),
            memory,
            peak: 0,
        })
    }

    /// Adds rows. Returns false if they cannot be those of a dimension.
    fn add(&mut self, batch: &RecordBatch) -> Result<bool> {
        let (keys, others) = batch.columns().split_at(self.columns);
        let (attributes, payload) = others.split_at(self.attributes);
        self.numbers.clear();
        if let Some(groups) = &mut self.groups {
            groups.intern(attributes, &mut self.numbers)?;
        }
        // Rows whose key is NULL match nothing.
        let rows = (0..batch.num_rows()).filter(|row| keys.iter().all(|keys| keys.is_valid(*row)));
        let rows = Vec::from_iter(rows);
        let groups = rows.iter().filter_map(|row| self.numbers.get(*row));
        let groups = Vec::from_iter(groups.map(|number| *number as u32));
        let payload = payload.iter().map(|column| Ok(values(column)?.take(&rows)));
        let payload = payload.collect::<Result<Vec<MeasureValues>>>()?;
        if self.has_string_keys {
            let keys = strings(&keys[0])?;
            let keys = keys.as_string_view();
            let keys = rows.iter().map(|row| keys.value(*row).as_bytes());
            self.builder.extend_strings(keys, &groups, payload);
            return self.check();
        }
        let keys = keys.iter().map(integers).collect::<Result<Vec<_>>>()?;
        let keys: Vec<&Int64Array> = keys.iter().map(|keys| keys.as_primitive::<Int64Type>()).collect();
        let of_row = |row: &usize| keys.iter().map(|keys| keys.value(*row)).collect::<Vec<i64>>();
        let keys = Vec::from_iter(rows.iter().flat_map(of_row));
        self.builder.extend(keys, &groups, payload);
        self.check()
    }

    /// Adds the coded rows of a segment. Returns false if they cannot be those of a dimension.
    fn add_coded(&mut self, coded: CodedRows) -> Result<bool> {
        self.numbers.clear();
        if let Some(groups) = &mut self.groups {
            groups.intern(&coded.attributes, &mut self.numbers)?;
        }
        let number = |found: &u32| {
            self.numbers
                .get(*found as usize)
                .map_or(0, |number| *number as u32)
        };
        let groups: Vec<u32> = coded.found.iter().map(number).collect();
        self.builder.extend(coded.keys, &groups, coded.payload);
        self.check()
    }

    /// Updates the memory reservation. Returns false if the rows cannot be those of a dimension.
    fn check(&mut self) -> Result<bool> {
        let bytes = self.builder.bytes() + self.groups.as_ref().map_or(0, |groups| groups.size());
        self.peak = self.peak.max(bytes);
        self.memory.try_resize(bytes)?;
        let groups = self.groups.as_ref().map_or(0, |groups| groups.len());
        Ok(groups <= MOST_GROUPS && self.builder.rows() as u64 <= self.most)
    }

    fn finish(self) -> Result<Option<LoadedDimension>> {
        let made_of = self.memory.size();
        let dimension = match self.builder.finish() {
            Ok(dimension) => dimension,
            Err(JoinError::DuplicateKey { .. } | JoinError::KeyTooWide { .. }) => return Ok(None),
            Err(error) => return Err(external(error)),
        };
        let attributes = match self.groups {
            Some(mut groups) if !groups.is_empty() => groups.emit(EmitTo::All)?,
            _ => Vec::new(),
        };
        let of_attributes = attributes.iter().map(|array| array.get_array_memory_size());
        let takes = dimension.bytes() + of_attributes.sum::<usize>();
        // While the result was made, the input existed as well: the pool may refuse both together.
        self.memory.try_resize(made_of + takes)?;
        self.memory.try_resize(takes)?;
        Ok(Some(LoadedDimension {
            dimension,
            attributes,
            memory: self.memory,
            peak: self.peak.max(made_of + takes),
        }))
    }
}
