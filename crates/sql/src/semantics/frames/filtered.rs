//! `FILTER` of aggregates over windows as part of their argument.
//!
//! DataFusion's window expression does not show its filter, without which a partition that does not fit into
//! memory cannot be evaluated.

use datafusion::common::Result;
use datafusion::logical_expr::expr::WindowFunctionParams;
use datafusion::logical_expr::{AggregateUDF, when};

/// Aggregates of values that are not NULL.
const WITHOUT_NULLS: [&str; 16] = [
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "max",
    "median",
    "min",
    "stddev",
    "stddev_pop",
    "string_agg",
    "sum",
    "var",
    "var_pop",
];

/// Replaces the filter of an aggregate by an argument that is NULL for the other rows.
///
/// # Errors
/// The argument and the condition do not go together.
pub(super) fn move_into_argument(function: &AggregateUDF, params: &mut WindowFunctionParams) -> Result<()> {
    if !WITHOUT_NULLS.contains(&function.name()) {
        return Ok(());
    }
    if let Some(argument) = params.args.first_mut()
        && let Some(filter) = params.filter.take()
    {
        *argument = when(*filter, argument.clone()).end()?;
    }
    Ok(())
}
