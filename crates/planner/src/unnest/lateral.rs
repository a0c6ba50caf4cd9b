//! Lateral joins: a side in FROM that refers to columns of the tables before it.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, Join, JoinConstraint, LogicalPlan, Projection, Subquery, SubqueryAlias,
};

use super::correlation::{OuterScope, is_correlated, substitute};
use super::domain::Domain;
use super::join_conditions::equal;
use super::lift::Lift;
use super::push::PushDown;
use super::repeat::{is_repeatable, is_volatile, numbered, once};
use super::rewrite::{UnnestingPart, only};
use super::rule::{next, unsupported};

impl UnnestingPart<'_> {
    /// Replaces a join with a side that refers to columns of the other one.
    ///
    /// # Errors
    /// It is of a kind that has no meaning, or the side cannot be unnested.
    pub(super) fn lateral(&mut self, join: Join) -> Result<LogicalPlan> {
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) || is_lateral(&join.left) {
            return Err(unsupported(
                "a lateral join other than CROSS, INNER and LEFT JOIN",
                "put the side with LATERAL to the right of LEFT JOIN",
            ));
        }
        let outputs = join.schema.columns();
        let (left, inner) = (
            Arc::unwrap_or_clone(join.left),
            within_lateral(Arc::unwrap_or_clone(join.right))?,
        );
        let right_columns = inner.schema().columns();
        let for_each_row = is_volatile(&inner)? && is_correlated(&inner)?;
        let (mut left, row) = if for_each_row {
            let (left, row) = numbered(left, self.names)?;
            (once(left, self.names), Some(row))
        } else {
            (left, None)
        };
        let scope = OuterScope::new(left.schema());
        let mut lift = Lift {
            scope,
            names: self.names,
            as_set: false,
        };
        let lifted = if for_each_row {
            None
        } else {
            lift.plan(inner.clone())?
        };
        let (right, mut conditions) = match lifted {
            Some(lifted) => {
                let conditions = lifted
                    .conditions
                    .into_iter()
                    .map(|condition| scope.bind(condition));
                (lifted.plan, conditions.collect::<Result<Vec<_>>>()?)
            }
            None => {
                if !for_each_row && !is_repeatable(&left)? {
                    left = once(left, self.names);
                }
                let domain = Domain::for_subquery(&inner, &left, row.as_ref())?;
                let mut push = PushDown {
                    domain: &domain,
                    names: self.names,
                };
                let none = push.none();
                let pushed = push.plan(inner, &none)?;
                let columns = pushed.representatives.into_iter().zip(pushed.strict);
                let pairs = domain
                    .attributes
                    .iter()
                    .zip(columns)
                    .map(|(attribute, (column, strict))| {
                        let strict = strict || !attribute.nullable;
                        equal(attribute.outer.clone(), Expr::Column(column), strict)
                    });
                (pushed.plan, pairs.collect())
            }
        };
        // Columns that were added must not have names of the other side.
        let clash = right
            .schema()
            .columns()
            .into_iter()
            .any(|column| !right_columns.contains(&column) && left.schema().has_column(&column));
        let right = if clash {
            let mut exprs = Vec::new();
            let mut by = HashMap::new();
            for column in right.schema().columns() {
                if right_columns.contains(&column) {
                    exprs.push(Expr::Column(column));
                    continue;
                }
                let fresh = self.names.column();
                exprs.push(Expr::Column(column.clone()).alias(fresh.name()));
                by.insert(column, Expr::Column(fresh));
            }
            for condition in &mut conditions {
                *condition = substitute(condition.clone(), &by)?;
            }
            LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(right))?)
        } else {
            right
        };
        conditions.extend(join.filter.map(split_conjunction_owned).unwrap_or_default());
        let joined = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            join.on,
            conjunction(conditions),
            join.join_type,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        let joined = only(LogicalPlan::Join(joined), outputs)?;
        // Its condition may have subqueries.
        Ok(self.node(joined)?.data)
    }
}

/// Returns true for a side of a join that may refer to the other one.
pub(super) fn is_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Subquery(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_lateral(&alias.input),
        _ => false,
    }
}

/// Returns a lateral side without the node that marks it.
fn within_lateral(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Subquery(Subquery { subquery, .. }) => Arc::unwrap_or_clone(subquery),
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
            let input = within_lateral(Arc::unwrap_or_clone(input))?;
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input), alias)?)
        }
        other => other,
    })
}

/// Marks the side of a join as lateral that DataFusion does not: one that refers to columns of the other side
/// in subqueries only, and a nested join of which a side refers to columns of the other side of the join
/// around it, as in `FROM a, (b CROSS JOIN LATERAL (SELECT a.x + b.x) AS c)`.
///
/// # Errors
/// The plan cannot be traversed.
pub(super) fn marked(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = node else {
        return Ok(Transformed::no(node));
    };
    if is_lateral(&join.right) || !refers_to(&join.right, join.left.schema())? {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    join.right = Arc::new(LogicalPlan::Subquery(Subquery {
        outer_ref_columns: Vec::new(),
        spans: Default::default(),
        subquery: join.right,
    }));
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}

/// Returns true if a plan refers to columns of an outer one by their table and name.
fn refers_to(plan: &LogicalPlan, outer: &DFSchema) -> Result<bool> {
    let is_of_outer = |expr: &Expr| match expr {
        Expr::OuterReferenceColumn(_, column) => column.relation.is_some() && outer.has_column(column),
        _ => false,
    };
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found = found || expr.exists(|expr| Ok(is_of_outer(expr)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(next(found))
    })?;
    Ok(found)
}
