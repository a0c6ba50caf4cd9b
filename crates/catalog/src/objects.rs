//! The tables and indexes in one state of the pool's objects, opened on first use.
//!
//! The state is that of a snapshot, or that of a transaction; the latter is read only while the transaction's
//! statement is planned, and never keeps the transaction from ending.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use arrow_schema::SchemaRef;
use halocline_columns::{Table, TableHead};
use halocline_elf::{TableIndex, indexed_table};
use halocline_pool::{Object, ObjectKind, Snapshot, Txn};
use halocline_sql::EngineError;
use halocline_sql::error::known_names;

use super::{
    INDEX_PREFIX, MACRO_PREFIX, OpenIndex, OpenTable, TABLE_PREFIX, VIEW_PREFIX, index_object, table_object,
};
use crate::placements::{IndexPlacement, Placements};

/// Where the objects are read.
enum ObjectSource {
    Snapshot(Snapshot),
    Transaction(Weak<Txn>),
}

/// One state of the pool's objects.
pub struct CatalogObjects {
    source: ObjectSource,
    generation: u64,
    tables: BTreeMap<String, OnceLock<Arc<OpenTable>>>,
    index_names: Vec<String>,
    /// The stored definitions of the views, by name.
    views: BTreeMap<String, Box<[u8]>>,
    /// The stored definitions of the macros, by name.
    macros: BTreeMap<String, Box<[u8]>>,
    indexes: OnceLock<Vec<OpenIndex>>,
    /// Names and columns of the tables by uid, those of damaged ones among them.
    heads: OnceLock<BTreeMap<u64, (String, SchemaRef)>>,
    opening: Mutex<()>,
    placements: Arc<Placements>,
}

impl CatalogObjects {
    /// Lists the objects of a snapshot; reads none of them.
    pub fn of_snapshot(snapshot: Snapshot, placements: &Arc<Placements>) -> Self {
        let objects: Vec<Object> = snapshot.objects().collect();
        let generation = snapshot.generation();
        Self::new(ObjectSource::Snapshot(snapshot), generation, &objects, placements)
    }

    /// Lists the objects as a transaction has them now; reads none of them.
    pub fn of_transaction(txn: &Arc<Txn>, placements: &Arc<Placements>) -> Self {
        let source = ObjectSource::Transaction(Arc::downgrade(txn));
        Self::new(source, txn.base_generation(), &txn.objects(), placements)
    }

    fn new(source: ObjectSource, generation: u64, objects: &[Object], placements: &Arc<Placements>) -> Self {
        let (mut tables, mut index_names) = (BTreeMap::new(), Vec::new());
        let (mut views, mut macros) = (BTreeMap::new(), BTreeMap::new());
        for object in objects {
            match object.kind() {
                ObjectKind::TABLE => {
                    if let Some(name) = object.name().strip_prefix(TABLE_PREFIX) {
                        tables.insert(name.to_string(), OnceLock::new());
                    }
                }
                ObjectKind::INDEX => {
                    index_names.extend(object.name().strip_prefix(INDEX_PREFIX).map(str::to_string))
                }
                ObjectKind::DEFINITION => {
                    if let Some(name) = object.name().strip_prefix(VIEW_PREFIX) {
                        views.insert(name.to_string(), object.meta().into());
                    } else if let Some(name) = object.name().strip_prefix(MACRO_PREFIX) {
                        macros.insert(name.to_string(), object.meta().into());
                    }
                }
                _ => {}
            }
        }
        index_names.sort_unstable();
        Self {
            source,
            generation,
            tables,
            index_names,
            views,
            macros,
            indexes: OnceLock::new(),
            heads: OnceLock::new(),
            opening: Mutex::new(()),
            placements: Arc::clone(placements),
        }
    }

