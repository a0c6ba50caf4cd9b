//! Functions over a partition that is read twice.
//!
//! The first pass aggregates the values of all rows, and counts them; the second returns a value for each
//! row.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt64Array};
use arrow_cast::cast;
use arrow_schema::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::{Accumulator, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, StandardWindowExpr, WindowExpr};
use datafusion::physical_plan::windows::WindowUDFExpr;

use super::filter::has_no_filter;
use super::peer_ends::{EndsInOrder, PeerEnds};
use crate::key_runs::KeyRuns;

/// The functions of one partition.
pub(super) struct Passes {
    windows: Vec<TwoPass>,
    /// Runs of rows that are equal by ORDER BY.
    order_by: Vec<Arc<dyn PhysicalExpr>>,
    peers: Option<KeyRuns>,
    /// All rows of the partition.
    count: u64,
    /// Rows that the second pass has returned, those before the last group of peers, and these groups.
    returned: u64,
    before_peers: u64,
    groups: u64,
    /// The ends of the groups of peers, if a function needs them: in the first pass, and in the second one
    /// with that of the last group.
    ends: Option<PeerEnds>,
    ends_in_order: Option<EndsInOrder>,
    end_of_peers: u64,
}

/// The work of a function in the two passes.
enum TwoPass {
    /// The aggregate of all rows.
    Constant {
        args: Vec<Arc<dyn PhysicalExpr>>,
        accumulator: Box<dyn Accumulator>,
        value: ScalarValue,
    },
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    /// The value of one row.
    OfRow {
        arg: Arc<dyn PhysicalExpr>,
        place: RowPlace,
        /// Rows so far.
        seen: u64,
        value: ScalarValue,
    },
    /// The number of the group of rows, if they are divided into as many groups of about the same size.
    Ntile(u64),
}

/// The place of a row in its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowPlace {
    /// Counted from 0.
    At(u64),
    Last,
}

impl Passes {
    /// Returns true if windows can be computed in two passes.
    pub(super) fn are_two(windows: &[Arc<dyn WindowExpr>]) -> bool {
        windows.iter().all(|window| TwoPass::of(window).is_some())
    }

