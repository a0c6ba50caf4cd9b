//! The answer of an engine to a statement.

use arrow_array::RecordBatch;
use arrow_schema::Schema;

use super::cells;

/// The beginning of the text of the error for a panic.
pub(super) const PANIC: &str = "panic: ";

/// The answer to a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// Rows, as text, and the letters of their columns' types.
    Rows {
        names: Vec<String>,
        types: String,
        rows: Vec<Vec<String>>,
    },
    /// No rows, but perhaps the number of rows that were changed.
    Done(Option<u64>),
    /// The text of an error.
    Error(String),
}

impl Answer {
    /// Returns the answer of a statement with these rows.
    pub(super) fn rows(schema: &Schema, batches: &[RecordBatch]) -> Self {
        let types = cells::types(schema);
        let rows = cells::rows(batches);
        if types.is_empty() && rows.is_empty() {
            return Self::Done(None);
        }
        let names = schema.fields().iter().map(|field| field.name().clone());
        Self::Rows {
            names: names.collect(),
            types,
            rows,
        }
    }

    /// Returns the text of an error.
    pub(super) fn error(&self) -> Option<&str> {
        match self {
            Self::Error(text) => Some(text),
            _ => None,
        }
    }

    /// Returns true if the engine panicked.
    pub(super) fn is_panic(&self) -> bool {
        self.error().is_some_and(|text| text.starts_with(PANIC))
    }

    /// Returns true if both are the same rows in any order, the same number of changed rows, or both are
    /// errors.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Error(_), Self::Error(_)) => true,
            (
                Self::Rows { types, rows, .. },
                Self::Rows {
                    types: other_types,
                    rows: other_rows,
                    ..
                },
            ) => types == other_types && sorted(rows) == sorted(other_rows),
            (Self::Done(Some(number)), rows) | (rows, Self::Done(Some(number))) => rows.counts(*number),
            (Self::Done(None), Self::Done(None)) => true,
            _ => false,
        }
    }

    /// Returns true if both have the same rows in any order, but not the same types.
    pub(super) fn differs_in_types_only(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Rows { types, rows, .. },
                Self::Rows {
                    types: other_types,
                    rows: other_rows,
                    ..
                },
            ) => types != other_types && sorted(rows) == sorted(other_rows),
            _ => false,
        }
    }

    /// Returns true if both have the same rows in any order, but for the zone of timestamps in UTC, which
    /// only this answer shows.
    pub(super) fn differs_in_zones_only(&self, other: &Self) -> bool {
        let without = |rows: &[Vec<String>]| -> Vec<Vec<String>> {
            let mut rows: Vec<Vec<String>> = rows
                .iter()
                .map(|row| row.iter().map(|cell| without_zone(cell)).collect())
                .collect();
            rows.sort_unstable();
            rows
        };
        match (self, other) {
            (
                Self::Rows { types, rows, .. },
                Self::Rows {
                    types: other_types,
                    rows: other_rows,
                    ..
                },
            ) => types == other_types && rows != other_rows && without(rows) == without(other_rows),
            _ => false,
        }
    }

    /// Returns true if this is a number of rows that were changed.
    pub(super) fn counts(&self, number: u64) -> bool {
        match self {
            Self::Rows { rows, .. } => *rows == [[number.to_string()]],
            Self::Done(count) => count.unwrap_or(0) == number,
            Self::Error(_) => false,
        }
    }
}

/// Returns a timestamp in UTC without its zone; others as they are.
fn without_zone(cell: &str) -> String {
    let is_time =
        |text: &&str| text.as_bytes().get(10) == Some(&b'T') && text.ends_with(|c: char| c.is_ascii_digit());
    let text = cell.strip_suffix('Z').filter(is_time);
    text.unwrap_or(cell).to_owned()
}

fn sorted(rows: &[Vec<String>]) -> Vec<&Vec<String>> {
    let mut rows: Vec<&Vec<String>> = rows.iter().collect();
    rows.sort_unstable();
    rows
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rows { types, rows, .. } => {
                write!(f, "{types}")?;
                rows.iter()
                    .try_for_each(|row| write!(f, "\n    {}", row.join(" ")))
            }
            Self::Done(None) => write!(f, "done"),
            Self::Done(Some(count)) => write!(f, "{count} rows changed"),
            Self::Error(text) => write!(f, "error: {text}"),
        }
    }
}
