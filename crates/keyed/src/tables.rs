//! All tables of a pool: [`KeyedTables`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use halocline_store::{DecidedBatch, LoadOptions, Store, StoreError, Stores, WriteBatch};

use crate::definition::{DEFINITIONS, ROWS, TableDefinition, store_name};
use crate::error::{KeyedError, Result};
use crate::load::KeyedLoad;
use crate::replacement::ReplacedTable;
use crate::table::KeyedTable;
use crate::unique::{UNIQUE, unique_store_name};
use crate::unpublished::UnpublishedTable;

/// The tables with a primary key of a pool, and the definitions of all. Threads may share it.
#[derive(Debug)]
pub struct KeyedTables {
    pub(crate) stores: Stores,
    /// The definitions, once there is a table.
    definitions: OnceLock<Store>,
    tables: Mutex<BTreeMap<String, Arc<KeyedTable>>>,
    /// The greatest number that has been given to a table since the tables were opened.
    last_uid: Mutex<u64>,
    /// Tables whose place others have taken. Statements may be reading them.
    pub(crate) replaced: Mutex<Vec<ReplacedTable>>,
}

impl Drop for KeyedTables {
    fn drop(&mut self) {
        let replaced = std::mem::take(self.replaced.get_mut().unwrap_or_else(PoisonError::into_inner));
        let replaced: Vec<_> = replaced.into_iter().map(|replaced| replaced.table).collect();
        self.drop_stores(&replaced);
    }
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
                    last_uid: Mutex::default(),
                    replaced: Mutex::default(),
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
            let index = index_of(stores, &definition)?;
            tables.insert(name, Arc::new(KeyedTable::new(definition, store, index)));
        }
        let stores_of = |table: &Arc<KeyedTable>| {
            let index = table.index.as_ref().map(|index| index.name().to_owned());
            index.into_iter().chain([table.store.name().to_owned()])
        };
        let used: Vec<String> = tables.values().flat_map(stores_of).collect();
        // Of a table whose creation or drop a crash has interrupted. To a reader it may also be one that the
        // writer is creating.
        for left in stores.names() {
            let is_of_table = left.starts_with(ROWS) || left.starts_with(UNIQUE);
            if is_of_table && !used.contains(&left) && !stores.is_reader() {
                match stores.drop_store(&left) {
                    // It is dropped when the tables are opened again.
                    Err(error) if error.is_full() => {}
                    dropped => dropped.map_err(KeyedError::List)?,
                }
            }
        }
        Ok(Self {
            stores: stores.clone(),
            definitions: OnceLock::from(definitions),
            tables: Mutex::new(tables),
            last_uid: Mutex::default(),
            replaced: Mutex::default(),
        })
    }

    /// Returns the store with the definitions, which is created if there is none.
    pub(crate) fn definitions(&self) -> Result<&Store> {
        if let Some(definitions) = self.definitions.get() {
            return Ok(definitions);
        }
        let definitions = self.stores.store(DEFINITIONS).map_err(KeyedError::List)?;
        Ok(self.definitions.get_or_init(|| definitions))
    }

    pub(crate) fn tables(&self) -> MutexGuard<'_, BTreeMap<String, Arc<KeyedTable>>> {
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

    /// Returns a table that a statement names.
    ///
    /// # Errors
    /// [`KeyedError::NoTable`].
    pub fn existing(&self, name: &str) -> Result<Arc<KeyedTable>> {
        self.table(name).ok_or_else(|| no_table(name))
    }

    /// Creates a table durably.
    ///
    /// # Errors
    /// [`KeyedError::Exists`], [`KeyedError::Store`], [`KeyedError::List`].
    pub fn create(&self, definition: TableDefinition) -> Result<Arc<KeyedTable>> {
        if self.table(&definition.name).is_some() {
            return Err(KeyedError::Exists {
                name: definition.name,
            });
        }
        self.publish(self.prepare(definition)?, false)
    }

    /// Creates the store of a table, which can be filled before [`publish`](Self::publish) makes the table
    /// one of the pool. Until then its name is not taken.
    ///
    /// # Errors
    /// [`KeyedError::Store`].
    pub fn prepare(&self, mut definition: TableDefinition) -> Result<UnpublishedTable> {
        let store_name = self.new_store(&mut definition)?;
        let store = self.stores.store(&store_name);
        let store = store.map_err(|source| of_table(&definition, source))?;
        let index = definition.has_unique().then(|| unique_store_name(definition.uid));
        let table = Arc::new(KeyedTable::new(definition, store, None));
        let unpublished = UnpublishedTable::new(&self.stores, Arc::clone(&table));
        let index = index.map(|name| self.stores.store(&name)).transpose();
        Ok(unpublished.with_index(index.map_err(|source| table.failed(source))?))
    }

    /// Begins to load a new table, whose rows may come in any order. That is several times faster than to
    /// fill one that was [prepared](Self::prepare), and takes no more memory than the options say.
    ///
    /// # Errors
    /// [`KeyedError::Store`].
    pub fn load(&self, mut definition: TableDefinition, options: LoadOptions) -> Result<KeyedLoad> {
        let store_name = self.new_store(&mut definition)?;
        let parts = if definition.has_unique() { 2 } else { 1 };
        let options = options.part_of_memory(parts);
        let loader = self.stores.load(&store_name, options.clone());
        let loader = loader.map_err(|source| of_table(&definition, source))?;
        Ok(KeyedLoad::new(&self.stores, definition, loader, &options))
    }

    /// Gives a definition a number, and returns the name of its store, which is not there yet.
    pub(crate) fn new_store(&self, definition: &mut TableDefinition) -> Result<String> {
        self.drop_replaced();
        definition.uid = self.next_uid();
        let store_name = store_name(definition.uid);
        for name in [&store_name, &unique_store_name(definition.uid)] {
            if self.stores.existing(name).is_ok() {
                // The rest of a table whose drop failed half-way.
                let dropped = self.stores.drop_store(name);
                dropped.map_err(|source| of_table(definition, source))?;
            }
        }
        Ok(store_name)
    }

    /// Returns a number that no table has, and none that is being created.
    fn next_uid(&self) -> u64 {
        let tables = self.tables();
        let greatest = tables.values().map(|table| table.definition.uid).max();
        let mut last = self.last_uid.lock().unwrap_or_else(PoisonError::into_inner);
        *last = greatest.unwrap_or(0).max(*last) + 1;
        *last
    }

    /// Makes a table one of the pool, durably; with `replace`, in place of one of its name.
    ///
    /// # Errors
    /// [`KeyedError::Exists`], [`KeyedError::List`]; the new table is gone then.
    pub fn publish(&self, unpublished: UnpublishedTable, replace: bool) -> Result<Arc<KeyedTable>> {
        let table = Arc::clone(unpublished.table());
        self.publish_all(vec![unpublished], replace)?;
        Ok(table)
    }

    /// Makes tables those of the pool as [`publish`](Self::publish) does, all of them or none.
    fn publish_all(&self, unpublished: Vec<UnpublishedTable>, replace: bool) -> Result<()> {
        let mut tables = self.tables();
        let mut batch = WriteBatch::new();
        for new in &unpublished {
            let table = new.table();
            if tables.contains_key(table.name()) {
                if !replace {
                    return Err(KeyedError::Exists {
                        name: table.name().to_owned(),
                    });
                }
                // The rows of the replaced table will be freed.
                batch.use_reserve();
            }
            batch
                .put(self.definitions()?, table.name(), table.definition.to_bytes())
                .map_err(KeyedError::List)?;
        }
        self.stores.write(batch).map_err(KeyedError::List)?;
        let mut replaced: Vec<Arc<KeyedTable>> = Vec::new();
        for mut new in unpublished {
            new.keep();
            let table = Arc::clone(new.table());
            replaced.extend(tables.insert(table.name().to_owned(), table));
        }
        drop(tables);
        self.drop_stores(&replaced);
        Ok(())
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
        self.drop_tables(&[name])
    }

    /// Drops tables with their rows, all of them or none. Statements that are reading them fail.
    ///
    /// # Errors
    /// [`KeyedError::NoTable`], [`KeyedError::List`].
    pub fn drop_tables(&self, names: &[&str]) -> Result<()> {
        let mut tables = self.tables();
        let dropped = found(&tables, names)?;
        let (definitions, mut batch) = (self.definitions()?, WriteBatch::new());
        for name in names {
            batch.delete(definitions, name).map_err(KeyedError::List)?;
        }
        self.stores.write(batch).map_err(KeyedError::List)?;
        tables.retain(|name, _| !names.contains(&name.as_str()));
        drop(tables);
        self.drop_stores(&dropped);
        Ok(())
    }

    /// Drops tables as [`drop_tables`](Self::drop_tables) does, together with what a transaction of the pool
    /// changes: either `decide` succeeds, which puts the batch into that transaction and commits it, or
    /// nothing is dropped. `decide` must not use these tables nor the stores.
    ///
    /// # Errors
    /// [`KeyedError::NoTable`]; that of `decide`; those of
    /// [`commit_with`](halocline_store::StoreTransaction::commit_with).
    pub fn drop_tables_with<E: From<KeyedError> + From<StoreError>>(
        &self,
        names: &[&str],
        decide: impl FnOnce(&DecidedBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut tables = self.tables();
        let dropped = found(&tables, names)?;
        let definitions = self.definitions()?;
        let mut transaction = self.stores.begin();
        for name in names {
            transaction.delete(definitions, name)?;
        }
        transaction.commit_with(decide)?;
        tables.retain(|name, _| !names.contains(&name.as_str()));
        drop(tables);
        self.drop_stores(&dropped);
        Ok(())
    }

    /// Drops the stores of tables that are no longer in the list. One that cannot be dropped now is dropped
    /// when the tables are opened again, as after a crash.
    pub(crate) fn drop_stores(&self, tables: &[Arc<KeyedTable>]) {
        for table in tables {
            let _rest = self.stores.drop_store(table.store.name());
            if let Some(index) = &table.index {
                let _rest = self.stores.drop_store(index.name());
            }
        }
    }

    /// Changes the definition of a table by `change`, which may rename the table's columns, add some, change
    /// their defaults, and loosen what the rows obey.
    ///
    /// # Errors
    /// [`KeyedError::NoTable`], [`KeyedError::List`], and those of `change`.
    pub fn alter(&self, name: &str, change: impl FnOnce(&mut TableDefinition) -> Result<()>) -> Result<()> {
        let mut tables = self.tables();
        let table = tables.get(name).ok_or_else(|| no_table(name))?;
        let mut definition = table.definition.clone();
        change(&mut definition)?;
        self.write(&definition)?;
        let table = KeyedTable::new(definition, table.store.clone(), table.index.clone());
        let table = Arc::new(table);
        tables.insert(name.to_owned(), table);
        Ok(())
    }

    /// Takes all rows of tables away, of all of them or of none. Statements that are reading them fail if
    /// there is no room to delete their rows one by one: then empty tables take their places.
    ///
    /// # Errors
    /// [`KeyedError::NoTable`], [`KeyedError::Store`], [`KeyedError::List`].
    pub fn truncate(&self, names: &[&str]) -> Result<()> {
        let emptied = found(&self.tables(), names)?;
        let mut batch = WriteBatch::new();
        let deleted = emptied
            .iter()
            .flat_map(|table| std::iter::once(&table.store).chain(&table.index))
            .try_for_each(|store| batch.delete_range::<Vec<u8>>(store, ..))
            .and_then(|()| self.stores.write(batch));
        match deleted {
            Err(error) if error.is_full() => {
                let empty = emptied.iter().map(|table| self.prepare(table.definition.clone()));
                let empty: Vec<UnpublishedTable> = empty.collect::<Result<_>>()?;
                self.publish_all(empty, true)
            }
            deleted => deleted.map_err(|source| KeyedError::Store {
                table: names.join(", "),
                source,
            }),
        }
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
        let table = KeyedTable::new(definition, table.store.clone(), table.index.clone());
        tables.insert(to.to_owned(), Arc::new(table));
        Ok(())
    }
}

/// Returns the store that leads from the values of unique constraints to the rows of a table.
///
/// # Errors
/// [`KeyedError::Store`].
pub(crate) fn index_of(stores: &Stores, definition: &TableDefinition) -> Result<Option<Store>> {
    if !definition.has_unique() {
        return Ok(None);
    }
    let index = stores.existing(&unique_store_name(definition.uid));
    index.map(Some).map_err(|source| of_table(definition, source))
}

fn of_table(definition: &TableDefinition, source: StoreError) -> KeyedError {
    KeyedError::Store {
        table: definition.name.clone(),
        source,
    }
}

/// Returns the tables with some names.
pub(crate) fn found(
    tables: &BTreeMap<String, Arc<KeyedTable>>,
    names: &[&str],
) -> Result<Vec<Arc<KeyedTable>>> {
    let table = |name: &&str| tables.get(*name).cloned().ok_or_else(|| no_table(name));
    names.iter().map(table).collect()
}

fn no_table(name: &str) -> KeyedError {
    KeyedError::NoTable {
        name: name.to_owned(),
    }
}
