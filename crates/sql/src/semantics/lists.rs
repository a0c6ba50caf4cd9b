//! `IN` lists of constants only, without NULL.
//!
//! DataFusion's simplifier combines two lists of one expression into the items that both have, or that one
//! has and the other has not, and takes items for different values unless they are the same expressions.
//! Columns and parameters may have equal values, though, and NULL makes `NOT IN` unknown instead of true. So
//! such items are compared for themselves.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, Operator, binary_expr, lit};

use super::floats::is_canonical;

/// Returns a condition that is true, false or unknown where `expr IN (…)` is, with no items but constants in
/// a list. An expression that has another value each time it is evaluated keeps its list.
pub(super) fn separated(list: InList) -> Expr {
    if list.list.iter().all(is_constant) || list.expr.is_volatile() {
        return Expr::InList(list);
    }
    let InList { expr, list, negated } = list;
    let (compare, combine) = if negated {
        (Operator::NotEq, Operator::And)
    } else {
        (Operator::Eq, Operator::Or)
    };
    let (constants, others): (Vec<Expr>, Vec<Expr>) = list.into_iter().partition(is_constant);
    let (nulls, others): (Vec<Expr>, Vec<Expr>) = others.into_iter().partition(is_null);
    let mut conditions = Vec::with_capacity(others.len() + 2);
    if !constants.is_empty() {
        conditions.push(Expr::InList(InList::new(expr.clone(), constants, negated)));
    }
    conditions.extend(
        others
            .into_iter()
            .map(|item| binary_expr((*expr).clone(), compare, item)),
    );
    if !nulls.is_empty() {
        conditions.push(Expr::Literal(ScalarValue::Boolean(None), None));
    }
    let combined = conditions
        .into_iter()
        .reduce(|left, right| binary_expr(left, combine, right));
    combined.unwrap_or_else(|| lit(negated))
}

/// Returns a literal without the casts, and the function that unifies floats, around it.
fn literal(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        Expr::Cast(cast) => literal(&cast.expr),
        Expr::ScalarFunction(function) if is_canonical(function) => function.args.first().and_then(literal),
        _ => None,
    }
}

/// Returns true for a literal other than NULL, also with casts.
fn is_constant(expr: &Expr) -> bool {
    literal(expr).is_some_and(|value| !value.is_null())
}

/// Returns true for NULL, also with casts.
fn is_null(expr: &Expr) -> bool {
    literal(expr).is_some_and(ScalarValue::is_null)
}
