//! Functions over a partition that is read twice.
//!
//! The first pass aggregates the values of all rows, counts them, and writes what functions over frames read
//! to files; the second returns a value for each row.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt64Array, new_empty_array};
use arrow_cast::cast;
use arrow_schema::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::window::WindowExpr;
use halocline_catalog::spill_files::SpillFiles;

use super::file_columns::FileColumns;
use super::peer_ends::{EndsInOrder, PeerEnds};
use super::two_pass::TwoPass;
use crate::key_runs::KeyRuns;
use crate::sort_aggregate::of_all_rows;

/// The functions of one partition.
pub(super) struct Passes {
    windows: Vec<TwoPass>,
    names: Vec<String>,
    /// Runs of rows that are equal by ORDER BY.
    order_by: Vec<Arc<dyn PhysicalExpr>>,
    peers: Option<KeyRuns>,
    /// All rows of the partition.
    count: u64,
    /// Rows returned by the second pass.
    returned: u64,
    /// Rows before the last peer group.
    before_peers: u64,
    /// Peer groups so far.
    groups: u64,
    /// The ends of the peer groups as the first pass finds them, if a function needs them.
    ends: Option<PeerEnds>,
    /// The same ends for the second pass.
    ends_in_order: Option<EndsInOrder>,
    /// The end of the last peer group, in the second pass.
    end_of_peers: u64,
    /// The columns that functions over frames read.
    columns: FileColumns,
}

impl Passes {
    /// Returns true if windows can be computed in two passes.
    pub(super) fn can_run_in_two_passes(windows: &[Arc<dyn WindowExpr>], schema: &SchemaRef) -> bool {
        let mut columns = FileColumns::new(schema);
        windows
            .iter()
            .all(|window| TwoPass::from_window(window, &mut columns).is_some())
    }

    /// Returns the functions of windows over rows of a schema, if they can be computed in two passes;
    /// otherwise the name of one that cannot.
    ///
    /// # Errors
    /// A temporary file cannot be created.
    pub(super) fn new(
        windows: &[Arc<dyn WindowExpr>],
        schema: &SchemaRef,
        runtime: &Arc<RuntimeEnv>,
        files: &SpillFiles,
    ) -> Result<Result<Self, String>> {
        let mut columns = FileColumns::new(schema);
        let names = windows.iter().map(|window| window.name().to_owned()).collect();
        let functions = windows
            .iter()
            .map(|window| TwoPass::from_window(window, &mut columns).ok_or_else(|| window.name().into()));
        let order_by = windows
            .first()
            .map(|window| window.order_by())
            .unwrap_or_default();
        let windows = match functions.collect::<Result<Vec<TwoPass>, String>>() {
            Ok(windows) => windows,
            Err(name) => return Ok(Err(name)),
        };
        columns.create(files)?;
        let order_by: Vec<_> = order_by.iter().map(|sort| Arc::clone(&sort.expr)).collect();
        let needs_ends = windows.iter().any(|window| matches!(window, TwoPass::CumeDist));
        let ends = needs_ends.then(|| PeerEnds::new(runtime, order_by.clone()));
        Ok(Ok(Self {
            windows,
            names,
            order_by,
            peers: None,
            count: 0,
            returned: 0,
            before_peers: 0,
            groups: 0,
            ends: ends.transpose()?,
            ends_in_order: None,
            end_of_peers: 0,
            columns,
        }))
    }

    /// Reads rows in the first pass.
    ///
    /// # Errors
    /// An argument cannot be evaluated, or aggregated.
    pub(super) fn first(&mut self, rows: &RecordBatch) -> Result<()> {
        self.count += rows.num_rows() as u64;
        for window in &mut self.windows {
            window.add(rows)?;
        }
        self.columns.append(rows)?;
        match &mut self.ends {
            Some(ends) => ends.add(rows),
            None => Ok(()),
        }
    }

    /// Ends the first pass.
    ///
    /// # Errors
    /// An aggregate overflows; a temporary file cannot be written.
    pub(super) fn end_first(&mut self) -> Result<()> {
        let arrays = self.columns.finish()?;
        for window in &mut self.windows {
            match window {
                TwoPass::Constant {
                    accumulator, value, ..
                } => *value = accumulator.evaluate()?,
                TwoPass::InFrames {
                    function,
                    columns,
                    begun,
                } => {
                    let reads = columns.iter().map(|column| Arc::clone(&arrays[*column]));
                    let function = function.begin(reads.collect(), self.count as usize)?;
                    *begun = Some(Box::new(function));
                }
                _ => {}
            }
        }
        self.ends_in_order = self.ends.take().map(PeerEnds::finish).transpose()?;
        Ok(())
    }

