//! Errors that concern one row of a table with a primary key: they name the row by its key, and by its number
//! in the statement if that adds rows.

use arrow_array::{Array, ArrayRef, BinaryViewArray, RecordBatch};
use arrow_cast::display::array_value_to_string;
use halocline_catalog::write::BatchFitter;
use halocline_keyed::{KeyedError, KeyedRow, KeyedTable};
use halocline_sql::EngineError;
use halocline_store::StoreError;

use super::keyed_changes::ONE_ROW;

/// Characters of a key value that an error shows.
const SHOWN_CHARS: usize = 40;

/// The rows of a batch as errors name them.
#[derive(Debug, Clone, Copy)]
pub(super) enum RowNames<'a> {
    /// Rows that a statement adds: the number of the first one in the statement, from 1.
    From(u64),
    /// The number in the statement of each row.
    Numbers(&'a [u64]),
    /// The encoded key of each row before an UPDATE.
    OldKeys(&'a BinaryViewArray),
}

impl RowNames<'_> {
    /// Returns the number of a row of the batch.
    pub(super) fn number(&self, at: usize) -> Option<u64> {
        match self {
            Self::From(first) => Some(first + at as u64),
            Self::Numbers(numbers) => numbers.get(at).copied(),
            Self::OldKeys(_) => None,
        }
    }

    /// Returns the key that names a row of the batch, if it is not the one that the batch has.
    fn old_key(&self, table: &KeyedTable, at: usize) -> Option<Vec<ArrayRef>> {
        match self {
            Self::OldKeys(keys) if at < keys.len() => table.decode_key(keys.value(at)),
            _ => None,
        }
    }
}

/// Encoding of rows with errors that name them.
pub(super) struct KeyedRowErrors<'a> {
    table: &'a KeyedTable,
    statement: String,
}

impl<'a> KeyedRowErrors<'a> {
    /// Names rows of a table in errors of a statement.
    pub(super) fn new(table: &'a KeyedTable, statement: impl Into<String>) -> Self {
        Self {
            table,
            statement: statement.into(),
        }
    }

    /// Returns the statement in short.
    pub(super) fn statement(&self) -> &str {
        &self.statement
    }

    /// Fits a batch to the columns of the table.
    ///
    /// # Errors
    /// [`EngineError::Row`]: a value that is none of its column's type, or NULL in a NOT NULL column.
    pub(super) fn fit(
        &self,
        fitter: &mut BatchFitter,
        batch: &RecordBatch,
        names: RowNames<'_>,
    ) -> Result<RecordBatch, EngineError> {
        let before = fitter.rows();
        fitter.batch(batch).map_err(|error| match error {
            EngineError::Value {
                row, column, reason, ..
            } if row > before && row - before <= batch.num_rows() as u64 => {
                let at = (row - before - 1) as usize;
                let given = || self.key().map(|key| fitter.given(batch, *key, at)).collect();
                let key = names.old_key(self.table, at).unwrap_or_else(given);
                self.row(names.number(at), &key, Some(column), reason)
            }
            other => other,
        })
    }

    /// Encodes the rows of a batch with the columns of the table.
    ///
    /// # Errors
    /// [`EngineError::Row`]: a key or a row is too long.
    pub(super) fn encode(
        &self,
        batch: &RecordBatch,
        names: RowNames<'_>,
    ) -> Result<Vec<KeyedRow>, EngineError> {
        let encoded = self.table.encode(batch);
        encoded.map_err(|error| self.of_encoding(batch, names, error))
    }

    /// Returns the error for a batch that could not be encoded.
    pub(super) fn of_encoding(
        &self,
        batch: &RecordBatch,
        names: RowNames<'_>,
        error: KeyedError,
    ) -> EngineError {
        let (row, reason) = match &error {
            KeyedError::KeyTooLong { row, bytes, most, .. } => (
                *row,
                format!("the key takes {bytes} bytes, and at most {most} are possible; use a shorter one"),
            ),
            KeyedError::RowTooLong { row, bytes, most, .. } => (
                *row,
                format!(
                    "the columns besides the key take {bytes} bytes, and at most {most} are possible; split the row, \
                     or keep large values elsewhere"
                ),
            ),
            _ => return self.of_load(error),
        };
        let at = (row - 1) as usize;
        let key = names.old_key(self.table, at);
        let key = key.unwrap_or_else(|| self.key_in(batch, at));
        self.row(names.number(at), &key, None, reason)
    }

    /// Returns the error for a row of a load with a key, or unique values, that are there, or the error
    /// itself if it is another one.
    pub(super) fn of_load(&self, error: KeyedError) -> EngineError {
        match &error {
            KeyedError::Store {
                source: StoreError::DuplicateKey { key, pair, .. },
                ..
            } => self.duplicate_key(key, Some(*pair), ONE_ROW),
            _ => not_unique(&self.statement, error),
        }
    }

    /// Returns the error for a row with an encoded key that is there.
    pub(super) fn duplicate_key(&self, key: &[u8], row: Option<u64>, instead: &'static str) -> EngineError {
        EngineError::DuplicateKey {
            statement: self.statement.clone(),
            row,
            key: text(&self.table.decode_key(key).unwrap_or_default()),
            instead,
        }
    }

    /// Returns the error for a row with a key that is there.
    pub(super) fn duplicate(
        &self,
        batch: &RecordBatch,
        at: usize,
        names: RowNames<'_>,
        instead: &'static str,
    ) -> EngineError {
        EngineError::DuplicateKey {
            statement: self.statement.clone(),
            row: names.number(at),
            key: text(&self.key_in(batch, at)),
            instead,
        }
    }

    fn row(&self, row: Option<u64>, key: &[ArrayRef], column: Option<String>, reason: String) -> EngineError {
        EngineError::Row {
            statement: self.statement.clone(),
            row,
            key: text(key).into(),
            column: column.map(Into::into),
            reason,
        }
    }

    /// Returns the positions of the key columns.
    fn key(&self) -> impl Iterator<Item = &usize> {
        self.table.definition().key().iter()
    }

    /// Returns the key of a row of a batch with the columns of the table.
    fn key_in(&self, batch: &RecordBatch, at: usize) -> Vec<ArrayRef> {
        self.key().map(|key| batch.column(*key).slice(at, 1)).collect()
    }
}

/// Returns the error for rows with the same values in the columns of a unique constraint, or the error itself
/// if it is another one.
pub(super) fn not_unique(statement: &str, error: KeyedError) -> EngineError {
    match error {
        KeyedError::NotUnique {
            name,
            columns,
            values,
            ..
        } => EngineError::NotUnique {
            statement: statement.to_owned(),
            name: name.into(),
            columns: columns.into(),
            values: text(&values).into(),
            instead: "change that row, or give this one other values",
        },
        error => error.into(),
    }
}

/// Writes the values of a key, each an array of one value; long ones are cut.
fn text(key: &[ArrayRef]) -> String {
    let value = |array: &ArrayRef| {
        if array.logical_null_count() > 0 {
            return "NULL".to_owned();
        }
        let text = array_value_to_string(array, 0).unwrap_or_else(|_| "?".to_owned());
        match text.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    };
    key.iter().map(value).collect::<Vec<_>>().join(", ")
}