    /// Returns the generation that this state is, or is based on.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the snapshot if this is the state of one.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        match &self.source {
            ObjectSource::Snapshot(snapshot) => Some(snapshot),
            ObjectSource::Transaction(_) => None,
        }
    }

    /// Returns true if tables, indexes and the log are those of another snapshot: only slabs may have grown
    /// since.
    pub fn are_those_of(&self, other: &Snapshot) -> bool {
        let Some(own) = self.snapshot() else {
            return false;
        };
        let of_tables = |object: &Object| object.kind() != ObjectKind::SLAB;
        own.generation() == other.generation() || {
            let (own, other) = (own.objects().filter(of_tables), other.objects().filter(of_tables));
            let (own, other): (Vec<_>, Vec<_>) = (own.collect(), other.collect());
            own.len() == other.len()
                && own
                    .iter()
                    .zip(&other)
                    .all(|(one, other)| is_same_object(one, other))
        }
    }

    /// Returns the sorted names of the tables.
    pub fn table_names(&self) -> Vec<String> {
        self.tables.keys().cloned().collect()
    }

    /// Returns true if there is a table of this name.
    pub fn has_table(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }

    /// Returns true if there is an index of this name.
    pub fn has_index(&self, name: &str) -> bool {
        self.index_names.iter().any(|other| other == name)
    }

    /// Returns the sorted names of the views.
    pub fn view_names(&self) -> Vec<String> {
        self.views.keys().cloned().collect()
    }

    /// Returns true if there are views.
    pub fn has_views(&self) -> bool {
        !self.views.is_empty()
    }

    /// Returns the stored definition of a view; `None` if there is none of this name.
    pub fn view(&self, name: &str) -> Option<&[u8]> {
        self.views.get(name).map(|definition| &**definition)
    }

    /// Returns the sorted names of the macros.
    pub fn macro_names(&self) -> Vec<String> {
        self.macros.keys().cloned().collect()
    }

    /// Returns true if there are macros.
    pub fn has_macros(&self) -> bool {
        !self.macros.is_empty()
    }

    /// Returns true if there is a macro of this name.
    pub fn has_macro(&self, name: &str) -> bool {
        self.macros.contains_key(name)
    }

    /// Returns the stored definition of a macro; `None` if there is none of this name.
    pub fn macro_record(&self, name: &str) -> Option<&[u8]> {
        self.macros.get(name).map(|definition| &**definition)
    }

    /// Opens all indexes and returns them.
    pub fn indexes(&self) -> &[OpenIndex] {
        self.indexes.get_or_init(|| {
            self.index_names
                .iter()
                .map(|name| self.open_index(name))
                .collect()
        })
    }

    fn open_index(&self, name: &str) -> OpenIndex {
        let opened = match &self.source {
            ObjectSource::Snapshot(snapshot) => {
                TableIndex::open(snapshot, name).map_err(|error| error.to_string())
            }
            ObjectSource::Transaction(txn) => match txn.upgrade() {
                Some(txn) => TableIndex::open_in(&txn, name).map_err(|error| error.to_string()),
                None => Err(EngineError::TransactionOver.to_string()),
            },
        };
        let table = match &opened {
            Ok(index) => Some(index.table().to_string()),
            Err(_) => indexed_table(self.object(&index_object(name)), name).ok(),
        };
        let (index, incomplete) = match opened.map(Arc::new) {
            Ok(index) if index.is_complete() || index.is_volatile() => (Ok(index), None),
            Ok(index) => (
                Err("it will cover the rows of this transaction when it commits".into()),
                Some(index),
            ),
            Err(error) => (Err(error), None),
        };
        OpenIndex {
            name: name.to_string(),
            table,
            index,
            incomplete,
            placement: IndexPlacement::new(&self.placements, self.snapshot().is_some()),
        }
    }

    /// Returns a table without its delta; opens it on the first call.
    ///
    /// # Errors
    /// There is none; its bytes are damaged; the transaction has ended.
    pub fn table(&self, name: &str) -> Result<Arc<OpenTable>, EngineError> {
        let slot = self.tables.get(name).ok_or_else(|| self.no_table(name))?;
        if let Some(open) = slot.get() {
            return Ok(Arc::clone(open));
        }
        let _one_at_a_time = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = slot.get() {
            return Ok(Arc::clone(open));
        }
        let table = match &self.source {
            ObjectSource::Snapshot(snapshot) => Table::open(snapshot, name)?,
            ObjectSource::Transaction(txn) => {
                let txn = txn.upgrade().ok_or(EngineError::TransactionOver)?;
                Table::open_in(&txn, name)?
            }
        };
        // An unreadable index may belong to any table.
        let on_table = |index: &&OpenIndex| index.table.as_ref().is_none_or(|table| table == name);
        let indexes = self.indexes().iter().filter(on_table).cloned().collect();
        let open = Arc::new(OpenTable::new(table, indexes, &self.placements));
        Ok(Arc::clone(slot.get_or_init(|| open)))
    }

    /// Returns the object of this name in the pool.
    fn object(&self, name: &str) -> Option<Object> {
        match &self.source {
            ObjectSource::Snapshot(snapshot) => snapshot.get(name),
            ObjectSource::Transaction(txn) => txn.upgrade()?.get(name),
        }
    }

    /// Returns the definition of a table and the number of its stored rows, even if the table is damaged.
    ///
    /// # Errors
    /// There is none, or its metadata cannot be read.
    pub fn table_head(&self, name: &str) -> Result<TableHead, EngineError> {
        if !self.has_table(name) {
            return Err(self.no_table(name));
        }
        Ok(TableHead::of_object(self.object(&table_object(name)), name)?)
    }

    /// Returns name and columns of the table of this uid, which may be damaged.
    ///
    /// # Errors
    /// There is none.
    pub fn named(&self, uid: u64) -> Result<&(String, SchemaRef), EngineError> {
        let heads = self.heads.get_or_init(|| {
            let head = |name: &String| {
                let head = self.table_head(name).ok()?;
                Some((head.uid, (name.clone(), head.schema)))
            };
            self.tables.keys().filter_map(head).collect()
        });
        heads.get(&uid).ok_or_else(|| EngineError::Log {
            reason: format!("it names a table of uid {uid:016x}, which is not there"),
        })
    }

    /// Returns the table of this uid.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn table_of(&self, uid: u64) -> Result<Arc<OpenTable>, EngineError> {
        let (name, _) = self.named(uid)?;
        self.table(name)
    }

    /// Returns the error for a table that does not exist; another one if there is a view of this name.
    pub fn no_table(&self, name: &str) -> EngineError {
        if self.views.contains_key(name) {
            return EngineError::IsView {
                name: name.to_string(),
            };
        }
        EngineError::NoTable {
            name: name.to_string(),
            known: known_names("tables", &self.table_names()),
        }
    }

    /// Returns the error for a view that does not exist; another one if there is a table of this name.
    pub fn no_view(&self, name: &str) -> EngineError {
        if self.has_table(name) {
            return EngineError::IsTable {
                name: name.to_string(),
            };
        }
        EngineError::NoView {
            name: name.to_string(),
            known: known_names("views", &self.view_names()),
        }
    }

    /// Returns the error for a macro that does not exist.
    pub fn no_macro(&self, name: &str) -> EngineError {
        EngineError::NoMacro {
            name: name.to_string(),
            known: known_names("macros", &self.macro_names()),
        }
    }

    /// Returns the error for an index that does not exist.
    pub fn no_index(&self, name: &str) -> EngineError {
        EngineError::NoIndex {
            name: name.to_string(),
            known: known_names("indexes", &self.index_names),
        }
    }
}

/// Returns true if two objects have the same name and contents.
pub fn is_same_object(a: &Object, b: &Object) -> bool {
    a.name() == b.name()
        && a.kind() == b.kind()
        && a.meta() == b.meta()
        && a.extent_count() == b.extent_count()
        && (0..a.extent_count()).all(|i| a.extent_ref(i) == b.extent_ref(i))
}
