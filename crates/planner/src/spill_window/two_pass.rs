//! The work of one function in the two passes over a partition.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{Accumulator, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, StandardWindowExpr, WindowExpr};
use datafusion::physical_plan::windows::WindowUDFExpr;

use super::file_columns::FileColumns;
use super::filter::has_no_filter;
use super::in_frames::{FrameFunction, InFrames};
use crate::sort_aggregate::is_of_sorted_values;

/// The work of a function in the two passes.
pub(super) enum TwoPass {
    /// The aggregate of all rows.
    Constant {
        args: Vec<Arc<dyn PhysicalExpr>>,
        accumulator: Box<dyn Accumulator>,
        value: ScalarValue,
    },
    /// The aggregate of all rows, which is computed from sorted values between the passes.
    OfSortedValues {
        aggregate: Arc<AggregateFunctionExpr>,
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
    /// The number of a row's group, if rows are divided into this number of groups of about the same size.
    Ntile(u64),
    /// A function over frames, and the columns that it reads.
    InFrames {
        function: Box<FrameFunction>,
        columns: Vec<usize>,
        /// In the second pass.
        begun: Option<Box<InFrames>>,
    },
}

/// The place of a row in its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowPlace {
    /// Counted from 0.
    At(u64),
    Last,
}

impl TwoPass {
    /// Returns the work of a window, which adds to the columns what it reads.
    pub(super) fn from_window(window: &Arc<dyn WindowExpr>, columns: &mut FileColumns) -> Option<Self> {
        if let Some(of_partition) = Self::of_partition(window) {
            return Some(of_partition);
        }
        let function = FrameFunction::from_window(window, columns.schema())?;
        let reads = function.reads().into_iter().map(|expr| columns.add(expr));
        Some(Self::InFrames {
            columns: reads.collect::<Option<_>>()?,
            function: Box::new(function),
            begun: None,
        })
    }

    /// Returns the work of a window without frames.
    fn of_partition(window: &Arc<dyn WindowExpr>) -> Option<Self> {
        if let Some(plain) = window.as_any().downcast_ref::<PlainAggregateWindowExpr>() {
            if !is_same_in_partition(window) || !has_no_filter(&**window) {
                return None;
            }
            let aggregate = plain.get_aggregate_expr();
            if is_of_sorted_values(aggregate) {
                return Some(Self::OfSortedValues {
                    aggregate: Arc::new(aggregate.clone()),
                    value: ScalarValue::Null,
                });
            }
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
                if is_same_in_partition(window) && takes_rows_as_they_are(function) =>
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

    /// Returns the bytes in memory.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Constant { accumulator, .. } => accumulator.size(),
            Self::InFrames {
                begun: Some(function),
                ..
            } => function.size(),
            _ => 0,
        }
    }

    pub(super) fn add(&mut self, rows: &RecordBatch) -> Result<()> {
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
pub(super) fn is_same_in_partition(window: &Arc<dyn WindowExpr>) -> bool {
    let frame = window.get_window_frame();
    // Without ORDER BY, all rows are peers of the current one.
    let is_range = frame.units == WindowFrameUnits::Range && window.order_by().is_empty();
    let reaches = |bound: &WindowFrameBound| {
        bound.is_unbounded() || (is_range && matches!(bound, WindowFrameBound::CurrentRow))
    };
    reaches(&frame.start_bound) && reaches(&frame.end_bound)
}