    /// Returns the functions of windows, if they can be computed in two passes; otherwise the name of one
    /// that cannot.
    ///
    /// # Errors
    /// A temporary file cannot be created.
    pub(super) fn new(
        windows: &[Arc<dyn WindowExpr>],
        runtime: &Arc<RuntimeEnv>,
    ) -> Result<Result<Self, String>> {
        let functions = windows
            .iter()
            .map(|window| TwoPass::of(window).ok_or_else(|| window.name().into()));
        let order_by = windows
            .first()
            .map(|window| window.order_by())
            .unwrap_or_default();
        let windows = match functions.collect::<Result<Vec<TwoPass>, String>>() {
            Ok(windows) => windows,
            Err(name) => return Ok(Err(name)),
        };
        let order_by: Vec<_> = order_by.iter().map(|sort| Arc::clone(&sort.expr)).collect();
        let needs_ends = windows.iter().any(|window| matches!(window, TwoPass::CumeDist));
        let ends = needs_ends.then(|| PeerEnds::new(runtime, order_by.clone()));
        Ok(Ok(Self {
            windows,
            order_by,
            peers: None,
            count: 0,
            returned: 0,
            before_peers: 0,
            groups: 0,
            ends: ends.transpose()?,
            ends_in_order: None,
            end_of_peers: 0,
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
        match &mut self.ends {
            Some(ends) => ends.add(rows),
            None => Ok(()),
        }
    }

    /// Ends the first pass.
    ///
    /// # Errors
    /// An aggregate overflows.
    pub(super) fn end_first(&mut self) -> Result<()> {
        for window in &mut self.windows {
            if let TwoPass::Constant {
                accumulator, value, ..
            } = window
            {
                *value = accumulator.evaluate()?;
            }
        }
        self.ends_in_order = self.ends.take().map(PeerEnds::finish).transpose()?;
        Ok(())
    }

    /// Reads what the second pass needs for so many rows.
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
        for (window, field) in self.windows.iter().zip(&output.fields()[columns.len()..]) {
            let column: ArrayRef = match window {
                TwoPass::Constant { value, .. } | TwoPass::OfRow { value, .. } => {
                    value.to_array_of_size(rows.num_rows())?
                }
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
            };
            columns.push(cast(&column, field.data_type())?);
        }
        Ok(RecordBatch::try_new(Arc::clone(output), columns)?)
    }
}

fn integers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

/// Returns the group, from 1, of a row of `count`, of which the first groups have one more if they cannot all
/// have the same number.
fn tile(number: u64, count: u64, groups: u64) -> u64 {
    let (least, larger) = (count / groups, count % groups);
    let in_larger = larger * (least + 1);
    match number < in_larger {
        true => number / (least + 1) + 1,
        false => larger + (number - in_larger) / least + 1,
    }
}

impl TwoPass {
    fn of(window: &Arc<dyn WindowExpr>) -> Option<Self> {
        if let Some(plain) = window.as_any().downcast_ref::<PlainAggregateWindowExpr>() {
            if !is_same_in_partition(&**window) || !has_no_filter(&**window) {
                return None;
            }
            let aggregate = plain.get_aggregate_expr();
            return Some(Self::Constant {
                args: aggregate.expressions(),
                accumulator: aggregate.create_accumulator().ok()?,
                value: ScalarValue::Null,
            });
        }
        let standard = window.as_any().downcast_ref::<StandardWindowExpr>()?;
        let function = standard
            .get_standard_func_expr()
            .as_any()
            .downcast_ref::<WindowUDFExpr>()?;
        match function.fun().name() {
            "row_number" => Some(Self::RowNumber),
            "rank" => Some(Self::Rank),
            "dense_rank" => Some(Self::DenseRank),
            "percent_rank" => Some(Self::PercentRank),
            "cume_dist" => Some(Self::CumeDist),
            name @ ("first_value" | "last_value" | "nth_value")
                if is_same_in_partition(&**window) && takes_rows_as_they_are(function) =>
            {
                Some(Self::OfRow {
                    arg: Arc::clone(function.args().first()?),
                    place: match name {
                        "first_value" => RowPlace::At(0),
                        "last_value" => RowPlace::Last,
                        _ => RowPlace::At(positive(function.args().get(1)?)? - 1),
                    },
                    seen: 0,
                    value: ScalarValue::try_from(window.field().ok()?.data_type()).ok()?,
                })
            }
            "ntile" => Some(Self::Ntile(positive(function.args().first()?)?)),
            _ => None,
        }
    }

    fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        match self {
            Self::Constant {
                args, accumulator, ..
            } => accumulator.update_batch(&values(args, rows)?),
            Self::OfRow {
                arg,
                place,
                seen,
                value,
            } => {
                let count = rows.num_rows() as u64;
                let at = match *place {
                    RowPlace::At(at) => at.checked_sub(*seen).filter(|at| *at < count),
                    RowPlace::Last => count.checked_sub(1),
                };
                *seen += count;
                if let Some(at) = at {
                    let row = rows.slice(at as usize, 1);
                    *value = ScalarValue::try_from_array(&arg.evaluate(&row)?.into_array(1)?, 0)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Returns a literal that is a whole number above zero.
fn positive(literal: &Arc<dyn PhysicalExpr>) -> Option<u64> {
    let value = literal.downcast_ref::<Literal>()?.value();
    match value.cast_to(&DataType::UInt64).ok()? {
        ScalarValue::UInt64(Some(value)) if value > 0 => Some(value),
        _ => None,
    }
}

/// Evaluates arguments.
fn values(args: &[Arc<dyn PhysicalExpr>], rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let values = args
        .iter()
        .map(|arg| arg.evaluate(rows)?.into_array(rows.num_rows()));
    values.collect()
}

/// Returns true if it is certain that a function takes NULL as any other value, and the rows from the first
/// to the last: DataFusion shows that nowhere else.
fn takes_rows_as_they_are(function: &WindowUDFExpr) -> bool {
    format!("{function:?}").ends_with("is_reversed: false, ignore_nulls: false }")
}

/// Returns true if the frame of each row is the whole partition.
fn is_same_in_partition(window: &dyn WindowExpr) -> bool {
    let frame = window.get_window_frame();
    // Without ORDER BY, all rows are peers of the current one.
    let is_range = frame.units == WindowFrameUnits::Range && window.order_by().is_empty();
    let reaches = |bound: &WindowFrameBound| {
        bound.is_unbounded() || (is_range && matches!(bound, WindowFrameBound::CurrentRow))
    };
    reaches(&frame.start_bound) && reaches(&frame.end_bound)
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
