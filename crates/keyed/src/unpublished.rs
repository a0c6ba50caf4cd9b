//! Tables that are being created: [`UnpublishedTable`].

use std::sync::Arc;

use halocline_store::{Store, Stores};

use crate::table::KeyedTable;

/// A table that is being created. Its store is there and can be filled, but nobody finds the table until
/// [`KeyedTables::publish`](crate::KeyedTables::publish). Dropping it before drops the store with all rows;
/// after a crash, opening the tables does.
#[derive(Debug)]
pub struct UnpublishedTable {
    stores: Stores,
    table: Arc<KeyedTable>,
    is_published: bool,
}

impl UnpublishedTable {
    pub(crate) fn new(stores: &Stores, table: Arc<KeyedTable>) -> Self {
        Self {
            stores: stores.clone(),
            table,
            is_published: false,
        }
    }

    /// Returns the table.
    pub fn table(&self) -> &Arc<KeyedTable> {
        &self.table
    }

    /// Gives the table the store of its unique constraints.
    pub(crate) fn with_index(mut self, index: Option<Store>) -> Self {
        if index.is_some() {
            let (definition, store) = (self.table.definition.clone(), self.table.store.clone());
            self.table = Arc::new(KeyedTable::new(definition, store, index));
        }
        self
    }

    /// Returns true if somebody else has the table.
    pub(crate) fn is_read(&self) -> bool {
        Arc::strong_count(&self.table) > 1
    }

    /// Keeps the store, since the table is published.
    pub(crate) fn keep(&mut self) {
        self.is_published = true;
    }
}

impl Drop for UnpublishedTable {
    fn drop(&mut self) {
        if !self.is_published {
            // What cannot be dropped now is dropped when the tables are opened again.
            let _rest = self.stores.drop_store(self.table.store.name());
            if let Some(index) = &self.table.index {
                let _rest = self.stores.drop_store(index.name());
            }
        }
    }
}
