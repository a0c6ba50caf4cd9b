//! Keys of sorts, windows and ordered aggregates.
//!
//! Of a key that stands twice only the first counts; DataFusion's `first_value` panics at the second. And
//! where another key decides among equal rows, or equal rows are peers, -0.0 equals 0.0.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Sort, WindowFunctionParams};
use datafusion::logical_expr::{DistinctOn, Expr, LogicalPlan};

use super::floats::{canonical_argument, is_float};
use super::rules::type_of;

/// Returns true if keys have to be changed.
fn need_change(keys: &[Sort], is_last_decisive: bool, schema: &DFSchema) -> bool {
    let repeats = |(at, key): (usize, &Sort)| keys.iter().take(at).any(|other| other.expr == key.expr);
    let decisive = keys.len().saturating_sub(usize::from(!is_last_decisive));
    keys.iter().enumerate().skip(1).any(repeats)
        || keys
            .iter()
            .take(decisive)
            .any(|key| is_plain_float(&key.expr, schema))
}

fn is_plain_float(expr: &Expr, schema: &DFSchema) -> bool {
    !matches!(expr, Expr::Literal(..)) && is_float(&type_of(expr, schema))
}

/// Returns the keys of a sort, each of them once. Floats are canonical where their equality matters: that of
/// the last key does only if `is_last_decisive`.
fn distinct(keys: Vec<Sort>, is_last_decisive: bool, schema: &DFSchema) -> Vec<Sort> {
    if !need_change(&keys, is_last_decisive, schema) {
        return keys;
    }
    let mut once: Vec<Sort> = Vec::with_capacity(keys.len());
    for key in keys {
        if !once.iter().any(|other| other.expr == key.expr) {
            once.push(key);
        }
    }
    let decisive = once.len().saturating_sub(usize::from(!is_last_decisive));
    for key in once.iter_mut().take(decisive) {
        unify(&mut key.expr, schema);
    }
    once
}

/// Makes a float canonical.
fn unify(expr: &mut Expr, schema: &DFSchema) {
    if is_plain_float(expr, schema) {
        *expr = canonical_argument(std::mem::take(expr));
    }
}

/// Changes the keys of an aggregate function.
pub(super) fn of_aggregate(order_by: &mut Vec<Sort>, schema: &DFSchema) {
    *order_by = distinct(std::mem::take(order_by), false, schema);
}

/// Changes the keys of a window.
pub(super) fn of_window(params: &mut WindowFunctionParams, schema: &DFSchema) {
    for expr in &mut params.partition_by {
        unify(expr, schema);
    }
    params.order_by = distinct(std::mem::take(&mut params.order_by), true, schema);
}

/// Changes the keys of a plan's root, if it sorts.
pub(super) fn of_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Sort(mut sort) => {
            sort.expr = distinct(sort.expr, false, sort.input.schema());
            LogicalPlan::Sort(sort)
        }
        other => other,
    })
}

/// Changes the keys of `DISTINCT ON`.
///
/// # Errors
/// The plan cannot be made again.
pub(super) fn of_distinct_on(on: DistinctOn) -> Result<DistinctOn> {
    let schema = Arc::clone(on.input.schema());
    let DistinctOn {
        on_expr,
        select_expr,
        sort_expr,
        input,
        ..
    } = on;
    let mut once: Vec<Expr> = Vec::with_capacity(on_expr.len());
    for mut expr in on_expr {
        unify(&mut expr, &schema);
        if !once.contains(&expr) {
            once.push(expr);
        }
    }
    let sort_expr = sort_expr.map(|mut keys| {
        for key in &mut keys {
            unify(&mut key.expr, &schema);
        }
        distinct(keys, true, &schema)
    });
    DistinctOn::try_new(once, select_expr, sort_expr, input)
}
