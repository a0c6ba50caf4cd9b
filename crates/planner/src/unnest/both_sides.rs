//! Conditions of outer joins whose subqueries refer to both sides.
//!
//! The condition is evaluated for all pairs of the values that it needs of either side; the pairs for which it is
//! true are joined to the side that may be without a partner, each of whose rows then has the values of the
//! other side with which it meets the condition.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Distinct, Expr, Filter, LogicalPlan, Projection, SubqueryAlias};

use super::correlation::{OuterScope, columns_of, subplan, substitute};
use super::join_conditions::{cross, equal, joined};
use super::names::FreshNames;
use super::rewrite::UnnestingPart;

/// The distinct values of some columns of a plan.
struct Values {
    plan: LogicalPlan,
    /// For each of the columns, that with its values.
    by: HashMap<Column, Column>,
}

/// Replaces conditions with subqueries over both sides of a join: returns the optional side with further
/// columns, and the conditions that remain.
///
/// # Errors
/// A subquery cannot be joined.
pub(super) fn meet_conditions(
    part: &mut UnnestingPart<'_>,
    kept: &LogicalPlan,
    optional: LogicalPlan,
    conditions: Vec<Expr>,
) -> Result<(LogicalPlan, Vec<Expr>)> {
    let of_kept = values(kept, &conditions, part.names)?;
    let of_optional = values(&optional, &conditions, part.names)?;
    let columns = of_kept.by.iter().chain(&of_optional.by);
    let by: HashMap<Column, Column> = columns
        .map(|(column, value)| (column.clone(), value.clone()))
        .collect();
    let pairs = cross(of_kept.plan, of_optional.plan)?;
    let conditions = conditions.into_iter().map(|condition| moved(condition, &by));
    let Some(condition) = conjunction(conditions.collect::<Result<Vec<_>>>()?) else {
        return Ok((optional, Vec::new()));
    };
    let met = part.filter(Filter::try_new(condition, Arc::new(pairs))?)?;
    let equals = |by: HashMap<Column, Column>| {
        let pairs = by.into_iter();
        pairs
            .map(|(column, value)| equal(Expr::Column(column), Expr::Column(value), false))
            .collect()
    };
    let optional = joined(optional, met, JoinType::Inner, equals(of_optional.by))?;
    Ok((optional, equals(of_kept.by)))
}

/// Returns the distinct values of the columns of a plan that conditions and their subqueries use.
fn values(plan: &LogicalPlan, conditions: &[Expr], names: &mut FreshNames) -> Result<Values> {
    let mut needed: Vec<Column> = Vec::new();
    for condition in conditions {
        let own = columns_of(condition)
            .into_iter()
            .filter(|column| plan.schema().has_column(column));
        needed.extend(own);
        needed.extend(referred(condition, plan.schema())?);
    }
    let relation = names.relation();
    let (mut exprs, mut by) = (Vec::new(), HashMap::new());
    for column in needed {
        if let Entry::Vacant(entry) = by.entry(column) {
            let name = names.next();
            exprs.push(Expr::Column(entry.key().clone()).alias(&name));
            entry.insert(Column::new(Some(relation.clone()), name));
        }
    }
    let projection = Projection::try_new(exprs, Arc::new(plan.clone()))?;
    let distinct = Distinct::All(Arc::new(LogicalPlan::Projection(projection)));
    let alias = SubqueryAlias::try_new(Arc::new(LogicalPlan::Distinct(distinct)), relation)?;
    Ok(Values {
        plan: LogicalPlan::SubqueryAlias(alias),
        by,
    })
}

/// Returns the columns of a scope that the subqueries of an expression refer to.
fn referred(expr: &Expr, schema: &DFSchema) -> Result<Vec<Column>> {
    let scope = OuterScope::new(schema);
    let mut columns = Vec::new();
    expr.apply(|expr| {
        if let Some(plan) = subplan(expr) {
            plan.apply_with_subqueries(|node| {
                node.apply_expressions(|expr| {
                    expr.apply(|expr| {
                        if let Expr::OuterReferenceColumn(_, column) = expr {
                            columns.extend(scope.resolve(column));
                        }
                        Ok(TreeNodeRecursion::Continue)
                    })
                })
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns)
}

/// Makes an expression and its subqueries use other columns.
fn moved(expr: Expr, by: &HashMap<Column, Column>) -> Result<Expr> {
    let columns = by
        .iter()
        .map(|(column, value)| (column.clone(), Expr::Column(value.clone())))
        .collect();
    let in_subqueries = |plan: LogicalPlan| {
        plan.transform_up_with_subqueries(|node| {
            node.map_expressions(|expr| {
                expr.transform_up(|expr| match &expr {
                    Expr::OuterReferenceColumn(field, column) => Ok(match by.get(column) {
                        Some(value) => {
                            Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), value.clone()))
                        }
                        None => Transformed::no(expr),
                    }),
                    _ => Ok(Transformed::no(expr)),
                })
            })
        })
        .data()
    };
    let expr = expr.transform_up(|mut expr| {
        let subquery = match &mut expr {
            Expr::ScalarSubquery(subquery) => subquery,
            Expr::Exists(exists) => &mut exists.subquery,
            Expr::InSubquery(within) => &mut within.subquery,
            Expr::SetComparison(comparison) => &mut comparison.subquery,
            _ => return Ok(Transformed::no(expr)),
        };
        subquery.subquery = Arc::new(in_subqueries((*subquery.subquery).clone())?);
        Ok(Transformed::yes(expr))
    });
    substitute(expr.data()?, &columns)
}
