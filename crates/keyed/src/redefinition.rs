//! Tables whose rows get other columns: [`KeyedRedefinition`].
//!
//! The rows with their new columns are sorted in temporary files by their keys, which may be others than
//! before, and make a new table, which takes the place of the old one. So a change takes the memory of the
//! sort, however many rows there are, and one that fails or is interrupted leaves nothing.

use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

use arrow_array::RecordBatch;
use halocline_store::{LoadOptions, PairSorter};

use crate::definition::TableDefinition;
use crate::error::{KeyedError, Result};
use crate::table::KeyedTable;
use crate::tables::KeyedTables;
use crate::unique::{UniqueBuilder, unique_store_name};
use crate::unpublished::UnpublishedTable;
use crate::view::KeyedView;

/// Number of rows after which the load looks whether it is cancelled.
const CANCEL_EVERY: u64 = 1 << 12;

/// All rows of a table with the columns of another definition.
#[derive(Debug)]
pub struct KeyedRedefinition {
    /// The new definition, which encodes rows. Its store is still that of the old table, and is not used.
    table: Arc<KeyedTable>,
    sorter: PairSorter,
    rows: u64,
    /// For the entries of unique constraints.
    of_entries: LoadOptions,
    /// True if the old table has a store of entries.
    had_entries: bool,
}

impl KeyedRedefinition {
    /// Begins to collect the rows of a table for another definition of the same name.
    pub fn new(old: &KeyedTable, definition: TableDefinition, options: &LoadOptions) -> Self {
        let table = KeyedTable::new(definition, old.store.clone(), None);
        let parts = if table.unique.is_empty() { 1 } else { 2 };
        let of_entries = options.part_of_memory(parts);
        Self {
            table: Arc::new(table),
            sorter: PairSorter::new(&of_entries),
            rows: 0,
            of_entries,
            had_entries: old.index.is_some(),
        }
    }

    /// Returns the table as it will be, for its columns and its key only.
    pub fn table(&self) -> &Arc<KeyedTable> {
        &self.table
    }

    /// Adds the rows of a batch with the new columns.
    ///
    /// # Errors
    /// [`KeyedError::NullKey`], [`KeyedError::KeyTooLong`] and [`KeyedError::RowTooLong`], whose rows are
    /// those of the batch; [`KeyedError::Store`] with
    /// [`StoreError::Spill`](halocline_store::StoreError::Spill).
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let Self {
            table, sorter, rows, ..
        } = self;
        table.for_each_row(batch, |key, value| {
            *rows += 1;
            let pushed = sorter.push(*rows, key, value);
            pushed.map_err(|source| table.failed(source))
        })
    }

    /// Makes the new table of the rows, which `view` has read. It takes the place of the old one by
    /// [`KeyedTables::publish_rewritten`], or in an open transaction by [`KeyedTables::replace_in`].
    ///
    /// # Errors
    /// [`KeyedError::DuplicateRow`], [`KeyedError::NotUnique`], [`KeyedError::UniqueTooLong`],
    /// [`KeyedError::Cancelled`], [`KeyedError::Store`].
    pub fn finish(
        mut self,
        tables: &KeyedTables,
        view: &KeyedView,
        cancel: &AtomicBool,
    ) -> Result<UnpublishedTable> {
        let mut definition = self.table.definition.clone();
        let name = tables.new_store(&mut definition)?;
        let failed = |source| self.table.failed(source);
        let mut loader = view.load(tables.stores(), &name).map_err(failed)?;
        let mut unique = UniqueBuilder::new(&self.table, &self.of_entries)
            .or_else(|| self.had_entries.then(|| UniqueBuilder::empty(&self.of_entries)));
        let mut sorted = self.sorter.sorted();
        let (mut last, mut seen): (Option<Vec<u8>>, u64) = (None, 0);
        while let Some(pair) = sorted.next().map_err(failed)? {
            seen += 1;
            if seen.is_multiple_of(CANCEL_EVERY) && cancel.load(atomic::Ordering::Relaxed) {
                return Err(KeyedError::Cancelled {
                    table: self.table.name().to_owned(),
                });
            }
            if last.as_deref() == Some(pair.key) {
                return Err(KeyedError::DuplicateRow {
                    table: self.table.name().to_owned(),
                    key: pair.key.to_vec(),
                    number: pair.number,
                    by_statement: true,
                });
            }
            if let Some(unique) = &mut unique {
                unique.push(&self.table, pair.key, pair.value)?;
            }
            loader.push(pair.key, pair.value).map_err(failed)?;
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(pair.key);
        }
        let store = loader.finish().map_err(failed)?;
        let uid = definition.uid;
        let table = Arc::new(KeyedTable::new(definition, store, None));
        let unpublished = UnpublishedTable::new(tables.stores(), table);
        // What the transaction has written to the store of the old one is forgotten if there is a new one.
        let index = unique.map(|unique| {
            let loader = view.load(tables.stores(), &unique_store_name(uid));
            unique.finish(&self.table, loader.map_err(failed)?)
        });
        Ok(unpublished.with_index(index.transpose()?))
    }
}
