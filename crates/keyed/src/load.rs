//! Loading of a new table: [`KeyedLoad`].

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::RecordBatch;
use halocline_store::{LoadOptions, SortingLoader, Stores};

use crate::definition::TableDefinition;
use crate::error::Result;
use crate::table::KeyedTable;
use crate::unique::{UniqueBuilder, unique_store_name};
use crate::unpublished::UnpublishedTable;

/// A new table that is being loaded, from [`KeyedTables::load`](crate::KeyedTables::load).
///
/// Its store is not there before [`finish`](Self::finish). Dropping the load frees what was written, and so
/// does a crash.
pub struct KeyedLoad {
    stores: Stores,
    table: Arc<KeyedTable>,
    loader: SortingLoader,
    unique: Option<UniqueBuilder>,
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
    pub(crate) fn new(
        stores: &Stores,
        definition: TableDefinition,
        loader: SortingLoader,
        of_entries: &LoadOptions,
    ) -> Self {
        let table = Arc::new(KeyedTable::new(definition, loader.store(), None));
        Self {
            stores: stores.clone(),
            unique: UniqueBuilder::new(&table, of_entries),
            table,
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
    /// it, too. [`UniqueTooLong`](crate::KeyedError::UniqueTooLong).
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let Self {
            table,
            loader,
            unique,
            ..
        } = self;
        table.for_each_row(batch, |key, value| {
            if let Some(unique) = unique {
                unique.push(table, key, value)?;
            }
            loader.push(key, value).map_err(|source| table.failed(source))
        })
    }

    /// Sorts the rows, if they did not come in order, and makes the store durable, unless `cancel` is true
    /// before. The table can be published then.
    ///
    /// # Errors
    /// [`Store`](crate::KeyedError::Store), as [`add`](Self::add), or with
    /// [`Cancelled`](halocline_store::StoreError::Cancelled); [`NotUnique`](crate::KeyedError::NotUnique).
    pub fn finish(self, cancel: &AtomicBool) -> Result<UnpublishedTable> {
        let finished = self.loader.finish_unless(cancel);
        finished.map_err(|source| self.table.failed(source))?;
        let unpublished = UnpublishedTable::new(&self.stores, Arc::clone(&self.table));
        let Some(unique) = self.unique else {
            return Ok(unpublished);
        };
        let loader = self
            .stores
            .load_sorted(&unique_store_name(self.table.definition.uid));
        let loader = loader.map_err(|source| self.table.failed(source))?;
        let index = unique.finish(&self.table, loader)?;
        Ok(unpublished.with_index(Some(index)))
    }
}
