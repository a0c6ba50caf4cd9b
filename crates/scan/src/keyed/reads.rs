//! The version of the tables with a primary key that one statement sees: [`KeyedReads`].

use std::sync::{Arc, OnceLock};

use halocline_catalog::stores::OpenStores;
use halocline_catalog::transaction::TransactionSlot;
use halocline_keyed::{KeyedTable, KeyedTables, KeyedView};
use halocline_sql::EngineError;

/// The tables with a primary key as one statement sees them. The version is that of the first table that the
/// statement looks up.
pub struct KeyedReads {
    stores: Arc<OpenStores>,
    /// The slot of the session's transaction, which determines the version if it is open.
    slot: Arc<TransactionSlot>,
    view: OnceLock<KeyedView>,
}

impl std::fmt::Debug for KeyedReads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyedReads")
            .field("view", &self.view)
            .finish_non_exhaustive()
    }
}

impl KeyedReads {
    /// Returns the reads of a session.
    pub fn new(stores: &Arc<OpenStores>, slot: &Arc<TransactionSlot>) -> Self {
        Self {
            stores: Arc::clone(stores),
            slot: Arc::clone(slot),
            view: OnceLock::new(),
        }
    }

    /// Reads with a given view.
    pub fn with_view(self, view: KeyedView) -> Self {
        Self {
            view: OnceLock::from(view),
            ..self
        }
    }

    /// Returns a table and the version of it; `None` if there is no table of this name.
    ///
    /// # Errors
    /// The stores cannot be opened.
    pub fn table(&self, name: &str) -> Result<Option<(Arc<KeyedTable>, KeyedView)>, EngineError> {
        if self.view.get().is_none() {
            // The statement holds the writer's lock, or is one of a transaction that compares moments.
            self.stores.renew()?;
        }
        let Some(tables) = self.stores.existing_tables()? else {
            return Ok(None);
        };
        if tables.table(name).is_none() {
            return Ok(None);
        }
        let view = match self.view.get() {
            Some(view) => view,
            None => self.begin(&tables)?,
        };
        let table = tables.table_in(name, view)?;
        Ok(table.map(|table| (table, view.clone())))
    }

    /// Fixes the version.
    fn begin(&self, tables: &KeyedTables) -> Result<&KeyedView, EngineError> {
        let transaction = self.slot.keyed_transaction(tables.stores(), self.stores.pool())?;
        Ok(self.view.get_or_init(|| match transaction {
            Some(transaction) => KeyedView::Transaction(transaction),
            None => KeyedView::Snapshot(tables.stores().snapshot()),
        }))
    }

    /// Returns true if there is a table of this name; false also if the stores cannot be opened.
    pub fn has(&self, name: &str) -> bool {
        self.stores
            .existing_tables()
            .is_ok_and(|tables| tables.is_some_and(|tables| tables.table(name).is_some()))
    }

    /// Returns the names of the tables; empty if the stores cannot be opened.
    pub fn names(&self) -> Vec<String> {
        match self.stores.existing_tables() {
            Ok(Some(tables)) => tables.names(),
            Ok(None) | Err(_) => Vec::new(),
        }
    }
}
