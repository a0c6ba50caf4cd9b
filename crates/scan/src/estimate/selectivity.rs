//! Selectivity of conditions, from distinct values and bounds.

use std::collections::HashMap;

use datafusion::common::Column;
use datafusion::logical_expr::expr::{Between, InList, Like};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use halocline_catalog::estimate::{ColumnEstimate, position};

/// Shares that are assumed where statistics say nothing.
mod assumed {
    /// Of `a = b` with an expression.
    pub(super) const EQUAL: f64 = 0.1;
    /// Of `a < b`.
    pub(super) const RANGE: f64 = 1.0 / 3.0;
    /// Of `LIKE 'abc%'`.
    pub(super) const PREFIX: f64 = 0.02;
    /// Of `LIKE` with any other pattern.
    pub(super) const LIKE: f64 = 0.05;
    /// Of all other conditions.
    pub(super) const OTHER: f64 = 0.25;
}

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

/// A range of positions, without the values at its ends for open bounds: too fine to matter.
struct Interval {
    low: f64,
    high: f64,
}

/// Estimates a conjunction: ranges of the same column are intersected, everything else is independent.
pub fn conjunction_of(conditions: &[&Expr], columns: &dyn ColumnLookup) -> f64 {
    let mut ranges: HashMap<&Column, Interval> = HashMap::new();
    let mut share = 1.0;
    for condition in conditions.iter().copied() {
        let Some((column, low, high)) = range_of(condition) else {
            share *= single(condition, columns);
            continue;
        };
        let range = ranges.entry(column).or_insert(Interval {
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
        });
        range.low = range.low.max(low);
        range.high = range.high.min(high);
    }
    let of_range = |(column, range): (&&Column, &Interval)| match columns.column(column) {
        Some(estimate) => covered(estimate, range) * (1.0 - estimate.nulls),
        None => assumed::RANGE,
    };
    (share * ranges.iter().map(of_range).product::<f64>()).clamp(0.0, 1.0)
}

/// Estimates the share of the values of a column within a range.
fn covered(column: &ColumnEstimate, range: &Interval) -> f64 {
    let Some((min, max)) = column.range else {
        // Two bounds leave less than one.
        let bounds = [range.low, range.high]
            .iter()
            .filter(|bound| bound.is_finite())
            .count();
        return assumed::RANGE.powi(bounds as i32);
    };
    let (low, high) = (range.low.max(min), range.high.min(max));
    if low > high {
        return 0.0;
    }
    let value = 1.0 / column.domain;
    if max > min {
        ((high - low) / (max - min)).max(value)
    } else {
        1.0
    }
}

/// Reads a condition that is a range of the positions of a column.
fn range_of(condition: &Expr) -> Option<(&Column, f64, f64)> {
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
                Operator::Lt | Operator::LtEq => Some((column, f64::NEG_INFINITY, literal(value)?)),
                Operator::Gt | Operator::GtEq => Some((column, literal(value)?, f64::INFINITY)),
                _ => None,
            }
        }
        Expr::Between(Between {
            expr,
            negated: false,
            low,
            high,
        }) => match &**expr {
            Expr::Column(column) => Some((column, literal(low)?, literal(high)?)),
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
        Expr::IsNull(inner) => column(inner).map_or(assumed::EQUAL, |column| column.nulls),
        Expr::IsNotNull(inner) => column(inner).map_or(1.0 - assumed::EQUAL, |column| 1.0 - column.nulls),
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
            let one = column(expr).map_or(assumed::EQUAL, |column| 1.0 / column.distinct);
            negate(*negated, (one * list.len() as f64).min(1.0))
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
            // Conditions on the same column select different values of it, as a rule.
            let refs = [left.column_refs(), right.column_refs()];
            match refs[0].len() == 1 && refs[0] == refs[1] {
                true => (a + b).min(1.0),
                false => a + b - a * b,
            }
        }
        Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => {
            let equal = match (column(left), column(right)) {
                (Some(a), Some(b)) => 1.0 / a.distinct.max(b.distinct),
                (Some(a), None) | (None, Some(a)) => (1.0 - a.nulls) / a.distinct,
                (None, None) => assumed::EQUAL,
            };
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
    let text = match pattern {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    };
    match text {
        Some(text) if text.starts_with(['%', '_']) => assumed::LIKE,
        Some(_) => assumed::PREFIX,
        None => assumed::LIKE,
    }
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
