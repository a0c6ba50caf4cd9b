//! Rows of several values, `(a, b)`, as the operand of `IN` and as the only column of its subquery.
//!
//! [`semantics`](halocline_sql::semantics) writes `(a, b) IN (SELECT …)` as a comparison of calls of
//! `row_value`, which type coercion gives equal types; this module splits the calls into their columns again.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection};
use halocline_sql::row_value::ROW_VALUE;
use halocline_sql::semantics::canonical_float;

use super::correlation::{by_output, by_position, substitute};
use super::names::FreshNames;
use super::rule::unsupported;

/// Takes apart the rows that are compared: returns the values of the operand, and the subquery with a column
/// for each. A single value stays what it is.
///
/// # Errors
/// The two have different numbers of values.
pub(super) fn split_rows(
    expr: Expr,
    plan: LogicalPlan,
    names: &mut FreshNames,
) -> Result<(Vec<Expr>, LogicalPlan)> {
    let Some(values) = items(&expr) else {
        return Ok((vec![expr], plan));
    };
    let (mut plan, mut row) = match plan.schema().columns().into_iter().next() {
        Some(column) => (plan, Expr::Column(column)),
        None => return Err(different()),
    };
    // Down to the projection that makes the rows.
    let columns = loop {
        if let Some(items) = items(&row) {
            break items;
        }
        let (input, by) = match plan {
            LogicalPlan::Projection(projection) => {
                let by = by_output(&projection.schema, &projection.expr);
                (Arc::unwrap_or_clone(projection.input), by)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let by = by_position(&alias.schema, alias.input.schema());
                (Arc::unwrap_or_clone(alias.input), by)
            }
            _ => return Err(different()),
        };
        row = substitute(row, &by)?;
        plan = input;
    };
    if columns.len() != values.len() {
        return Err(different());
    }
    let mut exprs = Vec::with_capacity(columns.len());
    for column in columns {
        let column = if column.get_type(plan.schema())?.is_floating() {
            canonical_float(column)
        } else {
            column
        };
        exprs.push(column.alias(names.next()));
    }
    let values = values.into_iter().zip(&exprs).map(|(value, column)| {
        if column
            .get_type(plan.schema())
            .is_ok_and(|found| found.is_floating())
        {
            canonical_float(value)
        } else {
            value
        }
    });
    let values = values.collect();
    let plan = Projection::try_new(exprs, Arc::new(plan))?;
    Ok((values, LogicalPlan::Projection(plan)))
}

fn different() -> DataFusionError {
    unsupported(
        "a comparison of rows with different numbers of values",
        "give both sides the same number of values",
    )
}

/// Returns the values of a row, cast to the types that the row is cast to.
fn items(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Alias(alias) => items(&alias.expr),
        Expr::ScalarFunction(function) if function.name() == ROW_VALUE => Some(function.args.clone()),
        Expr::Cast(Cast { expr, field }) => {
            let DataType::Struct(fields) = field.data_type() else {
                return None;
            };
            let items = items(expr)?.into_iter().zip(fields);
            let cast =
                items.map(|(item, field)| Expr::Cast(Cast::new(Box::new(item), field.data_type().clone())));
            Some(cast.collect())
        }
        _ => None,
    }
}
