//! Selectivity of conditions: reads expressions for the formulas of [`halocline_costs`], which take distinct
//! values and bounds.

use std::collections::HashMap;

use datafusion::common::Column;
use datafusion::logical_expr::expr::{Between, InList, Like};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use halocline_catalog::estimate::position;
use halocline_costs::cardinality::ColumnEstimate;
use halocline_costs::cardinality::conditions::{self, PositionRange, assumed};

/// The estimates of the columns that an expression refers to.
pub trait ColumnLookup {
    /// Returns the estimate of a column; `None` if it is not known.
    fn column(&self, column: &Column) -> Option<&ColumnEstimate>;
}

/// Estimates the share of rows for which a condition is true.
pub fn selectivity(condition: &Expr, columns: &dyn ColumnLookup) -> f64 {
    conjunction_of(&split_conjunction(condition), columns)
}

/// Estimates, for each column that conditions refer to alone, the share of its values that they leave. The
/// conditions are parts of one conjunction.
pub fn shares<'e>(conditions: &[&'e Expr], columns: &dyn ColumnLookup) -> Vec<(&'e Column, f64)> {
    let mut of_column: Vec<(&Column, Vec<&Expr>)> = Vec::new();
    for condition in conditions.iter().copied() {
        let mut refs = condition.column_refs().into_iter();
        let (Some(column), None) = (refs.next(), refs.next()) else {
            continue;
        };
        match of_column.iter_mut().find(|(known, _)| *known == column) {
            Some((_, known)) => known.push(condition),
            None => of_column.push((column, vec![condition])),
        }
    }
    let of_column = of_column.into_iter();
    of_column
        .map(|(column, conditions)| (column, conjunction_of(&conditions, columns)))
        .collect()
}

/// Estimates a conjunction: ranges of the same column are intersected, everything else is independent.
pub fn conjunction_of(conditions: &[&Expr], columns: &dyn ColumnLookup) -> f64 {
    let mut ranges: HashMap<&Column, PositionRange> = HashMap::new();
    let mut share = 1.0;
    for condition in conditions.iter().copied() {
        match range_of(condition) {
            Some((column, range)) => {
                let known = ranges.entry(column).or_insert(PositionRange::ALL);
                known.intersect(range);
            }
            None => share *= single(condition, columns),
        }
    }
    let of_range = |(column, range): (&&Column, &PositionRange)| range.share_of(columns.column(column));
    (share * ranges.iter().map(of_range).product::<f64>()).clamp(0.0, 1.0)
}

