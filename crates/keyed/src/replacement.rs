//! Tables that take the place of others, and the others as long as somebody may read them.
//!
//! A statement or a transaction that reads an older version of the stores finds the table of that version, by
//! its definition then. Invariant: its rows are there until no snapshot is older than the replacement.

use std::sync::{Arc, MutexGuard, PoisonError};

use halocline_store::{StoreError, StoreTransaction};

use crate::definition::TableDefinition;
use crate::error::{KeyedError, Result};
use crate::table::KeyedTable;
use crate::tables::KeyedTables;
use crate::unpublished::UnpublishedTable;
use crate::view::KeyedView;

/// A table whose place another one has taken.
#[derive(Debug)]
pub(crate) struct ReplacedTable {
    pub(crate) table: Arc<KeyedTable>,
    /// The first commit that sees the other one.
    pub(crate) since: u64,
}

impl KeyedTables {
    /// Makes a table one of the pool, durably, in place of one of its name without rows, and commits a
    /// transaction with it, as [`publish_rewritten`](Self::publish_rewritten) does.
    ///
    /// # Errors
    /// [`KeyedError::Changed`], also if the table has rows; [`KeyedError::List`]. The new table is gone then.
    pub fn publish_in_place_of(
        &self,
        unpublished: UnpublishedTable,
        empty: &Arc<KeyedTable>,
        mut transaction: StoreTransaction,
    ) -> Result<Arc<KeyedTable>> {
        let first = transaction.scan::<&[u8]>(&empty.store, ..).next();
        match first {
            None => self.publish_rewritten(unpublished, empty, transaction),
            Some(Ok(_) | Err(StoreError::Dropped { .. })) => Err(empty.changed()),
            Some(Err(error)) => Err(KeyedError::List(error)),
        }
    }

    /// Makes a table one of the pool, durably, in place of another one of its name, and commits a transaction
    /// with it, which must have read all rows that matter, and must not have written to that one. Statements
    /// that write to that one fail from the same moment on; those that read an older version find it by
    /// [`table_in`](Self::table_in).
    ///
    /// # Errors
    /// [`KeyedError::Changed`]: the table is not that one any more, or what the transaction has read was
    /// changed. [`KeyedError::List`]. The new table is gone then.
    pub fn publish_rewritten(
        &self,
        mut unpublished: UnpublishedTable,
        old: &Arc<KeyedTable>,
        mut transaction: StoreTransaction,
    ) -> Result<Arc<KeyedTable>> {
        let table = Arc::clone(unpublished.table());
        let bytes = table.definition.to_bytes();
        transaction
            .put(self.definitions()?, table.name(), bytes)
            .map_err(KeyedError::List)?;
        let failed = |error| match error {
            StoreError::Conflict { .. } | StoreError::Dropped { .. } => table.changed(),
            error => KeyedError::List(error),
        };
        // The reads are compared before others have to wait.
        let prepared = transaction.prepare_replacement(&old.store, &table.store);
        let prepared = prepared.map_err(failed)?;
        let mut tables = self.tables();
        let current = tables.get(old.name());
        if !current.is_some_and(|current| Arc::ptr_eq(current, old)) {
            return Err(table.changed());
        }
        let since = prepared.commit().map_err(failed)?;
        unpublished.keep();
        let replaced = tables.insert(table.name().to_owned(), Arc::clone(&table));
        drop(tables);
        self.replaced()
            .extend(replaced.map(|table| ReplacedTable { table, since }));
        Ok(table)
    }

    /// Returns a table as a version of the stores has it: another one may have taken its place since. `None`
    /// if there is none of this name now.
    ///
    /// # Errors
    /// [`KeyedError::Changed`]: the rows of that version are gone. [`KeyedError::List`],
    /// [`KeyedError::Damaged`].
    pub fn table_in(&self, name: &str, view: &KeyedView) -> Result<Option<Arc<KeyedTable>>> {
        let Some(table) = self.table(name) else {
            return Ok(None);
        };
        // A reader does not know since when a store has been in its place.
        if let KeyedView::Snapshot(snapshot) = view
            && !self.stores.is_reader()
            && snapshot.sees(&table.store)
        {
            return Ok(Some(table));
        }
        // A transaction depends on the definition: another table may take the place of this one.
        let definition = view.get(self.definitions()?, name.as_bytes());
        let Some(bytes) = definition.map_err(KeyedError::List)? else {
            return Ok(Some(table));
        };
        let definition = TableDefinition::from_bytes(name, &bytes)?;
        if definition.uid == table.definition.uid {
            return Ok(Some(table));
        }
        let replaced = self.replaced();
        let mut replaced = replaced.iter().map(|replaced| &replaced.table);
        if let Some(found) = replaced.find(|replaced| replaced.definition.uid == definition.uid) {
            return Ok(Some(Arc::clone(found)));
        }
        match self.stores.existing(&definition.store_name()) {
            Ok(store) => Ok(Some(Arc::new(KeyedTable::new(definition, store)))),
            Err(StoreError::NoSuchStore { .. }) => Err(table.changed()),
            Err(error) => Err(KeyedError::List(error)),
        }
    }

    fn replaced(&self) -> MutexGuard<'_, Vec<ReplacedTable>> {
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees the space of tables whose place others have taken, unless a statement reads them, or one can
    /// find them that reads an older version. What cannot be freed now is freed by a later call, or when the
    /// tables are opened again.
    pub fn drop_replaced(&self) {
        let mut replaced = self.replaced();
        let unread = replaced.extract_if(.., |replaced| {
            Arc::strong_count(&replaced.table) == 1 && !self.stores.are_read_before(replaced.since)
        });
        let unread: Vec<_> = unread.map(|replaced| replaced.table).collect();
        drop(replaced);
        self.drop_stores(&unread);
    }
}
