//! Sliding frames that DataFusion does not evaluate from their rows.
//!
//! It adds a row to an aggregate when the row enters the frame, and takes it out when it leaves. For floats
//! that is not exact: an infinity, a NaN or a large value that has left affects all later frames. Some
//! aggregates cannot take rows out at all.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{NullTreatment, WindowFunctionParams};
use datafusion::logical_expr::{
    AggregateUDF, Cast, Expr, ExprSchemable, WindowFrame, WindowFrameBound, WindowFrameUnits,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::expressions::{Literal, NoOp};

use super::function::expression;

/// The rows of the largest frame that is evaluated from its rows each time. Rows then need not be kept until
/// the end of their partition.
const MAX_ROWS: u64 = 1024;

/// Aggregates that are exact for floats, too.
const EXACT: [&str; 3] = ["count", "min", "max"];

/// Returns true if an aggregate over a frame has to be evaluated from the frame's rows; false for one that
/// DataFusion refuses.
pub(super) fn needs_rows(
    function: &Arc<AggregateUDF>,
    params: &WindowFunctionParams,
    schema: &DFSchema,
) -> bool {
    if params.window_frame.is_ever_expanding() {
        return false;
    }
    let floats = params.args.iter().any(|arg| has_fractions(arg, schema));
    if floats && !EXACT.contains(&function.name()) {
        return true;
    }
    takes_no_rows_out(function, params, schema).unwrap_or(false)
}

/// Returns true for an aggregate that cannot take rows out.
fn takes_no_rows_out(
    function: &Arc<AggregateUDF>,
    params: &WindowFunctionParams,
    schema: &DFSchema,
) -> Result<bool> {
    let fields = params.args.iter().map(|arg| Ok(arg.to_field(schema)?.1));
    let fields: Vec<FieldRef> = fields.collect::<Result<_>>()?;
    let exprs = params.args.iter().map(|arg| match arg {
        Expr::Literal(value, _) => Arc::new(Literal::new(value.clone())) as Arc<dyn PhysicalExpr>,
        _ => Arc::new(NoOp::new()),
    });
    let nulls = params.null_treatment == Some(NullTreatment::IgnoreNulls);
    let exprs: Vec<Arc<dyn PhysicalExpr>> = exprs.collect();
    let aggregate = expression(function, &exprs, &fields, nulls, params.distinct)?;
    let accumulator = aggregate.create_sliding_accumulator();
    Ok(!accumulator.is_ok_and(|accumulator| accumulator.supports_retract_batch()))
}

/// Returns true for floats, unless they are integers of up to 32 bits, whose sums are exact.
fn has_fractions(arg: &Expr, schema: &DFSchema) -> bool {
    let type_of = |expr: &Expr| expr.get_type(schema).unwrap_or(DataType::Null);
    let inner = match arg {
        Expr::Cast(Cast { expr, .. }) => type_of(expr),
        _ => DataType::Null,
    };
    let is_small = inner.is_integer() && inner.primitive_width().is_some_and(|width| width <= 4);
    type_of(arg).is_floating() && !is_small
}

/// Returns true for frames of few rows.
pub(super) fn is_short(frame: &WindowFrame) -> bool {
    let distance = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => Some(0),
        WindowFrameBound::Preceding(ScalarValue::UInt64(Some(rows)))
        | WindowFrameBound::Following(ScalarValue::UInt64(Some(rows))) => Some(*rows),
        _ => None,
    };
    let rows = (distance(&frame.start_bound), distance(&frame.end_bound));
    frame.units == WindowFrameUnits::Rows
        && matches!(rows, (Some(start), Some(end)) if start.saturating_add(end) < MAX_ROWS)
}
