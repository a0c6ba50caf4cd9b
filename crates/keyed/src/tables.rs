//! All tables of a pool: [`KeyedTables`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use halocline_store::{Store, StoreError, Stores, WriteBatch};

use crate::definition::{DEFINITIONS, ROWS, TableDefinition, store_name};
use crate::error::{KeyedError, Result};
use crate::table::KeyedTable;

/// The tables with a primary key of a pool, and the definitions of all. Threads may share it.
#[derive(Debug)]
pub struct KeyedTables {
    stores: Stores,
    /// The definitions, once there is a table.
    definitions: OnceLock<Store>,
    tables: Mutex<BTreeMap<String, Arc<KeyedTable>>>,
}

impl KeyedTables {
    /// Opens the tables of a pool's stores. O(tables). Writes nothing unless a crash has interrupted the
    /// creation or the drop of a table.
    ///
    /// # Errors
    /// [`KeyedError::List`], [`KeyedError::Damaged`], [`KeyedError::NewerFormat`].
    pub fn open(stores: &Stores) -> Result<Self> {
        let definitions = match stores.existing(DEFINITIONS) {
            Ok(definitions) => definitions,
            Err(StoreError::NoSuchStore { .. }) => {
                return Ok(Self {
                    stores: stores.clone(),
                    definitions: OnceLock::new(),
                    tables: Mutex::default(),
                });
            }
            Err(error) => return Err(KeyedError::List(error)),
        };
        let mut tables = BTreeMap::new();
        for pair in definitions.scan::<&[u8]>(..) {
            let (name, bytes) = pair.map_err(KeyedError::List)?;
            let name = String::from_utf8_lossy(&name).into_owned();
            let definition = TableDefinition::from_bytes(&name, &bytes)?;
            let store = stores
                .existing(&definition.store_name())
                .map_err(|source| KeyedError::Store {
                    table: name.clone(),
                    source,
                })?;
            tables.insert(name, Arc::new(KeyedTable::new(definition, store)));
        }
        let used: Vec<String> = tables
            .values()
            .map(|table| table.store.name().to_owned())
            .collect();
        // Of a table whose creation or drop a crash has interrupted.
        for left in stores.names() {
            if left.starts_with(ROWS) && !used.contains(&left) {
                stores.drop_store(&left).map_err(KeyedError::List)?;
            }
        }
        Ok(Self {
            stores: stores.clone(),
            definitions: OnceLock::from(definitions),
            tables: Mutex::new(tables),
        })
    }

    /// Returns the store with the definitions, which is created if there is none.
    fn definitions(&self) -> Result<&Store> {
        if let Some(definitions) = self.definitions.get() {
            return Ok(definitions);
        }
        let definitions = self.stores.store(DEFINITIONS).map_err(KeyedError::List)?;
        Ok(self.definitions.get_or_init(|| definitions))
    }

    fn tables(&self) -> MutexGuard<'_, BTreeMap<String, Arc<KeyedTable>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the stores.
    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    /// Returns the names of the tables, in order.
    pub fn names(&self) -> Vec<String> {
        self.tables().keys().cloned().collect()
    }

    /// Returns a table; `None` if there is none of this name.
    pub fn table(&self, name: &str) -> Option<Arc<KeyedTable>> {
        self.tables().get(name).cloned()
    }

    /// Creates a table durably.
    ///
    /// # Errors
    /// [`KeyedError::Exists`], [`KeyedError::Store`], [`KeyedError::List`].
    pub fn create(&self, mut definition: TableDefinition) -> Result<Arc<KeyedTable>> {
        let mut tables = self.tables();
        if tables.contains_key(&definition.name) {
            return Err(KeyedError::Exists {
                name: definition.name,
            });
        }
        let last = tables.values().map(|table| table.definition.uid).max();
        definition.uid = last.unwrap_or(0) + 1;
        let name = definition.name.clone();
        let failed = |source| KeyedError::Store {
            table: name.clone(),
            source,
        };
        let store_name = store_name(definition.uid);
        if self.stores.existing(&store_name).is_ok() {
            // The rest of a table whose drop failed half-way.
            self.stores.drop_store(&store_name).map_err(failed)?;
        }
        let store = self.stores.store(&store_name).map_err(failed)?;
        self.write(&definition)?;
        let table = Arc::new(KeyedTable::new(definition, store));
        tables.insert(name, Arc::clone(&table));
        Ok(table)
    }

    fn write(&self, definition: &TableDefinition) -> Result<()> {
        let stored = self.definitions()?.put(&definition.name, definition.to_bytes());
        stored.map_err(KeyedError::List)
    }

    /// Drops a table with its rows. Statements that are reading it fail.
    ///
    /// # Errors
    /// [`KeyedError::NoTable`], [`KeyedError::Store`], [`KeyedError::List`].
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let mut tables = self.tables();
        let table = tables.get(name).cloned().ok_or_else(|| no_table(name))?;
        self.definitions()?.delete(name).map_err(KeyedError::List)?;
        tables.remove(name);
        drop(tables);
        let dropped = self.stores.drop_store(table.store.name());
        dropped.map_err(|error| table.failed(error))
    }

    /// Changes the definition of a table by `change`, which may rename the table's columns and add some.
    ///
    /// # Errors
    /// [`KeyedError::NoTable`], [`KeyedError::List`], and those of `change`.
    pub fn alter(&self, name: &str, change: impl FnOnce(&mut TableDefinition) -> Result<()>) -> Result<()> {
        let mut tables = self.tables();
        let table = tables.get(name).ok_or_else(|| no_table(name))?;
        let mut definition = table.definition.clone();
        change(&mut definition)?;
        self.write(&definition)?;
        let table = Arc::new(KeyedTable::new(definition, table.store.clone()));
        tables.insert(name.to_owned(), table);
        Ok(())
    }

    /// Renames a table.
    ///
    /// # Errors
    /// [`KeyedError::NoTable`], [`KeyedError::Exists`], [`KeyedError::List`].
    pub fn rename(&self, name: &str, to: &str) -> Result<()> {
        let mut tables = self.tables();
        if tables.contains_key(to) {
            return Err(KeyedError::Exists { name: to.to_owned() });
        }
        let table = tables.get(name).cloned().ok_or_else(|| no_table(name))?;
        let mut definition = table.definition.clone();
        definition.name = to.to_owned();
        let definitions = self.definitions()?;
        let mut batch = WriteBatch::new();
        let renamed = batch
            .delete(definitions, name)
            .and_then(|()| batch.put(definitions, to, definition.to_bytes()))
            .and_then(|()| self.stores.write(batch));
        renamed.map_err(KeyedError::List)?;
        tables.remove(name);
        let table = KeyedTable::new(definition, table.store.clone());
        tables.insert(to.to_owned(), Arc::new(table));
        Ok(())
    }
}

fn no_table(name: &str) -> KeyedError {
    KeyedError::NoTable {
        name: name.to_owned(),
    }
}
