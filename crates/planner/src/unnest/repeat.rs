//! Which plans have the same rows each time they are evaluated.
//!
//! The outer plan of a dependent join is evaluated for the join and for its domain. Unless both evaluations
//! have the same rows, one is made that both read.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionDefinition};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, ExprSchemable, LogicalPlan, Window, WindowFrame};

use super::correlation::{is_correlated, subplan};
use super::names::FreshNames;
use crate::materialized::{evaluated_once, materialized_input};

/// Aggregates that do not depend on the order of the rows, unless they add up floats.
const ORDERLESS: &[&str] = &[
    "count", "min", "max", "sum", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor",
];

/// Returns true for a plan that has functions that return something else each time.
///
/// # Errors
/// The plan cannot be traversed.
pub(super) fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found = found || expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

/// Returns true if one of the subqueries of an expression has to run for each row of the outer plan.
///
/// # Errors
/// A plan cannot be traversed.
pub(super) fn runs_for_each_row(exprs: &[Expr]) -> Result<bool> {
    let mut found = false;
    for expr in exprs {
        expr.apply(|expr| {
            if let Some(plan) = subplan(expr) {
                found = found || (is_volatile(plan)? && is_correlated(plan)?);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(found)
}

/// Returns true for a plan that has the same rows each time.
///
/// # Errors
/// The plan cannot be traversed.
pub(super) fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut repeatable = !is_volatile(plan)?;
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Limit(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::RecursiveQuery(_)
            | LogicalPlan::Distinct(Distinct::On(_)) => repeatable = false,
            LogicalPlan::Sort(sort) => repeatable &= sort.fetch.is_none(),
            LogicalPlan::Aggregate(aggregate) => repeatable &= is_exact(aggregate),
            LogicalPlan::Extension(extension) => match materialized_input(extension.node.as_ref()) {
                Some(_) => return Ok(TreeNodeRecursion::Jump),
                None => repeatable = false,
            },
            _ => {}
        }
        Ok(if repeatable {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    })?;
    Ok(repeatable)
}

/// Returns true for aggregates whose values do not depend on the order of the rows.
fn is_exact(aggregate: &Aggregate) -> bool {
    let schema = aggregate.input.schema();
    aggregate
        .aggr_expr
        .iter()
        .all(|expr| match expr.clone().unalias() {
            Expr::AggregateFunction(function) => {
                let sums = function.func.name() == "sum";
                let inexact = function
                    .params
                    .args
                    .iter()
                    .any(|arg| !arg.get_type(schema).is_ok_and(|found| !found.is_floating()));
                ORDERLESS.contains(&function.func.name()) && !(sums && inexact)
            }
            _ => false,
        })
}

/// Returns a plan that is evaluated once however often it is in the statement.
pub(super) fn once(plan: LogicalPlan, names: &mut FreshNames) -> LogicalPlan {
    evaluated_once(names.number(), plan)
}

/// Adds a column that numbers the rows of a plan, and returns it.
///
/// # Errors
/// The plan cannot be built.
pub(super) fn numbered(plan: LogicalPlan, names: &mut FreshNames) -> Result<(LogicalPlan, Column)> {
    let number = names.column();
    let mut call = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number_udwf()), vec![]);
    call.params.window_frame = WindowFrame::new(None);
    let call = Expr::WindowFunction(Box::new(call)).alias(number.name());
    let window = Window::try_new(vec![call], Arc::new(plan))?;
    Ok((LogicalPlan::Window(window), number))
}
