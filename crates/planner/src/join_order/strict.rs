//! Columns whose NULL makes an expression NULL, or keeps a condition from being true.

use std::collections::HashSet;

use datafusion::common::Column;
use datafusion::logical_expr::expr::{Between, InList, Like};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator, TryCast};

/// Returns columns such that an expression is NULL if one of them is.
pub(super) fn strict_columns(expr: &Expr) -> HashSet<Column> {
    match expr {
        Expr::Column(column) => HashSet::from([column.clone()]),
        Expr::Alias(alias) => strict_columns(&alias.expr),
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => strict_columns(expr),
        Expr::Negative(expr) | Expr::Not(expr) => strict_columns(expr),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_strict(*op) => both(left, right),
        Expr::Like(Like { expr, pattern, .. }) => both(expr, pattern),
        Expr::ScalarFunction(function) if function.func.is_strict() => {
            function.args.iter().flat_map(strict_columns).collect()
        }
        _ => HashSet::new(),
    }
}

fn both(left: &Expr, right: &Expr) -> HashSet<Column> {
    let mut columns = strict_columns(left);
    columns.extend(strict_columns(right));
    columns
}

fn is_strict(op: Operator) -> bool {
    use Operator as O;
    matches!(
        op,
        O::Eq
            | O::NotEq
            | O::Lt
            | O::LtEq
            | O::Gt
            | O::GtEq
            | O::Plus
            | O::Minus
            | O::Multiply
            | O::Divide
            | O::Modulo
    )
}

/// Returns columns such that a condition is not true if one of them is NULL.
pub(super) fn null_rejected(condition: &Expr) -> HashSet<Column> {
    match condition {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::And,
            right,
        }) => {
            let mut columns = null_rejected(left);
            columns.extend(null_rejected(right));
            columns
        }
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Or,
            right,
        }) => {
            let of_right = null_rejected(right);
            null_rejected(left).intersection(&of_right).cloned().collect()
        }
        Expr::Alias(alias) => null_rejected(&alias.expr),
        Expr::IsNotNull(expr) | Expr::IsFalse(expr) | Expr::IsNotUnknown(expr) => strict_columns(expr),
        Expr::IsTrue(expr) => null_rejected(expr),
        Expr::Between(Between { expr, .. }) | Expr::InList(InList { expr, .. }) => strict_columns(expr),
        other => strict_columns(other),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    fn names(columns: HashSet<Column>) -> String {
        let mut names: Vec<String> = columns.into_iter().map(|column| column.name).collect();
        names.sort();
        names.join(" ")
    }

    #[test]
    fn conditions_reject_null_in_columns_they_need() {
        for (columns, condition) in [
            ("a b", col("a").eq(col("b"))),
            ("a b", col("a").gt(lit(1)).and(col("b").lt(lit(3)))),
            ("a", (col("a") + lit(1)).gt(lit(1)).or(col("a").eq(col("b")))),
            ("", col("a").is_null()),
            ("a", col("a").is_not_null()),
            ("a", !col("a").eq(lit(1))),
            ("a", col("a").in_list(vec![lit(1)], true)),
            ("", col("a").eq(lit(1)).or(col("b").eq(lit(1)))),
        ] {
            assert_eq!(names(null_rejected(&condition)), columns, "{condition}");
        }
    }
}
