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
use datafusion::logical_expr::{Accumulator, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, StandardWindowExpr, WindowExpr};
use datafusion::physical_plan::windows::WindowUDFExpr;

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
    /// The number of the group of rows, if they are divided into as many groups of about the same size.
    Ntile(u64),
}

impl Passes {
    /// Returns the functions of windows that can be computed in two passes.
    ///
    /// # Errors
    /// The name of one that cannot.
    pub(super) fn new(windows: &[Arc<dyn WindowExpr>]) -> Result<Self, String> {
        let functions = windows
            .iter()
            .map(|window| TwoPass::of(window).ok_or_else(|| window.name().into()));
        let order_by = windows
            .first()
            .map(|window| window.order_by())
            .unwrap_or_default();
        Ok(Self {
            windows: functions.collect::<Result<_, String>>()?,
            order_by: order_by.iter().map(|sort| Arc::clone(&sort.expr)).collect(),
            peers: None,
            count: 0,
            returned: 0,
            before_peers: 0,
            groups: 0,
        })
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
        Ok(())
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
        Ok(())
    }

    /// Returns rows of the second pass with the columns of the functions.
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
        let (mut ranks, mut dense) = (Vec::new(), Vec::new());
        for run in peers.next(rows)? {
            if run.begins {
                self.before_peers = self.returned + run.rows.start as u64;
                self.groups += 1;
            }
            ranks.resize(run.rows.end, self.before_peers + 1);
            dense.resize(run.rows.end, self.groups);
        }
        let numbers = self.returned..self.returned + rows.num_rows() as u64;
        self.returned = numbers.end;
        let mut columns = rows.columns().to_vec();
        let count = self.count;
        for (window, field) in self.windows.iter().zip(&output.fields()[columns.len()..]) {
            let column: ArrayRef = match window {
                TwoPass::Constant { value, .. } => value.to_array_of_size(rows.num_rows())?,
                TwoPass::RowNumber => integers(numbers.clone().map(|number| number + 1)),
                TwoPass::Rank => integers(ranks.iter().copied()),
                TwoPass::DenseRank => integers(dense.iter().copied()),
                TwoPass::PercentRank => {
                    let others = count.saturating_sub(1).max(1) as f64;
                    let parts = ranks.iter().map(|rank| (rank - 1) as f64 / others);
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
            if !is_same_in_partition(plain) || has_filter(plain) {
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
            "ntile" => {
                let groups = function.args().first()?.downcast_ref::<Literal>()?.value();
                match groups.cast_to(&DataType::UInt64).ok()? {
                    ScalarValue::UInt64(Some(groups)) if groups > 0 => Some(Self::Ntile(groups)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let Self::Constant {
            args, accumulator, ..
        } = self
        else {
            return Ok(());
        };
        let values = args
            .iter()
            .map(|arg| arg.evaluate(rows)?.into_array(rows.num_rows()));
        accumulator.update_batch(&values.collect::<Result<Vec<ArrayRef>>>()?)
    }
}

/// Returns true if the frame of each row is the whole partition.
fn is_same_in_partition(window: &PlainAggregateWindowExpr) -> bool {
    let frame = window.get_window_frame();
    // Without ORDER BY, all rows are peers of the current one.
    let is_range = frame.units == WindowFrameUnits::Range && window.order_by().is_empty();
    let reaches = |bound: &WindowFrameBound| {
        bound.is_unbounded() || (is_range && matches!(bound, WindowFrameBound::CurrentRow))
    };
    reaches(&frame.start_bound) && reaches(&frame.end_bound)
}

/// Returns true unless it is certain that an aggregate has no `FILTER`, which DataFusion shows nowhere else.
fn has_filter(window: &PlainAggregateWindowExpr) -> bool {
    !format!("{window:?}").ends_with("filter: None }")
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
