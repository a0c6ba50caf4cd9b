//! Conjunctions of predicates, usable both as SQL and through the index API.

use std::fmt;
use std::ops::Bound;

use crate::Literal;

/// A condition on the values of one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Equal to the value.
    Equal(Literal),
    /// Between the bounds.
    Range(Bound<Literal>, Bound<Literal>),
    /// One of the values.
    In(Vec<Literal>),
}

/// A condition on a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Predicate {
    /// Name of the column.
    pub column: String,
    /// Condition on its values.
    pub condition: Condition,
}

impl Predicate {
    /// Creates `column = value`.
    #[must_use]
    pub fn equal(column: &str, value: Literal) -> Self {
        Self {
            column: column.to_owned(),
            condition: Condition::Equal(value),
        }
    }

    /// Creates `lo <= column AND column <= hi`.
    #[must_use]
    pub fn between(column: &str, lo: Literal, hi: Literal) -> Self {
        Self::range(column, Bound::Included(lo), Bound::Included(hi))
    }

    /// Creates a range condition with two bounds.
    #[must_use]
    pub fn range(column: &str, lo: Bound<Literal>, hi: Bound<Literal>) -> Self {
        Self {
            column: column.to_owned(),
            condition: Condition::Range(lo, hi),
        }
    }

    /// Creates `column IN (values)`.
    #[must_use]
    pub fn one_of(column: &str, values: Vec<Literal>) -> Self {
        Self {
            column: column.to_owned(),
            condition: Condition::In(values),
        }
    }
}

/// Formats the predicate as SQL.
impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = &self.column;
        match &self.condition {
            Condition::Equal(value) => write!(f, "{column} = {value}"),
            Condition::Range(Bound::Included(lo), Bound::Included(hi)) => {
                write!(f, "{column} BETWEEN {lo} AND {hi}")
            }
            Condition::Range(lo, hi) => {
                let lower = match lo {
                    Bound::Included(lo) => Some(format!("{column} >= {lo}")),
                    Bound::Excluded(lo) => Some(format!("{column} > {lo}")),
                    Bound::Unbounded => None,
                };
                let upper = match hi {
                    Bound::Included(hi) => Some(format!("{column} <= {hi}")),
                    Bound::Excluded(hi) => Some(format!("{column} < {hi}")),
                    Bound::Unbounded => None,
                };
                match (lower, upper) {
                    (Some(lower), Some(upper)) => write!(f, "{lower} AND {upper}"),
                    (Some(one), None) | (None, Some(one)) => f.write_str(&one),
                    (None, None) => write!(f, "{column} IS NOT NULL"),
                }
            }
            Condition::In(values) => {
                let values: Vec<String> = values.iter().map(Literal::to_string).collect();
                write!(f, "{column} IN ({})", values.join(", "))
            }
        }
    }
}

/// A named conjunction of predicates over one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conjunction {
    /// Its name in results, for example `Q6` or `random-017`.
    pub name: String,
    /// The predicates, all of which must hold.
    pub predicates: Vec<Predicate>,
}

impl Conjunction {
    /// Creates a conjunction of `predicates`.
    #[must_use]
    pub fn new(name: &str, predicates: Vec<Predicate>) -> Self {
        Self {
            name: name.to_owned(),
            predicates,
        }
    }

    /// Returns the text of the `WHERE` clause (`true` without predicates).
    #[must_use]
    pub fn where_clause(&self) -> String {
        if self.predicates.is_empty() {
            return "true".to_owned();
        }
        self.predicates
            .iter()
            .map(Predicate::to_string)
            .collect::<Vec<_>>()
            .join(" AND ")
    }

    /// Returns a query for the `count(*)` of the matching rows of `table`.
    #[must_use]
    pub fn count_sql(&self, table: &str) -> String {
        format!("SELECT count(*) AS n FROM {table} WHERE {}", self.where_clause())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql_of_every_form() {
        let selection = Conjunction::new(
            "all",
            vec![
                Predicate::equal("a", Literal::Int(1)),
                Predicate::between("b", Literal::Cents(5), Literal::Cents(7)),
                Predicate::range(
                    "c",
                    Bound::Excluded(Literal::Int(1)),
                    Bound::Excluded(Literal::Int(9)),
                ),
                Predicate::range("d", Bound::Unbounded, Bound::Included(Literal::date(1998, 9, 2))),
                Predicate::range("e", Bound::Unbounded, Bound::Unbounded),
                Predicate::one_of("f", vec![Literal::text("x"), Literal::text("y")]),
            ],
        );
        assert_eq!(
            selection.count_sql("t"),
            "SELECT count(*) AS n FROM t WHERE a = 1 AND b BETWEEN 0.05 AND 0.07 AND c > 1 AND c < 9 \
             AND d <= DATE '1998-09-02' AND e IS NOT NULL AND f IN ('x', 'y')"
        );
        assert_eq!(Conjunction::new("none", vec![]).where_clause(), "true");
    }
}
