//! Joins with keys of both kinds.

use std::sync::Arc;

use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, Filter, Join, JoinConstraint, LogicalPlan, lit, when};

/// A pair of expressions, over the left and the right input of a join, that are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EquiKey {
    /// An expression over the left side.
    pub left: Expr,
    /// An expression over the right side.
    pub right: Expr,
    /// True for `IS NOT DISTINCT FROM`, false for `=`.
    pub null_safe: bool,
}

impl EquiKey {
    /// Returns the keys of a join.
    pub fn from_join(on: &[(Expr, Expr)], null_equality: NullEquality) -> Vec<Self> {
        let null_safe = null_equality == NullEquality::NullEqualsNull;
        let key = |(left, right): &(Expr, Expr)| Self {
            left: left.clone(),
            right: right.clone(),
            null_safe,
        };
        on.iter().map(key).collect()
    }

    /// Returns the key with the sides exchanged.
    pub fn swapped(self) -> Self {
        Self {
            left: self.right,
            right: self.left,
            ..self
        }
    }
}

/// The inputs of a join, its keys as DataFusion has them, and the rule for NULL in them.
struct Encoded {
    left: Arc<LogicalPlan>,
    right: Arc<LogicalPlan>,
    on: Vec<(Expr, Expr)>,
    null_equality: NullEquality,
}

/// Joins two plans by keys of any kind, and a condition.
///
/// # Errors
/// DataFusion cannot make an operator.
pub fn join(
    (left, right): (Arc<LogicalPlan>, Arc<LogicalPlan>),
    keys: Vec<EquiKey>,
    filter: Option<Expr>,
    join_type: JoinType,
) -> Result<Join> {
    let encoded = encode((left, right), keys, join_type)?;
    Join::try_new(
        encoded.left,
        encoded.right,
        encoded.on,
        filter,
        join_type,
        JoinConstraint::On,
        encoded.null_equality,
        false,
    )
}

/// Returns a join with these keys and condition in place of its own.
///
/// # Errors
/// DataFusion cannot make an operator.
pub(super) fn with_keys(join: Join, keys: Vec<EquiKey>, filter: Option<Expr>) -> Result<Join> {
    let encoded = encode((join.left, join.right), keys, join.join_type)?;
    // A filter of an input leaves its schema as it is.
    Ok(Join {
        left: encoded.left,
        right: encoded.right,
        on: encoded.on,
        filter,
        null_equality: encoded.null_equality,
        ..join
    })
}

/// Encodes keys of both kinds as keys with one rule for NULL.
///
/// Keys of one kind need nothing. If there are both, all are null-safe, and NULL is filtered out of the side
/// of each `=` that need not be preserved: rows of the other side with NULL then find no partner. A full join
/// preserves both sides, and gets one more key that is never the same on both if an operand of `=` is NULL.
fn encode(
    (left, right): (Arc<LogicalPlan>, Arc<LogicalPlan>),
    keys: Vec<EquiKey>,
    join_type: JoinType,
) -> Result<Encoded> {
    let mut strict = Vec::new();
    let mut any_null_safe = false;
    for key in &keys {
        // Both kinds are the same if one of the sides has no NULL.
        let one_is_never_null = !key.left.nullable(left.schema())? || !key.right.nullable(right.schema())?;
        match one_is_never_null {
            true => {}
            false if key.null_safe => any_null_safe = true,
            false => strict.push((key.left.clone(), key.right.clone())),
        }
    }
    let mut on: Vec<(Expr, Expr)> = keys.into_iter().map(|key| (key.left, key.right)).collect();
    let mut encoded = |left, right, null_equality| Encoded {
        left,
        right,
        on: std::mem::take(&mut on),
        null_equality,
    };
    if !any_null_safe {
        return Ok(encoded(left, right, NullEquality::NullEqualsNothing));
    }
    if strict.is_empty() {
        return Ok(encoded(left, right, NullEquality::NullEqualsNull));
    }
    let (of_left, of_right): (Vec<Expr>, Vec<Expr>) = strict.into_iter().unzip();
    Ok(match join_type {
        JoinType::Full => {
            let mut encoded = encoded(left, right, NullEquality::NullEqualsNull);
            encoded.on.push((null_mark(of_left, 1)?, null_mark(of_right, 2)?));
            encoded
        }
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            encoded(without_null(left, of_left)?, right, NullEquality::NullEqualsNull)
        }
        JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            encoded(left, without_null(right, of_right)?, NullEquality::NullEqualsNull)
        }
    })
}

/// Returns the rows of a plan in which none of the expressions is NULL.
fn without_null(plan: Arc<LogicalPlan>, exprs: Vec<Expr>) -> Result<Arc<LogicalPlan>> {
    let condition = exprs.into_iter().map(Expr::is_not_null).reduce(Expr::and);
    Ok(match condition {
        Some(condition) => Arc::new(LogicalPlan::Filter(Filter::try_new(condition, plan)?)),
        None => plan,
    })
}

/// Returns `mark` where one of the expressions is NULL, else 0.
fn null_mark(exprs: Vec<Expr>, mark: i32) -> Result<Expr> {
    let any_is_null = exprs.into_iter().map(Expr::is_null).reduce(Expr::or);
    match any_is_null {
        Some(any_is_null) => when(any_is_null, lit(mark)).otherwise(lit(0i32)),
        None => Ok(lit(0i32)),
    }
}
