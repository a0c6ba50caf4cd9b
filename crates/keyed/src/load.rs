//! Loading of a new table: [`KeyedLoad`].

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::RecordBatch;
use halocline_store::{SortingLoader, Stores};

use crate::definition::TableDefinition;
use crate::error::Result;
use crate::table::KeyedTable;
use crate::unpublished::UnpublishedTable;

/// A new table that is being loaded, from [`KeyedTables::load`](crate::KeyedTables::load).
///
/// Its store is not there before [`finish`](Self::finish). Dropping the load frees what was written, and so
/// does a crash.
pub struct KeyedLoad {
    stores: Stores,
    table: Arc<KeyedTable>,
    loader: SortingLoader,
}

impl std::fmt::Debug for KeyedLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyedLoad")
            .field("table", &self.table.name())
            .field("rows", &self.rows())
            .finish_non_exhaustive()
    }
}

impl KeyedLoad {
    pub(crate) fn new(stores: &Stores, definition: TableDefinition, loader: SortingLoader) -> Self {
        Self {
            stores: stores.clone(),
            table: Arc::new(KeyedTable::new(definition, loader.store())),
            loader,
        }
    }

    /// Returns the table. Operations on its store fail before [`finish`](Self::finish).
    pub fn table(&self) -> &Arc<KeyedTable> {
        &self.table
    }

    /// Returns the number of rows so far.
    pub fn rows(&self) -> u64 {
        self.loader.len()
    }

    /// Adds the rows of a batch with the columns of the table.
    ///
    /// # Errors
    /// [`NullKey`](crate::KeyedError::NullKey), [`KeyTooLong`](crate::KeyedError::KeyTooLong) and
    /// [`RowTooLong`](crate::KeyedError::RowTooLong), whose rows are those of the batch;
    /// [`Store`](crate::KeyedError::Store) with [`DuplicateKey`](halocline_store::StoreError::DuplicateKey)
    /// for a row with the key of another one, whose number counts all rows. [`finish`](Self::finish) may find
    /// it, too.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let Self { table, loader, .. } = self;
        table.for_each_row(batch, |key, value| {
            loader.push(key, value).map_err(|source| table.failed(source))
        })
    }

    /// Sorts the rows, if they did not come in order, and makes the store durable, unless `cancel` is true
    /// before. The table can be published then.
    ///
    /// # Errors
    /// [`Store`](crate::KeyedError::Store), as [`add`](Self::add), or with
    /// [`Cancelled`](halocline_store::StoreError::Cancelled).
    pub fn finish(self, cancel: &AtomicBool) -> Result<UnpublishedTable> {
        let finished = self.loader.finish_unless(cancel);
        finished.map_err(|source| self.table.failed(source))?;
        Ok(UnpublishedTable::new(&self.stores, self.table))
    }
}
