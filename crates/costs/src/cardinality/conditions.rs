//! Selectivities of conditions by statistics: distinct values, and positions of bounds.
//!
//! Each function returns the share of the rows for which a condition is true, from 0 to 1. A condition on an
//! expression of which nothing is known has an assumed share.

use super::column::ColumnEstimate;

/// Shares that are assumed where statistics say nothing.
pub mod assumed {
    /// Of `a = b` with an expression.
    pub const EQUAL: f64 = 0.1;
    /// Of `a < b`.
    pub const RANGE: f64 = 1.0 / 3.0;
    /// Of `LIKE 'abc%'`.
    pub const PREFIX: f64 = 0.02;
    /// Of `LIKE` with any other pattern.
    pub const LIKE: f64 = 0.05;
    /// Of all other conditions.
    pub const OTHER: f64 = 0.25;
    /// Of the conditions of a filter above a scan, in plans whose statistics are not known.
    pub const FILTER: f64 = 0.25;
}

/// A range of positions, without the values at its ends for open bounds: too fine to matter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PositionRange {
    /// The lower bound; negative infinity if there is none.
    pub low: f64,
    /// The upper bound; infinity if there is none.
    pub high: f64,
}

impl PositionRange {
    /// All positions.
    pub const ALL: Self = Self {
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
    };

    /// Restricts the range to another one.
    pub fn intersect(&mut self, other: Self) {
        self.low = self.low.max(other.low);
        self.high = self.high.min(other.high);
    }

    /// Returns the share of the rows of a column within the range. NULL is not.
    pub fn share_of(&self, column: Option<&ColumnEstimate>) -> f64 {
        match column {
            Some(column) => self.covered(column) * (1.0 - column.nulls),
            None => assumed::RANGE,
        }
    }

    /// Returns the share of the values of a column within the range.
    fn covered(&self, column: &ColumnEstimate) -> f64 {
        let Some((min, max)) = column.range else {
            // Two bounds leave less than one.
            let bounds = [self.low, self.high]
                .iter()
                .filter(|bound| bound.is_finite())
                .count();
            return assumed::RANGE.powi(bounds as i32);
        };
        let (low, high) = (self.low.max(min), self.high.min(max));
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
}

/// Returns the share of the rows with equal values of two columns, or of a column and another expression.
pub fn equal(left: Option<&ColumnEstimate>, right: Option<&ColumnEstimate>) -> f64 {
    match (left, right) {
        (Some(a), Some(b)) => 1.0 / a.distinct.max(b.distinct),
        (Some(a), None) | (None, Some(a)) => (1.0 - a.nulls) / a.distinct,
        (None, None) => assumed::EQUAL,
    }
}

/// Returns the share of the rows with one of `members` values.
pub fn one_of(column: Option<&ColumnEstimate>, members: usize) -> f64 {
    let one = column.map_or(assumed::EQUAL, |column| 1.0 / column.distinct);
    (one * members as f64).min(1.0)
}

/// Returns the share of the rows that are NULL.
pub fn null(column: Option<&ColumnEstimate>) -> f64 {
    column.map_or(assumed::EQUAL, |column| column.nulls)
}

/// Returns the share of the rows for which one of two conditions is true. Conditions on the same column
/// select different values of it, as a rule; others are independent.
pub fn either(a: f64, b: f64, same_column: bool) -> f64 {
    if same_column {
        (a + b).min(1.0)
    } else {
        a + b - a * b
    }
}

/// Returns the share of the rows that are `LIKE` a pattern, which is `None` if it is not known.
pub fn like(pattern: Option<&str>) -> f64 {
    match pattern {
        Some(text) if text.starts_with(['%', '_']) => assumed::LIKE,
        Some(_) => assumed::PREFIX,
        None => assumed::LIKE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a column of 50 distinct values from 0 to 100, and a quarter of NULLs.
    fn column() -> ColumnEstimate {
        ColumnEstimate {
            range: Some((0.0, 100.0)),
            nulls: 0.25,
            ..ColumnEstimate::with_distinct(50.0)
        }
    }

    #[test]
    fn ranges_cover_a_share_of_the_values() {
        let share = |low, high| PositionRange { low, high }.share_of(Some(&column()));
        assert!((share(f64::NEG_INFINITY, 20.0) - 0.15).abs() < 1e-9);
        assert_eq!((share(200.0, f64::INFINITY), share(60.0, 40.0)), (0.0, 0.0));
        // At least one value.
        assert!((share(99.9, f64::INFINITY) - 0.015).abs() < 1e-9);
        let mut range = PositionRange::ALL;
        range.intersect(PositionRange {
            low: 40.0,
            high: 80.0,
        });
        range.intersect(PositionRange { low: 0.0, high: 60.0 });
        assert_eq!(
            range,
            PositionRange {
                low: 40.0,
                high: 60.0
            }
        );
        let unbounded = ColumnEstimate::with_distinct(9.0);
        assert!((range.share_of(Some(&unbounded)) - 1.0 / 9.0).abs() < 1e-9);
        assert_eq!(range.share_of(None), assumed::RANGE);
    }

    #[test]
    fn conditions_are_estimated_by_distinct_values() {
        let column = column();
        let other = ColumnEstimate::with_distinct(200.0);
        assert_eq!((equal(Some(&column), None), equal(None, None)), (0.015, 0.1));
        assert_eq!(equal(Some(&column), Some(&other)), 0.005);
        assert_eq!((one_of(Some(&column), 3), one_of(None, 20)), (0.06, 1.0));
        assert_eq!((null(Some(&column)), null(None)), (0.25, 0.1));
        assert_eq!((either(0.5, 0.5, false), either(0.75, 0.5, true)), (0.75, 1.0));
        assert_eq!(
            [Some("x%"), Some("%x"), Some("_"), None].map(like),
            [0.02, 0.05, 0.05, 0.05]
        );
    }
}
