//! Keys among the conditions of a join.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::utils::{
    can_hash, find_valid_equijoin_key_pair, split_conjunction, split_conjunction_owned,
};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::join::{EquiKey, with_keys};

/// Makes conditions `a = b` and `a IS NOT DISTINCT FROM b` keys of their join. DataFusion's rule makes no key
/// of the second kind beside one of the first, and adds keys of the first kind to null-safe joins.
#[derive(Debug)]
pub(super) struct ExtractKeys;

impl OptimizerRule for ExtractKeys {
    fn name(&self) -> &'static str {
        "extract_equijoin_predicate"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(has_equality) => extracted(join),
            other => Ok(Transformed::no(other)),
        }
    }
}

fn has_equality(filter: &Expr) -> bool {
    let is_equality = |expr: &&Expr| {
        matches!(
            expr,
            Expr::BinaryExpr(BinaryExpr {
                op: Operator::Eq | Operator::IsNotDistinctFrom,
                ..
            })
        )
    };
    split_conjunction(filter).iter().any(is_equality)
}

fn extracted(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut keys = EquiKey::from_join(&join.on, join.null_equality);
    let known = keys.len();
    let mut others = Vec::new();
    for expr in join.filter.take().map_or_else(Vec::new, split_conjunction_owned) {
        match key(&expr, &join)? {
            Some(key) => keys.push(key),
            None => others.push(expr),
        }
    }
    let filter = others.into_iter().reduce(Expr::and);
    if keys.len() == known {
        return Ok(Transformed::no(LogicalPlan::Join(Join { filter, ..join })));
    }
    Ok(Transformed::yes(LogicalPlan::Join(with_keys(
        join, keys, filter,
    )?)))
}

/// Returns the key that a condition is.
fn key(condition: &Expr, join: &Join) -> Result<Option<EquiKey>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else {
        return Ok(None);
    };
    let null_safe = match op {
        Operator::Eq => false,
        // A null-aware anti join has one key, with its own rule for NULL.
        Operator::IsNotDistinctFrom if !join.null_aware => true,
        _ => return Ok(None),
    };
    let (of_left, of_right) = (join.left.schema(), join.right.schema());
    let Some((left, right)) = find_valid_equijoin_key_pair(left, right, of_left, of_right)? else {
        return Ok(None);
    };
    let hashes = can_hash(&left.get_type(of_left)?) && can_hash(&right.get_type(of_right)?);
    Ok(hashes.then_some(EquiKey {
        left,
        right,
        null_safe,
    }))
}
