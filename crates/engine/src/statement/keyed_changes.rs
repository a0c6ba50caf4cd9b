//! The changes of one statement to a table with a primary key: [`KeyedChanges`].
//!
//! They are collected until the statement has succeeded, so that one that fails leaves its transaction as it
//! was: in DRAM, up to a part of the memory, and otherwise in temporary files. From there they are not
//! written one by one: they make a new table of the old one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use halocline_catalog::context::EngineContext;
use halocline_keyed::{KeyedRow, KeyedTable, KeyedView, RewriteRule};
use halocline_sql::EngineError;
use halocline_store::StoreTransaction;

use super::keyed_spill::SpilledChanges;
use super::row_errors::{KeyedRowErrors, RowNames, not_unique};

/// Part of the memory, as its inverse, that the changes of a statement may take.
const MEMORY_DIVISOR: usize = 4;

/// Returns the bytes of DRAM that a change takes until it is committed: in the statement, in its transaction,
/// in the batch that is appended to the log, and in the memtable.
fn cost(key: &[u8], value: &[u8]) -> usize {
    768 + 6 * key.len() + 3 * value.len()
}

/// Returns the bytes of DRAM that a lookup of a key takes until its transaction ends, which depends on the
/// lookup: the key in the read set, and the range of a scan if there is a row.
fn read_cost(key: &[u8]) -> usize {
    384 + 5 * key.len()
}

/// A hint for rows with a key that is there.
pub(super) const USE_ON_CONFLICT: &str =
    "UPDATE that row, or add ON CONFLICT DO NOTHING or DO UPDATE to the INSERT";
/// A hint for rows whose new key is there.
pub(super) const CHOOSE_ANOTHER: &str = "give the row another key, or DELETE that row first";
/// A hint for two rows of one statement.
pub(super) const ONE_ROW: &str = "give one row for each key";
/// A row that a subquery gives several values.
pub(super) const SEVERAL_VALUES: &str =
    "a row has several new values; let each subquery give one value, by an aggregate";

/// The changes of a statement.
pub(super) struct KeyedChanges<'a> {
    engine: &'a EngineContext,
    table: &'a Arc<KeyedTable>,
    view: &'a KeyedView,
    errors: KeyedRowErrors<'a>,
    /// The meaning of several changes of one key, if they are spilled.
    rule: RewriteRule,
    /// Keys of rows that are deleted or written anew.
    gone: BTreeSet<Vec<u8>>,
    /// Of each key, the number of the row in the statement and its value.
    written: BTreeMap<Vec<u8>, (u64, Vec<u8>)>,
    reserved: MemoryReservation,
    /// Entries of unique constraints, and the keys of their rows, if they were noted; none if the changes are
    /// spilled.
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    spilled: Option<SpilledChanges>,
}

impl<'a> KeyedChanges<'a> {
    pub(super) fn new(
        engine: &'a EngineContext,
        table: &'a Arc<KeyedTable>,
        view: &'a KeyedView,
        statement: impl Into<String>,
        rule: RewriteRule,
    ) -> Self {
        let reserved = MemoryConsumer::new("changes of a statement").register(&engine.runtime.memory_pool);
        Self {
            engine,
            table,
            view,
            errors: KeyedRowErrors::new(table, statement),
            rule,
            gone: BTreeSet::new(),
            written: BTreeMap::new(),
            reserved,
            entries: BTreeMap::new(),
            spilled: None,
        }
    }

