//! Functions over frames, row by row.
//!
//! They read arrays of all rows of a partition, in memory or in [files](super::file_columns), and return the
//! results of some rows at a time. DataFusion collects a scalar for each row of the partition first, which
//! takes several times the memory of its rows.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, new_empty_array};
use arrow_schema::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::window_state::WindowFrameContext;
use datafusion::logical_expr::{Accumulator, PartitionEvaluator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_plan::windows::WindowUDFExpr;
use halocline_sql::semantics::aggregate_over_frames;

use super::filter::has_no_filter;
use super::rows_ahead::{RowsAhead, lead_ignoring_nulls};
use super::suffix::Suffixes;

/// A function that can be evaluated row by row.
pub(super) struct FrameFunction {
    window: Arc<dyn WindowExpr>,
    kind: Kind,
    data_type: DataType,
}

#[derive(Clone)]
enum Kind {
    /// An aggregate over frames that only grow.
    Growing(AggregateFunctionExpr),
    /// An aggregate whose accumulator can give rows back.
    Sliding(AggregateFunctionExpr),
    /// An aggregate over frames that end with the partition.
    ToTheEnd(AggregateFunctionExpr),
    /// A function over the rows of frames.
    Framed(Arc<StandardWindowExprOf>),
    /// A function over rows that it names itself.
    Unframed(Arc<StandardWindowExprOf>),
    /// `lead` with `IGNORE NULLS`: the rows that are left out, and the value for rows without another.
    LeadIgnoringNulls(usize, ScalarValue),
}

type StandardWindowExprOf = dyn datafusion::physical_expr::window::StandardWindowFunctionExpr;

impl FrameFunction {
    /// Returns the function of a window over rows of a schema, if it is one.
    pub(super) fn from_window(window: &Arc<dyn WindowExpr>, schema: &Schema) -> Option<Self> {
        let kind = Kind::from_window(window, schema)?;
        Some(Self {
            data_type: window.field().ok()?.data_type().clone(),
            window: Arc::clone(window),
            kind,
        })
    }

    /// Returns the expressions whose values it reads: its arguments, and then the keys of `ORDER BY`.
    pub(super) fn reads(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let keys = self.window.order_by().iter().map(|sort| Arc::clone(&sort.expr));
        let mut reads = self.window.expressions();
        if self.kind.has_frames() {
            reads.extend(keys);
        }
        reads
    }

    /// Begins with a partition of `rows` rows. `values` are those of [`reads`](Self::reads).
    ///
    /// # Errors
    /// The function does not take such values.
    pub(super) fn begin(&self, values: Vec<ArrayRef>, rows: usize) -> Result<InFrames> {
        let arguments = self.window.expressions().len();
        let work = match &self.kind {
            Kind::Growing(aggregate) => Work::Aggregate {
                accumulator: aggregate.create_accumulator()?,
                none: aggregate.default_value(&self.data_type)?,
            },
            Kind::Sliding(aggregate) => Work::Aggregate {
                accumulator: aggregate.create_sliding_accumulator()?,
                none: aggregate.default_value(&self.data_type)?,
            },
            Kind::ToTheEnd(aggregate) => {
                let suffixes = Suffixes::new(aggregate.clone(), values[..arguments].to_vec(), rows);
                Work::ToTheEnd(Box::new(suffixes))
            }
            Kind::Framed(function) | Kind::Unframed(function) => Work::Rows(function.create_evaluator()?),
            Kind::LeadIgnoringNulls(offset, default) => {
                Work::Ahead(RowsAhead::new(&values[0], *offset, default.clone()))
            }
        };
        let options = self.window.order_by().iter().map(|sort| sort.options).collect();
        let frame = WindowFrameContext::new(Arc::clone(self.window.get_window_frame()), options);
        Ok(InFrames {
            work,
            frame: self.kind.has_frames().then_some(frame),
            data_type: self.data_type.clone(),
            values,
            arguments,
            rows,
            next: 0,
            last: 0..0,
        })
    }
}

impl Kind {
    fn from_window(window: &Arc<dyn WindowExpr>, schema: &Schema) -> Option<Self> {
        let to_the_end = window.get_window_frame().end_bound.is_unbounded();
        if !has_no_filter(&**window) {
            return None;
        }
        if let Some(plain) = window.as_any().downcast_ref::<PlainAggregateWindowExpr>() {
            return Some(Self::Growing(plain.get_aggregate_expr().clone()));
        }
        if let Some(sliding) = window.as_any().downcast_ref::<SlidingAggregateWindowExpr>() {
            let aggregate = sliding.get_aggregate_expr().clone();
            return Some(if to_the_end && Suffixes::takes(&aggregate) {
                Self::ToTheEnd(aggregate)
            } else {
                Self::Sliding(aggregate)
            });
        }
        let standard = window.as_any().downcast_ref::<StandardWindowExpr>()?;
        let function = standard.get_standard_func_expr();
        let of_user = function.as_any().downcast_ref::<WindowUDFExpr>();
        if to_the_end
            && let Some(aggregate) = of_user.and_then(|function| aggregate_over_frames(function, schema))
            && Suffixes::takes(&aggregate)
        {
            return Some(Self::ToTheEnd(aggregate));
        }
        let evaluator = function.create_evaluator().ok()?;
        if evaluator.uses_window_frame() {
            return Some(Self::Framed(Arc::clone(function)));
        }
        if evaluator.supports_bounded_execution() && !evaluator.include_rank() {
            return Some(Self::Unframed(Arc::clone(function)));
        }
        let (offset, default) = lead_ignoring_nulls(of_user?, schema)?;
        Some(Self::LeadIgnoringNulls(offset, default))
    }

    fn has_frames(&self) -> bool {
        !matches!(self, Self::Unframed(_) | Self::LeadIgnoringNulls(..))
    }
}

/// The evaluation of a function over a partition.
pub(super) struct InFrames {
    work: Work,
    /// `None` for functions without frames.
    frame: Option<WindowFrameContext>,
    data_type: DataType,
    /// The arguments, and then the keys of `ORDER BY`.
    values: Vec<ArrayRef>,
    arguments: usize,
    rows: usize,
    /// The next row, and the frame of the one before.
    next: usize,
    last: Range<usize>,
}

enum Work {
    Aggregate {
        accumulator: Box<dyn Accumulator>,
        /// The result of no rows.
        none: ScalarValue,
    },
    ToTheEnd(Box<Suffixes>),
    Rows(Box<dyn PartitionEvaluator>),
    Ahead(RowsAhead),
}

impl InFrames {
    /// Returns the results of the next rows.
    ///
    /// # Errors
    /// The function fails, as by an overflow.
    pub(super) fn next(&mut self, rows: usize) -> Result<ArrayRef> {
        let end = (self.next + rows).min(self.rows);
        let results = (self.next..end).map(|row| self.value(row));
        let results: Vec<ScalarValue> = results.collect::<Result<_>>()?;
        self.next = end;
        if results.is_empty() {
            Ok(new_empty_array(&self.data_type))
        } else {
            ScalarValue::iter_to_array(results)
        }
    }

    /// Returns the bytes of an aggregate's state.
    pub(super) fn size(&self) -> usize {
        match &self.work {
            Work::Aggregate { accumulator, .. } => accumulator.size(),
            Work::ToTheEnd(_) | Work::Rows(_) | Work::Ahead(_) => 0,
        }
    }

    fn value(&mut self, row: usize) -> Result<ScalarValue> {
        let (arguments, keys) = self.values.split_at(self.arguments);
        let range = match (&mut self.frame, &mut self.work) {
            (Some(frame), _) => frame.calculate_range(keys, &self.last, self.rows, row)?,
            (None, Work::Rows(evaluator)) => evaluator.get_range(row, self.rows)?,
            (None, _) => 0..self.rows,
        };
        let value = match &mut self.work {
            Work::Aggregate { accumulator, none } => {
                let part = |from: usize, to: usize| -> Vec<ArrayRef> {
                    let parts = arguments.iter().map(|column| column.slice(from, to - from));
                    parts.collect()
                };
                // An empty frame is after all rows that were in one.
                if range.end > self.last.end && !range.is_empty() {
                    accumulator.update_batch(&part(self.last.end, range.end))?;
                }
                let left = if range.is_empty() {
                    self.last.end
                } else {
                    range.start
                };
                if left > self.last.start {
                    accumulator.retract_batch(&part(self.last.start, left))?;
                }
                if range.is_empty() {
                    Ok(none.clone())
                } else {
                    accumulator.evaluate()
                }
            }
            Work::ToTheEnd(suffixes) => suffixes.from(range.start),
            Work::Rows(evaluator) => evaluator.evaluate(&self.values, &range),
            Work::Ahead(ahead) => ahead.from(row),
        };
        self.last = range;
        value
    }
}
