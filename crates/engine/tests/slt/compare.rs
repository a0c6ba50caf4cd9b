//! Comparison of answers with what a record expects.

use sqllogictest::{ColumnType, ExpectedError, QueryExpect, SortMode, StatementExpect};

use super::answer::Answer;
use super::order;

/// Stands for any text in what a record expects.
const IGNORED: &str = "<slt:ignore>";

/// The letter of a column's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Letter(char);

impl ColumnType for Letter {
    fn from_char(value: char) -> Option<Self> {
        Some(Self(match value {
            'B' | 'D' | 'I' | 'P' | 'R' | 'T' => value,
            _ => '?',
        }))
    }

    fn to_char(&self) -> char {
        self.0
    }
}

/// The expectation of a record.
pub(super) enum Expected<'a> {
    /// That the statement succeeds.
    Success,
    /// A number of changed rows.
    Count(u64),
    /// Rows.
    Rows {
        types: String,
        sort: Option<SortMode>,
        lines: &'a [String],
    },
    /// An error.
    Error(&'a ExpectedError),
}

impl<'a> Expected<'a> {
    pub(super) fn of_statement(expected: &'a StatementExpect) -> Self {
        match expected {
            StatementExpect::Ok => Self::Success,
            StatementExpect::Count(count) => Self::Count(*count),
            StatementExpect::Error(error) => Self::Error(error),
        }
    }

    pub(super) fn of_query(expected: &'a QueryExpect<Letter>) -> Self {
        match expected {
            QueryExpect::Results {
                types,
                sort_mode,
                results,
                ..
            } => Self::Rows {
                types: types.iter().map(Letter::to_char).collect(),
                sort: *sort_mode,
                lines: results,
            },
            QueryExpect::Error(error) => Self::Error(error),
        }
    }

    /// Returns true if this is an error.
    pub(super) fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// Returns true if only a digest of the rows is recorded.
    pub(super) fn is_digest(&self) -> bool {
        matches!(self, Self::Rows { lines: [line], .. } if line.contains(" values hashing to "))
    }

    /// Returns true if it is the answer to the statement `text`. The order of rows counts if the statement
    /// has one; the text of an error does not.
    pub(super) fn is_met(&self, text: &str, answer: &Answer) -> bool {
        match (self, answer) {
            (Self::Error(_), answer) => answer.error().is_some(),
            (_, Answer::Error(_)) => false,
            (Self::Success, _) => true,
            (Self::Count(count), answer) => answer.counts(*count),
            (Self::Rows { lines, .. }, Answer::Done(Some(count))) => **lines == [count.to_string()],
            (Self::Rows { lines, .. }, Answer::Done(None)) => lines.is_empty(),
            (
                Self::Rows { types, sort, lines },
                Answer::Rows {
                    types: found, rows, ..
                },
            ) => types == found && same_rows(text, *sort, lines, rows),
        }
    }

    /// Returns true if an error has the expected text, or none is expected.
    pub(super) fn is_text_met(&self, answer: &Answer) -> bool {
        match (self, answer) {
            (Self::Error(expected), Answer::Error(text)) => expected.is_match(text, None),
            _ => true,
        }
    }
}

fn same_rows(text: &str, sort: Option<SortMode>, lines: &[String], rows: &[Vec<String>]) -> bool {
    let mut expected: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    let mut found: Vec<String> = match sort {
        Some(SortMode::ValueSort) => rows.iter().flatten().cloned().collect(),
        _ => rows.iter().map(|row| row.join(" ")).collect(),
    };
    found
        .iter_mut()
        .for_each(|line| line.truncate(line.trim_end().len()));
    if expected.iter().any(|line| line.contains(IGNORED)) {
        return has_fragments(&found.join("\n"), &expected.join("\n"));
    }
    let is_sorted = matches!(sort, Some(SortMode::RowSort | SortMode::ValueSort));
    if is_sorted || !order::has_order(text) {
        expected.sort_unstable();
        found.sort_unstable();
    }
    expected == found
}

/// Returns true if the text has the fragments between the ignored parts of a pattern, in their order, and
/// begins with the first of them.
fn has_fragments(text: &str, pattern: &str) -> bool {
    let mut rest = text;
    for (at, fragment) in pattern.split(IGNORED).enumerate() {
        match rest.find(fragment) {
            Some(found) if at > 0 || found == 0 => rest = &rest[found + fragment.len()..],
            _ => return false,
        }
    }
    true
}

/// Returns true if two answers to a query have the same rows, and the same order by the columns that it
/// orders by: rows that are equal in these may come in any order.
pub(super) fn differ_in_ties_only(text: &str, first: &Answer, second: &Answer) -> bool {
    let (Answer::Rows { names, rows, .. }, Answer::Rows { rows: other, .. }) = (first, second) else {
        return false;
    };
    let keys = order::sort_keys(text, names, rows);
    first.is_like(second) && keys.is_some() && keys == order::sort_keys(text, names, other)
}
