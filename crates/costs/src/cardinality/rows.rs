//! The estimate of the rows of a plan, and how operators change it.

use super::column::{ColumnEstimate, combinations};

/// Number of rows that is assumed where nothing is known.
pub const UNKNOWN_ROWS: f64 = 1000.0;

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

    /// Leaves one of equal rows.
    #[must_use]
    pub fn distinct(mut self) -> Self {
        self.rows = combinations(self.columns.iter().map(|column| column.distinct), self.rows);
        self
    }

    /// Returns the number of groups by expressions with these numbers of distinct values; 1 without any.
    pub fn groups(&self, distinct: impl Iterator<Item = f64>) -> f64 {
        let mut distinct = distinct.peekable();
        match distinct.peek() {
            None => 1.0,
            Some(_) => combinations(distinct, self.rows),
        }
    }

    /// Appends the rows of another plan.
    #[must_use]
    pub fn appended(mut self, other: Self) -> Self {
        for (column, appended) in self.columns.iter_mut().zip(&other.columns) {
            *column = column.united(appended);
        }
        self.rows += other.rows;
        self.base_rows = self.rows;
        self.is_known &= other.is_known;
        self
    }

    /// Returns the estimate of all pairs of the rows of two plans.
    pub fn pairs(left: &Self, right: &Self) -> Self {
        Self {
            rows: left.rows * right.rows,
            base_rows: left.rows * right.rows,
            columns: left.columns.iter().chain(&right.columns).cloned().collect(),
            is_known: left.is_known && right.is_known,
        }
    }

    /// Returns the estimate of a join of two plans that returns `rows` of their pairs.
    pub fn joined(left: &Self, right: &Self, rows: f64) -> Self {
        let mut pairs = Self::pairs(left, right);
        pairs.select(rows.min(pairs.rows), &[]);
        pairs.base_rows = pairs.rows;
        pairs.columns.iter_mut().for_each(|column| {
            column.domain = column.domain.max(column.distinct);
        });
        pairs
    }

    /// Returns the estimate of a share of the rows of a side of a join, as a semi join keeps it.
    pub fn kept(&self, share: f64) -> Self {
        let mut kept = self.clone();
        kept.select(kept.rows * share, &[]);
        kept
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

    #[test]
    fn operators_combine_rows_and_columns() {
        let mut table = PlanEstimate::uniform(1000.0, 2);
        table.columns[0] = ColumnEstimate::with_distinct(4.0);
        table.columns[1] = ColumnEstimate::with_distinct(5.0);
        assert_eq!(table.clone().distinct().rows, 20.0);
        assert_eq!(table.groups([].into_iter()), 1.0);
        assert_eq!(table.groups([4.0, 500.0].into_iter()), 1000.0);
        let other = PlanEstimate::unknown(2);
        let both = table.clone().appended(other.clone());
        assert_eq!(
            (both.rows, both.base_rows, both.is_known),
            (2000.0, 2000.0, false)
        );
        assert_eq!(both.columns[0].distinct, 1000.0);
        let joined = PlanEstimate::joined(&table, &other, 2e9);
        assert_eq!(
            (joined.rows, joined.columns.len(), joined.is_known),
            (1e6, 4, false)
        );
        assert_eq!(table.kept(0.5).rows, 500.0);
    }
}
