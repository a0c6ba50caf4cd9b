//! The trees of volatile indexes: built by the first query that has a use for one, and kept from one version of the database
//! to the next.
//!
//! Invariants: nobody but a statement that places an index waits for a build; a build that nobody has a use for any more ends
//! early; an index is used with all of its trees or not at all.
//!
//! A query that arrives during a build falls back to a table scan, and so does a transaction that sees rows
//! without trees. What is spilled during a build goes to a temporary file, so that a pool opened for reading
//! only can have a volatile index. Another budget drops the trees of all volatile indexes if they have no
//! room together, and builds none.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use halocline_cache::Budget;
use halocline_columns::Table;
use halocline_elf::{ElfError, IndexOptions, KeptTrees, TableIndex, VolatileTrees};
use halocline_media::{FileMedium, FileOptions, Medium, MediumAccess, MediumBackend};
use halocline_pool::{Pool, PoolError};
use tempfile::NamedTempFile;

use super::{InPlace, Placing};
use crate::EngineError;

/// The trees of all volatile indexes of a database, by the index's name.
#[derive(Debug)]
pub(crate) struct Trees {
    options: IndexOptions,
    entries: Mutex<BTreeMap<String, Arc<Entry>>>,
}

#[derive(Debug, Default)]
struct Entry {
    /// Locked while trees are built.
    kept: Mutex<KeptTrees>,
    /// What ends the build that is running.
    building: Mutex<Option<Arc<AtomicBool>>>,
    /// Nobody has a use for it any more.
    over: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Entry {
    fn end_build(&self) {
        if let Some(cancel) = &*lock(&self.building) {
            cancel.store(true, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        // Before it looks for a build: one that begins later sees it.
        self.over.store(true, Ordering::SeqCst);
        self.end_build();
    }

    /// Builds what is missing; `None` if nobody has a use for it any more.
    ///
    /// # Errors
    /// A tree cannot be built.
    fn build(
        &self,
        kept: &mut KeptTrees,
        index: &TableIndex,
        table: &Table,
        with: (&Budget, &IndexOptions),
        cancel: &Arc<AtomicBool>,
    ) -> Result<Option<VolatileTrees>, ElfError> {
        *lock(&self.building) = Some(Arc::clone(cancel));
        if self.over.load(Ordering::SeqCst) {
            cancel.store(true, Ordering::Relaxed);
        }
        // For what is spilled, made when a tree is built at all.
        let pool = OnceLock::new();
        let begin = || {
            let pool: &Pool = match pool.get() {
                Some(pool) => pool,
                None => {
                    let new = scratch()?;
                    pool.get_or_init(|| new)
                }
            };
            Ok(pool.begin()?)
        };
        let built = kept.build(index, table, with.0, with.1, begin, cancel);
        *lock(&self.building) = None;
        match built {
            Err(ElfError::Cancelled) => Ok(None),
            built => built.map(Some),
        }
    }
}

/// A pool in a temporary file without a name, as queries spill to.
///
/// # Errors
/// There is no place for temporary files.
fn scratch() -> Result<Pool, PoolError> {
    let directory = std::env::temp_dir();
    let failed = |source| PoolError::Io {
        action: "create a temporary file in",
        path: directory.clone(),
        source,
    };
    let file = NamedTempFile::new().map_err(failed)?;
    let medium = FileMedium::open(file.path(), &FileOptions::default())?;
    // The name goes; the mapping stays to the end of the build.
    file.close().map_err(failed)?;
    Pool::create_on(Medium::from(medium))
}

impl Trees {
    pub(crate) fn new(options: IndexOptions) -> Self {
        Self {
            options,
            entries: Mutex::default(),
        }
    }

    fn entry(&self, name: &str) -> Arc<Entry> {
        let mut entries = lock(&self.entries);
        Arc::clone(entries.entry(name.to_owned()).or_default())
    }

    fn get(&self, name: &str) -> Option<Arc<Entry>> {
        lock(&self.entries).get(name).cloned()
    }

    /// Lets the trees of an index go, and ends their build.
    pub(super) fn remove(&self, name: &str) {
        let gone = lock(&self.entries).remove(name);
        if let Some(entry) = gone {
            entry.end();
        }
    }

    /// Indexes whose trees are being built. Waits for nobody.
    pub(super) fn building(&self) -> Vec<String> {
        let entries = lock(&self.entries);
        let building = entries
            .iter()
            .filter(|(_, entry)| lock(&entry.building).is_some());
        building.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        lock(&self.entries).contains_key(name)
    }

    /// Lets the trees of indexes go that are there no more.
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        lock(&self.entries).retain(|name, entry| {
            let stays = is_there(name);
            if !stays {
                entry.end();
            }
            stays
        });
    }

    /// There is another limit: builds within the one before end, and if all trees together are too large for the new one,
    /// they go.
    pub(super) fn limit(&self, bytes: u64) {
        let entries: Vec<_> = lock(&self.entries).values().cloned().collect();
        let mut taken = 0;
        for entry in &entries {
            entry.end_build();
            // At the latest when it hears of its end, a build lets the lock go.
            taken += lock(&entry.kept).bytes();
        }
        if taken > bytes {
            entries.iter().for_each(|entry| lock(&entry.kept).let_go());
        }
    }
}

impl Placing {
    /// The index with the trees there are, if these are all of its trees. Builds none, waits for nobody.
    pub(crate) fn take_up(&self, index: &TableIndex, table: &Table) -> Option<Arc<TableIndex>> {
        let entry = self.placements.trees.get(index.name())?;
        let whole = try_lock(&entry.kept)?.attach(index, table).map(Arc::new)?;
        self.put(Arc::clone(&whole), None, None);
        Some(whole)
    }

    fn put(&self, index: Arc<TableIndex>, failed: Option<String>, more_than: Option<u64>) {
        let epoch = self.placements.epoch.load(Ordering::Relaxed);
        *self.slot() = Some(InPlace {
            epoch,
            index,
            failed,
            more_than,
        });
    }

    /// The volatile index with its trees, which are built now where they are missing, which may take long; without them,
    /// while others build them (unless it is to `wait`), where they have no room, and when `cancel` is set meanwhile.
    pub(super) fn build(
        &self,
        index: &Arc<TableIndex>,
        table: &Table,
        wait: bool,
        cancel: &Arc<AtomicBool>,
    ) -> Arc<TableIndex> {
        let now = || self.placed().unwrap_or_else(|| Arc::clone(index));
        if !self.makes {
            return self.take_up(index, table).unwrap_or_else(now);
        }
        // Copies that it had when it was stored would count to the end.
        let copies = match wait {
            true => Some(lock(&self.placements.kept)),
            false => self.placements.try_kept(),
        };
        match copies {
            Some(mut copies) => drop(copies.remove(index.name())),
            None => return now(),
        }
        let entry = self.placements.trees.entry(index.name());
        let kept = match wait {
            true => Some(lock(&entry.kept)),
            false => try_lock(&entry.kept),
        };
        let Some(mut kept) = kept else { return now() };
        if !self.is_due(index) {
            return now();
        }
        self.forget();
        let budget = &self.placements.budget;
        let with = (budget, &self.placements.trees.options);
        match entry.build(&mut kept, index, table, with, cancel) {
            Ok(None) => return Arc::clone(index),
            Ok(Some(VolatileTrees::Whole(whole))) => self.put(Arc::new(whole), None, None),
            Ok(Some(VolatileTrees::NoRoom { needed, room })) => {
                let own = index.wanted().ok().and_then(|wanted| wanted.dram);
                let (what, more_than) = match own.filter(|dram| *dram <= room) {
                    Some(dram) => (format!("{dram} bytes of DRAM have"), None),
                    None => (
                        format!("halocline.dram_budget leaves {room} bytes of DRAM,"),
                        Some(needed.saturating_sub(1)),
                    ),
                };
                let reason =
                    format!("{what} no room for it, it takes {needed} or more: the table is scanned instead");
                self.put(Arc::clone(index), Some(reason), more_than);
            }
            Ok(Some(_)) => {}
            Err(error) => {
                let error = EngineError::from(error);
                tracing::warn!("index {} is not built: {error}", index.name());
                self.put(Arc::clone(index), Some(error.to_string()), None);
            }
        }
        now()
    }
}
