//! Upper bounds that a condition sets for integer columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, InListExpr, Literal};

/// Levels of an expression that are read; those below say nothing.
const LEVELS: usize = 32;

/// For columns, the greatest value of rows of which a condition is true.
pub(super) type UpperBounds = BTreeMap<usize, u64>;

/// Returns upper bounds of columns that follow from a condition. A negative bound is 0.
pub(super) fn upper_bounds(condition: &Arc<dyn PhysicalExpr>) -> UpperBounds {
    condition_bounds(condition, LEVELS)
}

/// Lowers the bound of a column.
pub(super) fn lower(bounds: &mut UpperBounds, column: usize, bound: u64) {
    let least = bounds.entry(column).or_insert(bound);
    *least = bound.min(*least);
}

fn condition_bounds(condition: &Arc<dyn PhysicalExpr>, levels: usize) -> UpperBounds {
    let Some(levels) = levels.checked_sub(1) else {
        return UpperBounds::new();
    };
    if let Some(list) = condition.downcast_ref::<InListExpr>() {
        return of_list(list).into_iter().collect();
    }
    let Some(binary) = condition.downcast_ref::<BinaryExpr>() else {
        return UpperBounds::new();
    };
    match binary.op() {
        Operator::And => {
            let mut bounds = condition_bounds(binary.left(), levels);
            for (column, bound) in condition_bounds(binary.right(), levels) {
                lower(&mut bounds, column, bound);
            }
            bounds
        }
        Operator::Or => {
            let right = condition_bounds(binary.right(), levels);
            let both = |(column, bound): (usize, u64)| Some((column, bound.max(*right.get(&column)?)));
            condition_bounds(binary.left(), levels)
                .into_iter()
                .filter_map(both)
                .collect()
        }
        _ => of_comparison(binary).into_iter().collect(),
    }
}

/// Returns the bound that a comparison of a column with a literal sets.
fn of_comparison(binary: &BinaryExpr) -> Option<(usize, u64)> {
    let (column, literal, op) = match (column(binary.left()), column(binary.right())) {
        (Some(column), None) => (column, binary.right(), *binary.op()),
        (None, Some(column)) => (column, binary.left(), binary.op().swap()?),
        _ => return None,
    };
    let value = integer(literal)?;
    let bound = match op {
        Operator::Eq | Operator::LtEq => value,
        Operator::Lt => value.saturating_sub(1),
        _ => return None,
    };
    Some((column, u64::try_from(bound.max(0)).ok()?))
}

/// Returns the bound that `column IN (…)` sets.
fn of_list(list: &InListExpr) -> Option<(usize, u64)> {
    let column = column(list.expr()).filter(|_| !list.negated())?;
    let values = list.list().iter().map(integer).collect::<Option<Vec<i128>>>()?;
    Some((column, u64::try_from(values.into_iter().max()?.max(0)).ok()?))
}

/// Returns the position of a column, which may be cast to a type that has all numbers of rows.
fn column(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    let cast = expr.downcast_ref::<CastExpr>();
    let cast = cast.filter(|cast| matches!(cast.cast_type(), DataType::Int64 | DataType::UInt64));
    let expr = cast.map_or(expr, CastExpr::expr);
    expr.downcast_ref::<Column>().map(Column::index)
}

/// Returns the value of a literal integer.
fn integer(expr: &Arc<dyn PhysicalExpr>) -> Option<i128> {
    let value = expr.downcast_ref::<Literal>()?.value();
    if !value.data_type().is_integer() {
        return None;
    }
    match value.cast_to(&DataType::Decimal128(38, 0)).ok()? {
        ScalarValue::Decimal128(value, ..) => value,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use arrow_schema::{Field, Schema};
    use datafusion::physical_expr::expressions::{in_list, lit, not};

    fn compare(
        left: Arc<dyn PhysicalExpr>,
        op: Operator,
        right: Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(left, op, right))
    }

    #[test]
    fn conditions_set_upper_bounds() {
        let a = || Arc::new(Column::new("a", 3)) as Arc<dyn PhysicalExpr>;
        let b = || Arc::new(Column::new("b", 1)) as Arc<dyn PhysicalExpr>;
        let cast = |to: DataType| Arc::new(CastExpr::new(a(), to, None)) as Arc<dyn PhysicalExpr>;
        let less = || compare(a(), Operator::LtEq, lit(7u64));
        let other = || compare(b(), Operator::Lt, lit(4i32));
        let fields = (0..4)
            .map(|at| Field::new(format!("{at}"), DataType::UInt64, true))
            .collect::<Vec<_>>();
        let schema = Schema::new(fields);
        let list = |negated| in_list(a(), vec![lit(3u64), lit(9u64)], &negated, &schema).unwrap();
        let both = |op| {
            compare(
                compare(less(), Operator::And, other()),
                op,
                compare(lit(5i64), Operator::Eq, a()),
            )
        };
        for (condition, expected) in [
            (less(), vec![(3, 7)]),
            (compare(a(), Operator::Lt, lit(7u64)), vec![(3, 6)]),
            (compare(a(), Operator::Lt, lit(0u64)), vec![(3, 0)]),
            (compare(a(), Operator::LtEq, lit(-5i64)), vec![(3, 0)]),
            (compare(lit(2i8), Operator::GtEq, a()), vec![(3, 2)]),
            (compare(lit(2i8), Operator::Gt, a()), vec![(3, 1)]),
            (
                compare(cast(DataType::Int64), Operator::Eq, lit(1i64)),
                vec![(3, 1)],
            ),
            (compare(cast(DataType::Float64), Operator::LtEq, lit(1.5)), vec![]),
            (compare(a(), Operator::GtEq, lit(7u64)), vec![]),
            (compare(a(), Operator::NotEq, lit(7u64)), vec![]),
            (compare(a(), Operator::LtEq, b()), vec![]),
            (
                compare(a(), Operator::LtEq, lit(ScalarValue::UInt64(None))),
                vec![],
            ),
            (both(Operator::And), vec![(1, 3), (3, 5)]),
            (both(Operator::Or), vec![(3, 7)]),
            (compare(less(), Operator::Or, other()), vec![]),
            (not(less()).unwrap(), vec![]),
            (list(false), vec![(3, 9)]),
            (list(true), vec![]),
        ] {
            let found: Vec<(usize, u64)> = upper_bounds(&condition).into_iter().collect();
            assert_eq!(found, expected, "{condition}");
        }
    }

    #[test]
    fn deep_conditions_are_read_in_part() {
        let column = |at| Arc::new(Column::new("a", at)) as Arc<dyn PhysicalExpr>;
        let all = (0..5000).map(|at| compare(column(at), Operator::LtEq, lit(9u64)));
        let all = all.reduce(|all, one| compare(all, Operator::And, one)).unwrap();
        let found = upper_bounds(&all);
        assert!(found.contains_key(&4999) && found.len() < 100);
        // A deep expression is not dropped level by level on a small stack.
        std::mem::forget(all);
    }
}
