//! A cache of the newest version, so that statements do not open or read anything twice.
//!
//! The cache drops a generation when a newer one is there, so that a kept snapshot never holds freed space
//! back from a writer. With a version it drops the state that refers to it, as plans of queries.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use halocline_pool::Pool;
use halocline_sql::EngineError;

use super::{Catalog, CatalogObjects, LOG_OBJECT};
use crate::delta::Delta;
use crate::placements::Placements;
use crate::tuning::{EngineFault, Tuning};

/// The newest version that a statement has requested.
#[derive(Debug)]
pub struct CatalogCache {
    kept: Mutex<Option<KeptVersion>>,
    placements: Arc<Placements>,
}

/// A version, and the state of the layers above that belongs to it, as plans of queries over it.
#[derive(Debug)]
struct KeptVersion {
    catalog: Arc<Catalog>,
    state: Option<Box<dyn Any + Send>>,
}

impl KeptVersion {
    fn new(catalog: Catalog) -> Self {
        Self {
            catalog: Arc::new(catalog),
            state: None,
        }
    }
}

impl CatalogCache {
    /// Returns an empty cache.
    pub fn new(placements: Arc<Placements>) -> Self {
        Self {
            kept: Mutex::default(),
            placements,
        }
    }

    /// Returns the newest version: the newest generation with its whole log. O(records since the last call).
    ///
    /// # Errors
    /// The pool or its log cannot be read.
    pub fn newest(&self, pool: &Pool, tuning: &Tuning) -> Result<Arc<Catalog>, EngineError> {
        let mut kept = self.kept();
        let snapshot = pool.snapshot()?;
        let known = match kept.take() {
            Some(known) if known.catalog.objects.generation() == snapshot.generation() => known,
            Some(known) if tuning.injected(EngineFault::MixVersions) => {
                let objects = CatalogObjects::of_snapshot(snapshot, &self.placements);
                KeptVersion::new(Catalog::new(Arc::new(objects), known.catalog.delta.clone(), 0))
            }
            _ => {
                let objects = CatalogObjects::of_snapshot(snapshot, &self.placements);
                self.placements.retain(|name| objects.has_index(name));
                KeptVersion::new(Catalog::new(Arc::new(objects), Delta::default(), 0))
            }
        };
        let newest = extended(&known.catalog, tuning)?.map_or(known, KeptVersion::new);
        let catalog = Arc::clone(&newest.catalog);
        *kept = Some(newest);
        Ok(catalog)
    }

    /// Calls `use_state` with the state of a version, which is dropped with the version; returns `None` if
    /// there is a newer version.
    ///
    /// The state is of one type for all versions: a first call with another type makes a new one.
    pub fn with_state<S: Default + Send + 'static, T>(
        &self,
        of: &Arc<Catalog>,
        use_state: impl FnOnce(&mut S) -> T,
    ) -> Option<T> {
        let mut kept = self.kept();
        let known = kept.as_mut().filter(|known| Arc::ptr_eq(&known.catalog, of))?;
        if !known.state.as_ref().is_some_and(|state| state.is::<S>()) {
            known.state = Some(Box::new(S::default()));
        }
        known.state.as_mut()?.downcast_mut().map(use_state)
    }

    /// Drops the snapshot, so that a writer may reuse the space that it pins.
    pub fn forget(&self) {
        self.kept().take();
    }

    fn kept(&self) -> MutexGuard<'_, Option<KeptVersion>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the version that includes the records appended since, if there are any.
fn extended(known: &Catalog, tuning: &Tuning) -> Result<Option<Catalog>, EngineError> {
    let Some(snapshot) = known.objects.snapshot() else {
        return Ok(None);
    };
    if snapshot.get(LOG_OBJECT).is_none() {
        return Ok(None);
    }
    let log = snapshot.log_records(LOG_OBJECT, known.position)?;
    if log.records.is_empty() {
        return Ok(None);
    }
    let mut delta = Delta::clone(&known.delta);
    for record in &log.records {
        let schema_of = |uid| Ok(Arc::clone(&known.objects.named(uid)?.1));
        delta.apply_record(record, schema_of)?;
    }
    let objects = Arc::clone(&known.objects);
    let read = if tuning.injected(EngineFault::ReadRecordsTwice) {
        known.position
    } else {
        log.end
    };
    Ok(Some(Catalog::new(objects, delta, read)))
}
