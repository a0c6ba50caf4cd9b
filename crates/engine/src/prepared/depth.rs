//! The depth of a plan: nodes above each other, and expressions within those.

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Levels of a plan and its expressions that any thread's stack has room for.
const SHALLOW_LEVELS: usize = 64;

/// Returns true if any thread's stack has room for work on a plan.
pub(crate) fn is_shallow(plan: &LogicalPlan) -> Result<bool> {
    Ok(depth(plan)? <= SHALLOW_LEVELS)
}

fn depth(plan: &LogicalPlan) -> Result<usize> {
    let mut deepest = 0;
    plan.apply_expressions(|expr| {
        deepest = deepest.max(depth_of_expr(expr)?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    for input in plan.inputs() {
        deepest = deepest.max(depth(input)?);
    }
    Ok(deepest + 1)
}

fn depth_of_expr(expr: &Expr) -> Result<usize> {
    let mut deepest = match expr {
        Expr::ScalarSubquery(subquery) => depth(&subquery.subquery)?,
        Expr::Exists(exists) => depth(&exists.subquery.subquery)?,
        Expr::InSubquery(list) => depth(&list.subquery.subquery)?,
        _ => 0,
    };
    expr.apply_children(|child| {
        deepest = deepest.max(depth_of_expr(child)?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(deepest + 1)
}
