//! Joins that the rewriting adds.

use std::sync::Arc;

use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Join, JoinConstraint, LogicalPlan, Operator, binary_expr};

/// Returns the cross product of two plans.
///
/// # Errors
/// The plans have columns of the same name.
pub(super) fn cross(left: LogicalPlan, right: LogicalPlan) -> Result<LogicalPlan> {
    joined(left, right, JoinType::Inner, Vec::new())
}

/// Returns the join of two plans on all of the conditions. Those that are equalities become keys when the
/// plan is optimized.
///
/// # Errors
/// The join cannot be built.
pub(super) fn joined(
    left: LogicalPlan,
    right: LogicalPlan,
    join_type: JoinType,
    conditions: Vec<Expr>,
) -> Result<LogicalPlan> {
    let join = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        Vec::new(),
        conjunction(conditions),
        join_type,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    )?;
    Ok(LogicalPlan::Join(join))
}

/// Returns the condition that two expressions are equal; NULL equals NULL unless `strict`.
pub(super) fn equal(left: Expr, right: Expr, strict: bool) -> Expr {
    let op = if strict {
        Operator::Eq
    } else {
        Operator::IsNotDistinctFrom
    };
    binary_expr(left, op, right)
}

/// Returns the conditions that the representatives of two plans are equal.
pub(super) fn same(left: &[Column], right: &[Column], strict: impl Fn(usize) -> bool) -> Vec<Expr> {
    let pairs = left.iter().zip(right).enumerate();
    let pairs = pairs.map(|(at, (left, right))| {
        equal(
            Expr::Column(left.clone()),
            Expr::Column(right.clone()),
            strict(at),
        )
    });
    pairs.collect()
}