/// Reads a condition that is a range of the positions of a column.
fn range_of(condition: &Expr) -> Option<(&Column, PositionRange)> {
    let literal = |expr: &Expr| match expr {
        Expr::Literal(value, _) => position::value_position(value),
        _ => None,
    };
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (column, op, value) = match (&**left, &**right) {
                (Expr::Column(column), value) => (column, *op, value),
                (value, Expr::Column(column)) => (column, op.swap()?, value),
                _ => return None,
            };
            match op {
                Operator::Lt | Operator::LtEq => {
                    let high = literal(value)?;
                    Some((
                        column,
                        PositionRange {
                            high,
                            ..PositionRange::ALL
                        },
                    ))
                }
                Operator::Gt | Operator::GtEq => {
                    let low = literal(value)?;
                    Some((
                        column,
                        PositionRange {
                            low,
                            ..PositionRange::ALL
                        },
                    ))
                }
                _ => None,
            }
        }
        Expr::Between(Between {
            expr,
            negated: false,
            low,
            high,
        }) => match &**expr {
            Expr::Column(column) => {
                let (low, high) = (literal(low)?, literal(high)?);
                Some((column, PositionRange { low, high }))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Estimates a condition that is no range.
fn single(condition: &Expr, columns: &dyn ColumnLookup) -> f64 {
    let column = |expr: &Expr| match expr {
        Expr::Column(column) => columns.column(column),
        _ => None,
    };
    let negate = |negated: bool, share: f64| if negated { 1.0 - share } else { share };
    match condition {
        Expr::Literal(value, _) => match value {
            datafusion::common::ScalarValue::Boolean(Some(true)) => 1.0,
            _ => 0.0,
        },
        Expr::Alias(alias) => selectivity(&alias.expr, columns),
        Expr::Not(inner) => 1.0 - selectivity(inner, columns),
        Expr::IsNull(inner) => conditions::null(column(inner)),
        Expr::IsNotNull(inner) => 1.0 - conditions::null(column(inner)),
        Expr::IsTrue(inner) => selectivity(inner, columns),
        Expr::IsNotTrue(inner) => 1.0 - selectivity(inner, columns),
        Expr::BinaryExpr(binary) => self::binary(binary, columns),
        Expr::Between(Between {
            expr,
            negated: true,
            low,
            high,
        }) => {
            let between = Expr::Between(Between::new(expr.clone(), false, low.clone(), high.clone()));
            1.0 - selectivity(&between, columns)
        }
        Expr::InList(InList { expr, list, negated }) => {
            negate(*negated, conditions::one_of(column(expr), list.len()))
        }
        Expr::Like(Like { negated, pattern, .. }) | Expr::SimilarTo(Like { negated, pattern, .. }) => {
            negate(*negated, like(pattern))
        }
        _ => assumed::OTHER,
    }
}

/// Estimates a comparison, or a combination of conditions.
fn binary(binary: &BinaryExpr, columns: &dyn ColumnLookup) -> f64 {
    let BinaryExpr { left, op, right } = binary;
    let column = |expr: &Expr| match expr {
        Expr::Column(column) => columns.column(column),
        _ => None,
    };
    match op {
        Operator::And => selectivity(left, columns) * selectivity(right, columns),
        Operator::Or => {
            let (a, b) = (selectivity(left, columns), selectivity(right, columns));
            let refs = [left.column_refs(), right.column_refs()];
            conditions::either(a, b, refs[0].len() == 1 && refs[0] == refs[1])
        }
        Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => {
            let equal = conditions::equal(column(left), column(right));
            match op {
                Operator::Eq | Operator::IsNotDistinctFrom => equal,
                _ => 1.0 - equal,
            }
        }
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => assumed::RANGE,
        Operator::LikeMatch | Operator::ILikeMatch => like(right),
        Operator::NotLikeMatch | Operator::NotILikeMatch => 1.0 - like(right),
        _ => assumed::OTHER,
    }
}

/// Estimates `LIKE` by its pattern.
fn like(pattern: &Expr) -> f64 {
    conditions::like(match pattern {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{col, lit};

    struct Table(HashMap<&'static str, ColumnEstimate>);

    impl ColumnLookup for Table {
        fn column(&self, column: &Column) -> Option<&ColumnEstimate> {
            self.0.get(column.name.as_str())
        }
    }

    /// Returns a table with 50 distinct values from 0 to 100 in `a`, and 5 distinct values and a quarter of
    /// NULLs in `b`.
    fn table() -> Table {
        let a = ColumnEstimate {
            range: Some((0.0, 100.0)),
            ..ColumnEstimate::with_distinct(50.0)
        };
        let b = ColumnEstimate {
            nulls: 0.25,
            ..ColumnEstimate::with_distinct(5.0)
        };
        Table(HashMap::from([("a", a), ("b", b)]))
    }

    #[test]
    fn conditions_are_estimated_by_statistics() {
        let a = || col("a");
        let b = || col("b");
        let text = |pattern: &str| b().like(lit(pattern));
        for (condition, expected) in [
            (a().eq(lit(3)), 0.02),
            (lit(3).eq(a()), 0.02),
            (a().not_eq(lit(3)), 0.98),
            (a().in_list(vec![lit(1), lit(2), lit(3)], false), 0.06),
            (a().in_list(vec![lit(1), lit(2), lit(3)], true), 0.94),
            (a().eq(lit(1)).or(a().eq(lit(2))), 0.04),
            (a().lt(lit(25)), 0.25),
            (lit(25).gt(a()), 0.25),
            (a().gt_eq(lit(90)), 0.1),
            (a().gt_eq(lit(40)).and(a().lt(lit(60))), 0.2),
            (a().between(lit(40), lit(60)), 0.2),
            (a().not_between(lit(40), lit(60)), 0.8),
            (a().gt(lit(99.9)), 0.02),
            (a().gt(lit(200)), 0.0),
            (a().gt(lit(60)).and(a().lt(lit(40))), 0.0),
            (b().is_null(), 0.25),
            (b().is_not_null(), 0.75),
            (b().eq(lit("x")), 0.15),
            (a().eq(b()), 0.02),
            (a().lt(b()), 1.0 / 3.0),
            (a().eq(lit(3)).or(b().eq(lit("x"))), 0.02 + 0.15 - 0.02 * 0.15),
            (text("x%"), 0.02),
            (text("%x%"), 0.05),
            (b().not_like(lit("%x%")), 0.95),
            (lit(true), 1.0),
            (lit(false), 0.0),
            (!a().eq(lit(3)), 0.98),
            (col("unknown").eq(lit(3)), 0.1),
        ] {
            let found = selectivity(&condition, &table());
            assert!(
                (found - expected).abs() < 1e-9,
                "{condition}: {found}, not {expected}"
            );
        }
    }

    #[test]
    fn shares_are_those_of_the_conditions_on_a_column_alone() {
        let conditions = [
            col("a").gt(lit(40)),
            col("a").lt(lit(60)),
            col("b").eq(lit(1)),
            col("a").lt(col("b")),
        ];
        let conditions: Vec<&Expr> = conditions.iter().collect();
        let table = table();
        let found = shares(&conditions, &table);
        let names: Vec<&str> = found.iter().map(|(column, _)| column.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(
            (found[0].1 - 0.2).abs() < 1e-9 && (found[1].1 - 0.15).abs() < 1e-9,
            "{found:?}"
        );
    }
}
