//! The changes of one statement to a table with a primary key: [`KeyedChanges`].
//!
//! They are collected until the statement has succeeded, so that one that fails leaves its transaction as it
//! was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use halocline_keyed::{KeyedRow, KeyedTable, KeyedView};
use halocline_store::StoreTransaction;

use super::row_errors::{KeyedRowErrors, RowNames};
use crate::EngineError;

/// Most bytes of keys and values that one statement changes: they are in DRAM until it ends.
const MOST_BYTES: usize = 1 << 30;

/// A hint for rows with a key that is there.
pub(super) const USE_ON_CONFLICT: &str =
    "UPDATE that row, or add ON CONFLICT DO NOTHING or DO UPDATE to the INSERT";
/// A hint for rows whose new key is there.
pub(super) const CHOOSE_ANOTHER: &str = "give the row another key, or DELETE that row first";
/// A hint for two rows of one statement.
pub(super) const ONE_ROW: &str = "give one row for each key";

/// The changes of a statement.
pub(super) struct KeyedChanges<'a> {
    table: &'a KeyedTable,
    view: &'a KeyedView,
    errors: KeyedRowErrors<'a>,
    /// Keys of rows that are deleted or written anew.
    gone: BTreeSet<Vec<u8>>,
    written: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Bytes of all keys and values noted.
    bytes: usize,
}

impl<'a> KeyedChanges<'a> {
    pub(super) fn new(table: &'a KeyedTable, view: &'a KeyedView, statement: impl Into<String>) -> Self {
        Self {
            table,
            view,
            errors: KeyedRowErrors::new(table, statement),
            gone: BTreeSet::new(),
            written: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Returns what names rows in errors.
    pub(super) fn errors(&self) -> &KeyedRowErrors<'a> {
        &self.errors
    }

    /// Notes that the row with a key is deleted. Returns false if it was noted already.
    ///
    /// # Errors
    /// The statement changes too much.
    pub(super) fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        self.note(key.len())?;
        Ok(self.gone.insert(key.to_vec()))
    }

    /// Counts bytes that are kept until the end of the statement.
    fn note(&mut self, bytes: usize) -> Result<(), EngineError> {
        self.bytes += bytes;
        if self.bytes <= MOST_BYTES {
            return Ok(());
        }
        let most = MOST_BYTES >> 20;
        let statement = self.errors.statement();
        Err(EngineError::Query(format!(
            "{statement}: one statement changes at most {most} MiB of a table with a primary key; split it into several"
        )))
    }

    /// Returns true if a row with a key is there, or is written by the statement.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) fn has(&self, key: &[u8]) -> Result<bool, EngineError> {
        if self.written.contains_key(key) {
            return Ok(true);
        }
        Ok(!self.gone.contains(key) && self.view.get(self.table.store(), key)?.is_some())
    }

    /// Returns true if the statement writes a row with a key.
    pub(super) fn writes(&self, key: &[u8]) -> bool {
        self.written.contains_key(key)
    }

    /// Writes a row in place of any with the same key.
    ///
    /// # Errors
    /// The statement changes too much.
    pub(super) fn put(&mut self, row: KeyedRow) -> Result<(), EngineError> {
        self.note(row.key.len() + row.value.len())?;
        self.written.insert(row.key, row.value);
        Ok(())
    }

    /// Adds the rows of a batch, whose keys must be new. For rows whose old versions are deleted by the same
    /// statement, that must have been noted before.
    ///
    /// # Errors
    /// [`EngineError::DuplicateKey`]; a row is too long.
    pub(super) fn add(
        &mut self,
        batch: &RecordBatch,
        names: RowNames<'_>,
        instead: &'static str,
    ) -> Result<(), EngineError> {
        for (at, row) in self.errors.encode(batch, names)?.into_iter().enumerate() {
            if self.writes(&row.key) {
                return Err(self.errors.duplicate(batch, at, names, ONE_ROW));
            }
            if self.has(&row.key)? {
                return Err(self.errors.duplicate(batch, at, names, instead));
            }
            self.put(row)?;
        }
        Ok(())
    }

    /// Returns the number of rows written.
    pub(super) fn rows(&self) -> u64 {
        self.written.len() as u64
    }

    /// Returns the changes of the statement, which has succeeded.
    pub(super) fn collected(self) -> CollectedChanges {
        CollectedChanges {
            gone: self.gone,
            written: self.written,
        }
    }
}

/// The changes of a statement that has succeeded.
pub(super) struct CollectedChanges {
    gone: BTreeSet<Vec<u8>>,
    written: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl CollectedChanges {
    /// Hands the changes to a transaction.
    ///
    /// # Errors
    /// A row is too long.
    pub(super) fn apply(
        self,
        table: &KeyedTable,
        transaction: &Arc<Mutex<StoreTransaction>>,
    ) -> Result<(), EngineError> {
        let mut transaction = transaction.lock().unwrap_or_else(PoisonError::into_inner);
        for key in self.gone.iter().filter(|key| !self.written.contains_key(*key)) {
            transaction.delete(table.store(), key)?;
        }
        for (key, value) in &self.written {
            transaction.put(table.store(), key, value)?;
        }
        Ok(())
    }
}
