//! The estimate of the values of a column.

/// The estimate of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnEstimate {
    /// Number of distinct values among the rows, NULL not counted; at least 1.
    pub distinct: f64,
    /// Number of distinct values that the conditions on this column alone admit: conditions on other columns
    /// leave rows out, but no value of the domain that a join key is drawn from.
    pub domain: f64,
    /// Number of distinct values without any condition.
    pub base: f64,
    /// Share of the rows that are NULL.
    pub nulls: f64,
    /// Positions of the smallest and the largest value, if they are known.
    pub range: Option<(f64, f64)>,
}

impl ColumnEstimate {
    /// Returns the estimate of a column with this number of distinct values.
    pub fn with_distinct(distinct: f64) -> Self {
        let distinct = distinct.max(1.0);
        Self {
            distinct,
            domain: distinct,
            base: distinct,
            nulls: 0.0,
            range: None,
        }
    }

    /// Returns the estimate of a column of `rows` rows from what is known of it: its distinct values, the
    /// number of NULLs, and the positions of its smallest and largest value. Without distinct values, they
    /// are assumed to be a tenth of the rows.
    pub fn of_known(distinct: Option<f64>, nulls: f64, range: Option<(f64, f64)>, rows: f64) -> Self {
        Self {
            nulls: if rows > 0.0 { (nulls / rows).min(1.0) } else { 0.0 },
            range: range.filter(|(low, high)| low <= high),
            ..Self::with_distinct(distinct.unwrap_or(rows / 10.0).min(rows))
        }
    }

    /// Returns the estimate of an expression over several columns of `rows` rows: as many distinct values as
    /// the columns have combinations.
    pub fn of_combinations(distinct: impl Iterator<Item = f64>, rows: f64) -> Self {
        Self::with_distinct(combinations(distinct, rows))
    }

    /// Returns the estimate of the values that appear in this column or another one.
    #[must_use]
    pub fn united(&self, other: &Self) -> Self {
        let range = self.range.zip(other.range);
        Self {
            nulls: self.nulls.max(other.nulls),
            range: range.map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))),
            ..Self::with_distinct(self.distinct.max(other.distinct))
        }
    }

    /// Restricts the values to a share of the domain.
    pub fn restrict(&mut self, share: f64) {
        self.domain = (self.domain * share).max(1.0);
        self.distinct = (self.distinct * share).max(1.0);
    }

    /// Leaves a share of the rows, chosen independently of this column: a value is left if one of its rows is
    /// (Cardenas, CACM 1975).
    pub(super) fn thin_out(&mut self, rows: f64, share: f64) {
        let of_a_value = (rows / self.distinct).max(1.0);
        let kept = 1.0 - (1.0 - share.clamp(0.0, 1.0)).powf(of_a_value);
        self.distinct = (self.distinct * kept).max(1.0);
    }
}

/// Returns the number of combinations of values of independent columns, which are at most `rows`.
pub(super) fn combinations(distinct: impl Iterator<Item = f64>, rows: f64) -> f64 {
    let combinations: f64 = distinct.product();
    combinations.min(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_assumed() {
        let column = ColumnEstimate::of_known(None, 25.0, Some((3.0, 1.0)), 100.0);
        assert_eq!((column.distinct, column.nulls, column.range), (10.0, 0.25, None));
        let column = ColumnEstimate::of_known(Some(500.0), 0.0, Some((1.0, 3.0)), 100.0);
        assert_eq!((column.distinct, column.range), (100.0, Some((1.0, 3.0))));
        assert_eq!(ColumnEstimate::of_known(None, 0.0, None, 0.0).distinct, 1.0);
    }

    #[test]
    fn columns_are_united() {
        let a = ColumnEstimate::of_known(Some(5.0), 10.0, Some((0.0, 4.0)), 100.0);
        let b = ColumnEstimate::of_known(Some(9.0), 0.0, Some((2.0, 8.0)), 100.0);
        let both = a.united(&b);
        assert_eq!(
            (both.distinct, both.nulls, both.range),
            (9.0, 0.1, Some((0.0, 8.0)))
        );
        assert_eq!(
            ColumnEstimate::of_combinations([5.0, 9.0].into_iter(), 40.0).distinct,
            40.0
        );
    }
}
