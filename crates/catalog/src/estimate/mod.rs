//! Estimates of the rows and distinct values of logical plans, for the order of joins.
//!
//! They start from the statistics of tables ([`PlanEstimate::of_statistics`]) and assume what most optimizers
//! assume: values are distributed uniformly, columns are independent, and every value of the smaller side of
//! a join occurs on the larger one. Rows whose number nothing is known about are marked
//! ([`PlanEstimate::is_known`]).
//!
//! Invariants: a plan's estimate has an entry for each column of its schema; numbers are finite and not
//! negative.

pub mod position;

use datafusion::common::{ColumnStatistics, Statistics};

/// Number of rows that is assumed where nothing is known.
const UNKNOWN_ROWS: f64 = 1000.0;

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

    fn of_statistics(statistics: &ColumnStatistics, rows: f64) -> Self {
        let known = statistics
            .distinct_count
            .get_value()
            .map(|distinct| *distinct as f64);
        let nulls = statistics
            .null_count
            .get_value()
            .map_or(0.0, |nulls| *nulls as f64);
        let position = |value: Option<&_>| value.and_then(position::value_position);
        let (min, max) = (statistics.min_value.get_value(), statistics.max_value.get_value());
        Self {
            nulls: if rows > 0.0 { (nulls / rows).min(1.0) } else { 0.0 },
            range: position(min).zip(position(max)).filter(|(low, high)| low <= high),
            // Without anything known, a tenth of the rows.
            ..Self::with_distinct(known.unwrap_or(rows / 10.0).min(rows))
        }
    }

    /// Restricts the values to a share of the domain.
    pub fn restrict(&mut self, share: f64) {
        self.domain = (self.domain * share).max(1.0);
        self.distinct = (self.distinct * share).max(1.0);
    }

    /// Leaves a share of the rows, chosen independently of this column: a value is left if one of its rows is
    /// (Cardenas, CACM 1975).
    fn thin_out(&mut self, rows: f64, share: f64) {
        let of_a_value = (rows / self.distinct).max(1.0);
        let kept = 1.0 - (1.0 - share.clamp(0.0, 1.0)).powf(of_a_value);
        self.distinct = (self.distinct * kept).max(1.0);
    }
}

/// The estimate of the rows of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanEstimate {
    /// Number of rows.
    pub rows: f64,
    /// Number of rows without any condition on the table; that of rows if the plan is no table.
    pub base_rows: f64,
    /// One for each column of the schema.
    pub columns: Vec<ColumnEstimate>,
    /// False if the number of rows of a table is not known.
    pub is_known: bool,
}

impl PlanEstimate {
    /// Returns the estimate of a table from its statistics.
    pub fn of_statistics(statistics: &Statistics) -> Self {
        let rows = statistics.num_rows.get_value().map(|rows| *rows as f64);
        let number = rows.unwrap_or(UNKNOWN_ROWS);
        let columns = statistics.column_statistics.iter();
        Self {
            rows: number,
            base_rows: number,
            columns: columns
                .map(|column| ColumnEstimate::of_statistics(column, number))
                .collect(),
            is_known: rows.is_some(),
        }
    }

    /// Returns the estimate of a plan of which nothing is known.
    pub fn unknown(columns: usize) -> Self {
        Self {
            is_known: false,
            ..Self::uniform(UNKNOWN_ROWS, columns)
        }
    }

    /// Returns the estimate of `rows` rows with different values in each column.
    pub fn uniform(rows: f64, columns: usize) -> Self {
        Self {
            rows,
            base_rows: rows,
            columns: vec![ColumnEstimate::with_distinct(rows); columns],
            is_known: true,
        }
    }

    /// Leaves `rows` of the rows. `shares` are the columns that conditions restrict, with the share of their
    /// values that is left; the rows of the other columns are independent of that.
    pub fn select(&mut self, rows: f64, shares: &[(usize, f64)]) {
        let share = if self.rows > 0.0 { rows / self.rows } else { 1.0 };
        for (at, column) in self.columns.iter_mut().enumerate() {
            match shares.iter().find(|(number, _)| *number == at) {
                Some((_, share)) => column.restrict(*share),
                None => column.thin_out(self.rows, share),
            }
            column.distinct = column.distinct.min(rows.max(1.0));
        }
        self.rows = rows;
    }

    /// Marks the estimate as known as far as another one is.
    #[must_use]
    pub fn known_as(self, other: &Self) -> Self {
        Self {
            is_known: other.is_known,
            ..self
        }
    }

    /// Leaves at most `rows` of the rows.
    pub fn limit(&mut self, rows: f64) {
        if rows < self.rows {
            self.select(rows, &[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_left_as_long_as_one_of_their_rows_is() {
        let mut table = PlanEstimate::uniform(1000.0, 2);
        table.columns[1] = ColumnEstimate::with_distinct(10.0);
        table.select(500.0, &[]);
        assert!((table.columns[0].distinct - 500.0).abs() < 1e-6, "{table:?}");
        assert!(table.columns[1].distinct > 9.99, "{table:?}");
        assert_eq!(table.columns[1].domain, 10.0);
        table.select(50.0, &[(1, 0.1)]);
        assert_eq!((table.columns[1].distinct, table.columns[1].domain), (1.0, 1.0));
        assert_eq!((table.columns[1].base, table.base_rows), (10.0, 1000.0));
        table.limit(100.0);
        assert_eq!(table.rows, 50.0);
        table.limit(3.0);
        assert!(table.columns.iter().all(|column| column.distinct <= 3.0));
    }
}
