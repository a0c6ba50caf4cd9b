//! The tables and indexes of one published state of the pool, opened when first asked for.

mod provider;
mod statistics;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use halocline_columns::Table;
use halocline_elf::TableIndex;
use halocline_pool::{ObjectKind, PoolError, Snapshot};

pub(crate) use provider::{CATALOG, Externals, PoolCatalogList, SCHEMA};
use statistics::table_statistics;

use crate::EngineError;
use crate::error::known_names;

const TABLE_PREFIX: &str = "table/";
const INDEX_PREFIX: &str = "index/";

/// Name of the pool's object for a table.
pub(crate) fn table_object(name: &str) -> String {
    format!("{TABLE_PREFIX}{name}")
}

/// Name of the pool's object for an index.
pub(crate) fn index_object(name: &str) -> String {
    format!("{INDEX_PREFIX}{name}")
}

/// One published state. Cheap to share; a statement keeps it to its end, and with it the snapshot.
pub(crate) struct Catalog {
    snapshot: Snapshot,
    tables: BTreeMap<String, OnceLock<Arc<OpenTable>>>,
    index_names: Vec<String>,
    indexes: OnceLock<Vec<OpenIndex>>,
    opening: Mutex<()>,
}

/// A table with its indexes.
pub(crate) struct OpenTable {
    /// The table.
    pub(crate) table: Table,
    /// Its indexes, those that cannot be read as the reason why.
    pub(crate) indexes: Vec<OpenIndex>,
    statistics: OnceLock<Arc<datafusion::common::Statistics>>,
}

/// An index, or why it cannot be used.
#[derive(Clone)]
pub(crate) struct OpenIndex {
    /// Its name.
    pub(crate) name: String,
    /// The index.
    pub(crate) index: Result<Arc<TableIndex>, String>,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog")
            .field("generation", &self.snapshot.generation())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for OpenTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenTable")
            .field("name", &self.table.name())
            .finish_non_exhaustive()
    }
}

impl Catalog {
    /// Lists the objects of a snapshot; reads none of them.
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        let (mut tables, mut index_names) = (BTreeMap::new(), Vec::new());
        for object in snapshot.objects() {
            match object.kind() {
                ObjectKind::TABLE => {
                    if let Some(name) = object.name().strip_prefix(TABLE_PREFIX) {
                        tables.insert(name.to_string(), OnceLock::new());
                    }
                }
                ObjectKind::INDEX => {
                    index_names.extend(object.name().strip_prefix(INDEX_PREFIX).map(str::to_string))
                }
                _ => {}
            }
        }
        index_names.sort_unstable();
        Self {
            snapshot,
            tables,
            index_names,
            indexes: OnceLock::new(),
            opening: Mutex::new(()),
        }
    }

    /// Names of the tables, sorted.
    pub(crate) fn table_names(&self) -> Vec<String> {
        self.tables.keys().cloned().collect()
    }

    /// Is there a table of this name.
    pub(crate) fn has_table(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }

    /// Is there an index of this name.
    pub(crate) fn has_index(&self, name: &str) -> bool {
        self.index_names.iter().any(|other| other == name)
    }

    /// All indexes, opened.
    pub(crate) fn indexes(&self) -> &[OpenIndex] {
        self.indexes.get_or_init(|| {
            let open = |name: &String| {
                let index = TableIndex::open(&self.snapshot, name)
                    .map(Arc::new)
                    .map_err(|e| e.to_string());
                OpenIndex {
                    name: name.clone(),
                    index,
                }
            };
            self.index_names.iter().map(open).collect()
        })
    }

    /// Names of the indexes of a table.
    pub(crate) fn indexes_of(&self, table: &str) -> Vec<String> {
        let on_table = |index: &&OpenIndex| index.index.as_ref().is_ok_and(|open| open.table() == table);
        self.indexes()
            .iter()
            .filter(on_table)
            .map(|index| index.name.clone())
            .collect()
    }

    /// A table, opened once.
    ///
    /// # Errors
    /// There is none; its bytes are damaged.
    pub(crate) fn table(&self, name: &str) -> Result<Arc<OpenTable>, EngineError> {
        let slot = self.tables.get(name).ok_or_else(|| self.no_table(name))?;
        if let Some(open) = slot.get() {
            return Ok(Arc::clone(open));
        }
        let _one_at_a_time = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = slot.get() {
            return Ok(Arc::clone(open));
        }
        let table = Table::open(&self.snapshot, name)?;
        let on_table = |index: &&OpenIndex| index.index.as_ref().map_or(true, |open| open.table() == name);
        let indexes = self.indexes().iter().filter(on_table).cloned().collect();
        let open = Arc::new(OpenTable {
            table,
            indexes,
            statistics: OnceLock::new(),
        });
        Ok(Arc::clone(slot.get_or_init(|| open)))
    }

    /// The error for a table that is not there.
    pub(crate) fn no_table(&self, name: &str) -> EngineError {
        EngineError::NoTable {
            name: name.to_string(),
            known: known_names("tables", &self.table_names()),
        }
    }

    /// The error for an index that is not there.
    pub(crate) fn no_index(&self, name: &str) -> EngineError {
        EngineError::NoIndex {
            name: name.to_string(),
            known: known_names("indexes", &self.index_names),
        }
    }
}

impl OpenTable {
    /// Row and value statistics, computed once.
    ///
    /// # Errors
    /// The zone maps cannot be read.
    pub(crate) fn statistics(&self) -> Result<Arc<datafusion::common::Statistics>, EngineError> {
        if let Some(known) = self.statistics.get() {
            return Ok(Arc::clone(known));
        }
        let computed = Arc::new(table_statistics(&self.table)?);
        Ok(Arc::clone(self.statistics.get_or_init(|| computed)))
    }
}

/// The newest state, kept between statements so that nothing is opened twice.
#[derive(Debug, Default)]
pub(crate) struct CatalogCache(Mutex<Option<Arc<Catalog>>>);

impl CatalogCache {
    /// The catalog of the newest state.
    ///
    /// # Errors
    /// The pool cannot be read.
    pub(crate) fn newest(&self, pool: &halocline_pool::Pool) -> Result<Arc<Catalog>, PoolError> {
        let snapshot = pool.snapshot()?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some(catalog) if catalog.snapshot.generation() == snapshot.generation() => {
                Ok(Arc::clone(catalog))
            }
            _ => {
                let catalog = Arc::new(Catalog::new(snapshot));
                *kept = Some(Arc::clone(&catalog));
                Ok(catalog)
            }
        }
    }

    /// Lets the snapshot go, so that a writer may use the space that it frees.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
