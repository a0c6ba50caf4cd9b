//! Tables and views of a session, which no other session sees and which end with it.
//!
//! Invariants: an object is never changed, only replaced, so that a statement sees the objects of its start.
//! Within a transaction, changes are taken back by `ROLLBACK` as those of the pool are.

mod table;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use halocline_sql::EngineError;

pub(crate) use table::TemporaryTable;

use crate::views::{ViewDefinition, ViewMap};

/// Tables by name.
pub(crate) type TableMap = BTreeMap<String, Arc<TemporaryTable>>;

/// The objects of a session at one moment. A name is that of one object.
#[derive(Debug, Clone, Default)]
pub(crate) struct TemporaryObjects {
    /// The views.
    pub(crate) views: Arc<ViewMap>,
    /// The tables.
    pub(crate) tables: Arc<TableMap>,
}

/// The objects of a session.
#[derive(Debug, Default)]
pub(crate) struct Temporaries(RwLock<TemporaryState>);

#[derive(Debug, Default)]
struct TemporaryState {
    now: TemporaryObjects,
    /// The objects at the begin of the open transaction.
    before: Option<TemporaryObjects>,
}

impl Temporaries {
    /// Returns the objects there are now.
    pub(crate) fn now(&self) -> TemporaryObjects {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        state.now.clone()
    }

    /// Returns a table; `None` if there is none of this name.
    pub(crate) fn table(&self, name: &str) -> Option<Arc<TemporaryTable>> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        state.now.tables.get(name).cloned()
    }

    /// Adds a view in place of one of its name, or removes one if there is no definition.
    pub(crate) fn set_view(&self, name: &str, definition: Option<ViewDefinition>) {
        self.change(|objects| {
            let views = Arc::make_mut(&mut objects.views);
            match definition {
                Some(definition) => views.insert(name.to_owned(), Arc::new(definition)),
                None => views.remove(name),
            }
        });
    }

    /// Adds a table in place of one of its name, or removes one if there is none.
    pub(crate) fn set_table(&self, name: &str, table: Option<TemporaryTable>) {
        self.change(|objects| {
            let tables = Arc::make_mut(&mut objects.tables);
            match table {
                Some(table) => tables.insert(name.to_owned(), Arc::new(table)),
                None => tables.remove(name),
            }
        });
    }

    /// Replaces a table by what a statement has made of it. `change` gets the table as it is now, which is
    /// another one than the statement has read if others of the session have changed it meanwhile.
    ///
    /// # Errors
    /// The table is not there any more; those of `change`.
    pub(crate) fn change_table(
        &self,
        name: &str,
        change: impl FnOnce(&Arc<TemporaryTable>) -> Result<TemporaryTable, EngineError>,
    ) -> Result<(), EngineError> {
        self.change(|objects| {
            let table = objects.tables.get(name).ok_or_else(|| {
                EngineError::Query(format!(
                    "temporary table {name} was dropped meanwhile; run it again"
                ))
            })?;
            let changed = Arc::new(change(table)?);
            Arc::make_mut(&mut objects.tables).insert(name.to_owned(), changed);
            Ok(())
        })
    }

    /// Notes that a transaction begins.
    pub(crate) fn begin(&self) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        state.before = Some(state.now.clone());
    }

    /// Notes that the transaction has committed.
    pub(crate) fn commit(&self) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        state.before = None;
    }

    /// Takes back what has changed since the begin of the transaction.
    pub(crate) fn roll_back(&self) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = state.before.take() {
            state.now = before;
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut TemporaryObjects) -> T) -> T {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut state.now)
    }
}
