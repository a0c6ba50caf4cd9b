//! The tables and indexes of one version of the database.
//!
//! A version is a generation of the pool and a position in its log, or the state of a transaction. Catalogs
//! of the same generation share what they have opened.
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "a part of the engine: its documentation is read with that of private items"
)]

pub mod auto;
pub mod background;
mod cache;
pub mod context;
pub mod delta;
pub mod estimate;
pub mod filter;
pub mod known_keys;
pub mod memory;
mod objects;
mod open;
pub mod options;
pub mod placements;
pub mod query_memory;
mod rewrites;
pub mod scrub;
pub mod selections;
pub mod settings;
pub mod spill_files;
pub mod spill_writer;
mod statistics;
pub mod stores;
mod synthetic;
pub mod threads;
pub mod tiers;
pub mod transaction;
pub mod tuning;
pub mod write;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

pub use cache::CatalogCache;
pub use objects::{CatalogObjects, is_same_object};
pub use open::{OpenIndex, OpenTable};
pub use rewrites::{CatalogVersion, Rewrites};

use crate::delta::Delta;
use crate::placements::Placements;
use halocline_sql::EngineError;

const TABLE_PREFIX: &str = "table/";
const INDEX_PREFIX: &str = "index/";
const VIEW_PREFIX: &str = "view/";
const MACRO_PREFIX: &str = "macro/";
/// Name of the pool's log of small changes.
pub const LOG_OBJECT: &str = "log";

/// Returns the name of the pool's object for a table.
pub fn table_object(name: &str) -> String {
    format!("{TABLE_PREFIX}{name}")
}

/// Returns the name of the pool's object for an index.
pub fn index_object(name: &str) -> String {
    format!("{INDEX_PREFIX}{name}")
}

/// Returns the name of the pool's object for a view.
pub fn view_object(name: &str) -> String {
    format!("{VIEW_PREFIX}{name}")
}

/// Returns the name of the pool's object for a macro.
pub fn macro_object(name: &str) -> String {
    format!("{MACRO_PREFIX}{name}")
}

/// One version of the database. A statement keeps it, and with it the snapshot, until it ends.
pub struct Catalog {
    objects: Arc<CatalogObjects>,
    delta: Delta,
    /// Position up to which the log has been read.
    position: u64,
    /// Tables with their deltas, by uid.
    changed: Mutex<BTreeMap<u64, Arc<OpenTable>>>,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog")
            .field("generation", &self.objects.generation())
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl Catalog {
    /// Combines objects with the log up to a position.
    pub fn new(objects: Arc<CatalogObjects>, delta: Delta, position: u64) -> Self {
        Self {
            objects,
            delta,
            position,
            changed: Mutex::default(),
        }
    }

    /// Returns the objects.
    pub fn objects(&self) -> &Arc<CatalogObjects> {
        &self.objects
    }

    /// Returns the changes that the log holds.
    pub fn delta(&self) -> &Delta {
        &self.delta
    }

    /// Returns the position up to which the log has been read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the generation and the position in its log.
    pub fn version(&self) -> CatalogVersion {
        (self.objects.generation(), self.position)
    }

    /// Returns the sorted names of the tables.
    pub fn table_names(&self) -> Vec<String> {
        self.objects.table_names()
    }

    /// Returns true if there is a table of this name.
    pub fn has_table(&self, name: &str) -> bool {
        self.objects.has_table(name)
    }

    /// Returns true if there is an index of this name.
    pub fn has_index(&self, name: &str) -> bool {
        self.objects.has_index(name)
    }

    /// Returns the sorted names of the views.
    pub fn view_names(&self) -> Vec<String> {
        self.objects.view_names()
    }

    /// Returns true if there is a view of this name.
    pub fn has_view(&self, name: &str) -> bool {
        self.objects.view(name).is_some()
    }

    /// Returns true if there are views.
    pub fn has_views(&self) -> bool {
        self.objects.has_views()
    }

    /// Opens all indexes and returns them.
    pub fn indexes(&self) -> &[OpenIndex] {
        self.objects.indexes()
    }

    /// Returns the names of the indexes of a table.
    pub fn indexes_of(&self, table: &str) -> Vec<String> {
        let on_table = |index: &&OpenIndex| index.table.as_deref() == Some(table);
        self.indexes()
            .iter()
            .filter(on_table)
            .map(|index| index.name.clone())
            .collect()
    }

    /// Returns a table with its delta; opens it on the first call.
    ///
    /// # Errors
    /// There is none; its bytes are damaged.
    pub fn table(&self, name: &str) -> Result<Arc<OpenTable>, EngineError> {
        let open = self.objects.table(name)?;
        let uid = open.table.uid();
        let Some(delta) = self.delta.table(uid) else {
            return Ok(open);
        };
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = changed.get(&uid) {
            return Ok(Arc::clone(known));
        }
        let open = Arc::new(open.with_delta(delta)?);
        changed.insert(uid, Arc::clone(&open));
        Ok(open)
    }

    /// Returns the version without the log: the readable part of a database whose log is damaged.
    pub fn without_log(snapshot: halocline_pool::Snapshot, placements: &Arc<Placements>) -> Self {
        let objects = CatalogObjects::of_snapshot(snapshot, placements);
        Self::new(Arc::new(objects), Delta::default(), 0)
    }

    /// Returns the error for a table that does not exist.
    pub fn no_table(&self, name: &str) -> EngineError {
        self.objects.no_table(name)
    }

    /// Returns the error for a view that does not exist.
    pub fn no_view(&self, name: &str) -> EngineError {
        self.objects.no_view(name)
    }

    /// Returns the error for an index that does not exist.
    pub fn no_index(&self, name: &str) -> EngineError {
        self.objects.no_index(name)
    }
}