    /// Computes aggregates of sorted values, between the passes. `rows` returns those of the partition.
    ///
    /// # Errors
    /// The rows cannot be read, or sorted.
    pub(super) async fn sort_values(
        &mut self,
        rows: impl FnOnce() -> Result<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> Result<()> {
        let mut aggregates = Vec::new();
        for window in &self.windows {
            if let TwoPass::OfSortedValues { aggregate, .. } = window {
                aggregates.push(Arc::clone(aggregate));
            }
        }
        if aggregates.is_empty() {
            return Ok(());
        }
        let mut results = of_all_rows(rows()?, aggregates, context).await?.into_iter();
        for window in &mut self.windows {
            if let TwoPass::OfSortedValues { value, .. } = window {
                *value = results.next().unwrap_or(ScalarValue::Null);
            }
        }
        Ok(())
    }

    /// Returns the number of rows of the first pass so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the bytes that functions have in memory, and the name of the one that has most.
    pub(super) fn size(&self) -> (usize, Option<&str>) {
        let sizes = self.windows.iter().map(TwoPass::size);
        let most = sizes.clone().enumerate().max_by_key(|(_, size)| *size);
        let name = most.map(|(at, _)| self.names[at].as_str());
        (sizes.sum::<usize>() + self.columns.size(), name)
    }

    /// Reads ahead what the second pass needs for the next `rows` rows.
    ///
    /// # Errors
    /// A temporary file cannot be read.
    pub(super) async fn read_ahead(&mut self, rows: usize) -> Result<()> {
        match &mut self.ends_in_order {
            Some(ends) => ends.read_ahead(rows).await,
            None => Ok(()),
        }
    }

    /// Returns rows of the second pass with the columns of the functions. [`read_ahead`](Self::read_ahead)
    /// was called for them.
    ///
    /// # Errors
    /// The keys of ORDER BY cannot be compared.
    pub(super) fn second(&mut self, rows: &RecordBatch, output: &SchemaRef) -> Result<RecordBatch> {
        let peers = match &mut self.peers {
            Some(peers) => peers,
            None => self
                .peers
                .insert(KeyRuns::new(self.order_by.clone(), &rows.schema())?),
        };
        // The rank and the dense rank of each row, from 1.
        let (mut ranks, mut dense, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for run in peers.next(rows)? {
            if run.begins {
                self.before_peers = self.returned + run.rows.start as u64;
                self.groups += 1;
                self.end_of_peers = self.ends_in_order.as_mut().map_or(0, EndsInOrder::next);
            }
            ends.resize(run.rows.end, self.end_of_peers);
            ranks.resize(run.rows.end, self.before_peers + 1);
            dense.resize(run.rows.end, self.groups);
        }
        let numbers = self.returned..self.returned + rows.num_rows() as u64;
        self.returned = numbers.end;
        let mut columns = rows.columns().to_vec();
        let count = self.count;
        for (window, field) in self.windows.iter_mut().zip(&output.fields()[columns.len()..]) {
            let column: ArrayRef = match window {
                TwoPass::Constant { value, .. }
                | TwoPass::OfSortedValues { value, .. }
                | TwoPass::OfRow { value, .. } => value.to_array_of_size(rows.num_rows())?,
                TwoPass::RowNumber => integers(numbers.clone().map(|number| number + 1)),
                TwoPass::Rank => integers(ranks.iter().copied()),
                TwoPass::DenseRank => integers(dense.iter().copied()),
                TwoPass::PercentRank => {
                    let others = count.saturating_sub(1).max(1) as f64;
                    let parts = ranks.iter().map(|rank| (rank - 1) as f64 / others);
                    Arc::new(Float64Array::from_iter_values(parts))
                }
                TwoPass::CumeDist => {
                    let parts = ends.iter().map(|end| *end as f64 / count as f64);
                    Arc::new(Float64Array::from_iter_values(parts))
                }
                TwoPass::Ntile(groups) => {
                    integers(numbers.clone().map(|number| tile(number, count, *groups)))
                }
                TwoPass::InFrames { begun, .. } => match begun {
                    Some(function) => function.next(rows.num_rows())?,
                    None => new_empty_array(field.data_type()),
                },
            };
            columns.push(cast(&column, field.data_type())?);
        }
        Ok(RecordBatch::try_new(Arc::clone(output), columns)?)
    }
}

fn integers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

/// Returns the `ntile` bucket (from 1) of row `number` (from 0) of `count`; the first `count % groups`
/// buckets have one row more.
fn tile(number: u64, count: u64, groups: u64) -> u64 {
    let (least, larger) = (count / groups, count % groups);
    let in_larger = larger * (least + 1);
    if number < in_larger {
        number / (least + 1) + 1
    } else {
        larger + (number - in_larger) / least + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_divided_into_groups_of_about_the_same_size() {
        for (count, groups) in [(10, 4), (3, 5), (12, 4), (1, 1), (7, 7), (100, 9)] {
            let mut sizes = vec![0_u64; groups as usize];
            let mut last = 1;
            for number in 0..count {
                let group = tile(number, count, groups);
                assert!(group >= last, "{count} {groups}");
                last = group;
                sizes[group as usize - 1] += 1;
            }
            let expected = (0..groups).map(|group| count / groups + u64::from(group < count % groups));
            assert_eq!(sizes, expected.collect::<Vec<_>>());
        }
    }
}