    /// Returns what names rows in errors.
    pub(super) fn errors(&self) -> &KeyedRowErrors<'a> {
        &self.errors
    }

    /// Returns true if the changes are in temporary files: they are compared with each other and with the
    /// rows of the table at the end.
    pub(super) fn are_spilled(&self) -> bool {
        self.spilled.is_some()
    }

    /// Notes that the row with a key is deleted. Returns false if it was noted already, unless the changes
    /// are spilled.
    ///
    /// # Errors
    /// A temporary file cannot be written.
    pub(super) fn delete(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        self.reserve(cost(key, &[]) * (1 + self.table.unique().len()))?;
        match &mut self.spilled {
            Some(spilled) => spilled.rewrite.delete(key).map(|()| true).map_err(Into::into),
            None => Ok(self.gone.insert(key.to_vec())),
        }
    }

    /// Reserves bytes that are kept until the end of the statement, unless the changes are spilled, as they
    /// are if there is no memory.
    ///
    /// # Errors
    /// A temporary file cannot be written.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), EngineError> {
        if self.are_spilled() {
            return Ok(());
        }
        let most = (self.engine.budget().work() / MEMORY_DIVISOR).min(self.engine.tuning.changes_bytes);
        if self.reserved.size() + bytes <= most && self.reserved.try_grow(bytes).is_ok() {
            return Ok(());
        }
        self.spill()
    }

    /// Moves all changes into temporary files.
    fn spill(&mut self) -> Result<(), EngineError> {
        let statement = self.errors.statement();
        let mut spilled = SpilledChanges::new(self.engine, self.table, statement, self.rule);
        self.view.depend_on_all(self.table.store());
        for key in std::mem::take(&mut self.gone) {
            spilled.rewrite.delete(&key)?;
        }
        for (key, (number, value)) in std::mem::take(&mut self.written) {
            spilled.rewrite.put(number, &key, &value)?;
        }
        self.entries.clear();
        self.reserved.free();
        self.spilled = Some(spilled);
        Ok(())
    }

    /// Returns true if a row with a key is there, or is written by the statement. Always false for spilled
    /// changes.
    ///
    /// # Errors
    /// The store cannot be read; the changes cannot be spilled.
    pub(super) fn has(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        if self.are_spilled() {
            return Ok(false);
        }
        if self.written.contains_key(key) {
            return Ok(true);
        }
        Ok(!self.gone.contains(key) && self.was_there(key)? && !self.are_spilled())
    }

    /// Returns true if a row with a key was there before the statement.
    ///
    /// # Errors
    /// The store cannot be read; the changes cannot be spilled.
    pub(super) fn was_there(&mut self, key: &[u8]) -> Result<bool, EngineError> {
        self.reserve(read_cost(key))?;
        Ok(self.view.get(self.table.store(), key)?.is_some())
    }

    /// Returns true if the statement writes a row with a key. Always false for spilled changes.
    pub(super) fn writes(&self, key: &[u8]) -> bool {
        self.written.contains_key(key)
    }

    /// Returns the entries of a row in unique constraints, each with the position of its constraint.
    ///
    /// # Errors
    /// The row is too long.
    pub(super) fn entries_of(&self, row: &KeyedRow) -> Result<Vec<(usize, Vec<u8>)>, EngineError> {
        let entries = self.table.unique_entries(&row.key, &row.value);
        entries.map_err(|error| self.errors.of_load(error))
    }

    /// Returns the key of the row that has an entry: of one that was there, or of one that was noted.
    ///
    /// # Errors
    /// The store cannot be read; the changes cannot be spilled.
    pub(super) fn entry_owner(&mut self, entry: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        if let Some(key) = self.entries.get(entry) {
            return Ok(Some(key.clone()));
        }
        self.reserve(read_cost(entry))?;
        Ok(self.table.unique_owner(self.view, entry)?)
    }

    /// Notes the entries of a row that the statement writes, unless the changes are spilled.
    ///
    /// # Errors
    /// The row is too long; the changes cannot be spilled.
    pub(super) fn note_entries(&mut self, row: &KeyedRow) -> Result<(), EngineError> {
        for (_, entry) in self.entries_of(row)? {
            self.reserve(cost(&entry, &row.key))?;
            if !self.are_spilled() {
                self.entries.insert(entry, row.key.clone());
            }
        }
        Ok(())
    }

    /// Writes a row in place of any with the same key. `number` is that of the row in the statement.
    ///
    /// # Errors
    /// A temporary file cannot be written.
    pub(super) fn put(&mut self, number: u64, row: KeyedRow) -> Result<(), EngineError> {
        self.reserve(cost(&row.key, &row.value) * (1 + self.table.unique().len()))?;
        match &mut self.spilled {
            Some(spilled) => spilled.rewrite.put(number, &row.key, &row.value)?,
            None => drop(self.written.insert(row.key, (number, row.value))),
        }
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
            self.put(names.number(at).unwrap_or_default(), row)?;
        }
        if let Some(spilled) = &mut self.spilled {
            spilled.instead = instead;
        }
        Ok(())
    }

    /// Returns the number of rows written, unless the changes are spilled.
    pub(super) fn rows(&self) -> u64 {
        self.written.len() as u64
    }

    /// Returns the changes of the statement, which has succeeded.
    pub(super) fn collected(self) -> CollectedChanges {
        match self.spilled {
            Some(spilled) => CollectedChanges::Spilled(Box::new(spilled)),
            None => CollectedChanges::InDram(ChangesInDram {
                gone: self.gone,
                written: self.written,
                reserved: self.reserved,
                statement: self.errors.statement().to_owned(),
            }),
        }
    }
}

/// The changes of a statement that has succeeded.
pub(super) enum CollectedChanges {
    InDram(ChangesInDram),
    Spilled(Box<SpilledChanges>),
}

/// Changes in DRAM.
pub(super) struct ChangesInDram {
    gone: BTreeSet<Vec<u8>>,
    written: BTreeMap<Vec<u8>, (u64, Vec<u8>)>,
    reserved: MemoryReservation,
    statement: String,
}

impl ChangesInDram {
    /// Hands the changes to a transaction. Returns the reservation of their memory, which is needed until
    /// they are committed.
    ///
    /// # Errors
    /// [`EngineError::NotUnique`]: then the transaction is as before. A row is too long.
    pub(super) fn apply(
        self,
        table: &KeyedTable,
        transaction: &Arc<Mutex<StoreTransaction>>,
    ) -> Result<MemoryReservation, EngineError> {
        let mut transaction = transaction.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = self.gone.iter().map(Vec::as_slice);
        let written = self.written.iter();
        let written = written.map(|(key, (_, value))| (key.as_slice(), value.as_slice()));
        let unique = table.change_unique(&mut transaction, gone, written);
        unique.map_err(|error| not_unique(&self.statement, error))?;
        for key in self.gone {
            if !self.written.contains_key(&key) {
                transaction.delete(table.store(), key)?;
            }
        }
        for (key, (_, value)) in self.written {
            transaction.put(table.store(), key, value)?;
        }
        Ok(self.reserved)
    }
}
