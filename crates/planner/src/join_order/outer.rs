//! Outer joins whose rows with NULL on one side something above leaves out become inner or left joins, which
//! can change their place.
//!
//! DataFusion does that for conditions in a filter right above the join. This rule also takes the keys and
//! conditions of joins above, through projections, groups and other joins.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Expr, Join, LogicalPlan, Projection};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::strict::{null_rejected, strict_columns};

/// Columns such that rows with NULL in one of them do not matter.
type Required = HashSet<Column>;

/// Reduces outer joins.
#[derive(Debug)]
pub struct OuterJoinRule;

impl OptimizerRule for OuterJoinRule {
    fn name(&self) -> &'static str {
        "reduce_outer_joins"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_outer_join(&plan) {
            return Ok(Transformed::no(plan));
        }
        reduced(plan, &Required::new())
    }
}

fn is_outer(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::Left | JoinType::Right | JoinType::Full)
}

fn has_outer_join(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let walked = plan.apply_with_subqueries(|plan| {
        found |= matches!(plan, LogicalPlan::Join(join) if is_outer(join.join_type));
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    });
    walked.is_err() || found
}

/// Reduces the outer joins of a plan and of its subqueries.
fn reduced(plan: LogicalPlan, required: &Required) -> Result<Transformed<LogicalPlan>> {
    let plan = plan.map_subqueries(|subquery| reduced(subquery, &Required::new()))?;
    plan.transform_data(|plan| match plan {
        LogicalPlan::Join(join) => joined(join, required),
        other => {
            let below = required_of_input(&other, required);
            other.map_children(|input| reduced(input, &below))
        }
    })
}

/// Returns the columns that an operator that is no join requires of each input.
fn required_of_input(plan: &LogicalPlan, required: &Required) -> Required {
    match plan {
        LogicalPlan::Filter(filter) => {
            let mut required = required.clone();
            required.extend(null_rejected(&filter.predicate));
            required
        }
        LogicalPlan::Projection(Projection { expr, schema, .. }) => {
            let outputs = schema.columns().into_iter().zip(expr);
            let of = outputs.filter(|(column, _)| required.contains(column));
            of.flat_map(|(_, expr)| strict_columns(expr)).collect()
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let columns = alias
                .schema
                .columns()
                .into_iter()
                .zip(alias.input.schema().columns());
            let of = columns.filter(|(column, _)| required.contains(column));
            of.map(|(_, column)| column).collect()
        }
        LogicalPlan::Aggregate(Aggregate {
            group_expr, schema, ..
        }) => {
            if group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
                return Required::new();
            }
            let outputs = schema.columns().into_iter().zip(group_expr);
            let of = outputs.filter(|(column, _)| required.contains(column));
            of.flat_map(|(_, expr)| strict_columns(expr)).collect()
        }
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => required.clone(),
        LogicalPlan::Distinct(datafusion::logical_expr::Distinct::All(_)) => required.clone(),
        _ => Required::new(),
    }
}

fn joined(mut join: Join, required: &Required) -> Result<Transformed<LogicalPlan>> {
    let (left, right) = (columns(&join.left), columns(&join.right));
    let needs = |side: &HashSet<Column>| required.iter().any(|column| side.contains(column));
    let join_type = match (join.join_type, needs(&left), needs(&right)) {
        (JoinType::Full, true, true) => JoinType::Inner,
        (JoinType::Full, true, false) | (JoinType::Left, _, false) => JoinType::Left,
        (JoinType::Full, false, true) | (JoinType::Right, false, _) => JoinType::Right,
        (JoinType::Left, _, true) | (JoinType::Right, true, _) => JoinType::Inner,
        (other, _, _) => other,
    };
    // Sides that keep all of their rows get no columns from the condition of the join.
    let (left_by_condition, right_by_condition) = match join_type {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => (true, true),
        JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => (false, true),
        JoinType::Right | JoinType::RightAnti | JoinType::RightMark => (true, false),
        JoinType::Full => (false, false),
    };
    // Rows of a side that is not kept matter only if they have a partner.
    let (left_by_required, right_by_required) = match join_type {
        JoinType::Inner => (true, true),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, false),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (false, true),
        JoinType::Full => (false, false),
    };
    let mut by_condition = Required::new();
    // A null-aware anti join has to see NULL on both sides.
    if !join.null_aware {
        if join.null_equality == NullEquality::NullEqualsNothing {
            let keys = join.on.iter().flat_map(|(a, b)| [a, b]);
            by_condition.extend(keys.flat_map(strict_columns));
        }
        by_condition.extend(join.filter.iter().flat_map(null_rejected));
    }
    let below = |side: &HashSet<Column>, by_condition_too: bool, by_required: bool| -> Required {
        let of_condition = by_condition.iter().filter(|_| by_condition_too);
        let of_required = required.iter().filter(|_| by_required);
        let all = of_condition.chain(of_required);
        all.filter(|column| side.contains(column)).cloned().collect()
    };
    let of_left = below(&left, left_by_condition, left_by_required);
    let of_right = below(&right, right_by_condition, right_by_required);
    let reduced_left = reduced(Arc::unwrap_or_clone(join.left), &of_left)?;
    let reduced_right = reduced(Arc::unwrap_or_clone(join.right), &of_right)?;
    let changed = reduced_left.transformed || reduced_right.transformed || join_type != join.join_type;
    (join.left, join.right) = (Arc::new(reduced_left.data), Arc::new(reduced_right.data));
    join.join_type = join_type;
    // The schema stays: that some columns are never NULL is not needed.
    Ok(Transformed::new(
        LogicalPlan::Join(join),
        changed,
        TreeNodeRecursion::Continue,
    ))
}

fn columns(plan: &LogicalPlan) -> HashSet<Column> {
    plan.schema().columns().into_iter().collect()
}
