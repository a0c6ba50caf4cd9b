//! The trees of volatile indexes, built by the first query that can use an index and kept across versions of
//! the database.
//!
//! Invariants: only a statement that places an index waits for a build; a build that is no longer needed is
//! cancelled; an index is used with all of its trees or not at all.
//!
//! A query that arrives during a build falls back to a table scan, and so does a transaction that sees rows
//! without trees. What is spilled during a build goes to a temporary file, so that a pool opened for reading
//! only can have a volatile index. Another budget drops the trees of all volatile indexes if they have no
//! room together, and builds none.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use halocline_cache::DramBudget;
use halocline_columns::Table;
use halocline_elf::{ElfError, IndexOptions, KeptTrees, TableIndex, VolatileTrees};
use halocline_media::{FileMedium, FileOptions, Medium};
use halocline_pool::{Pool, PoolError};
use halocline_sql::EngineError;
use tempfile::NamedTempFile;

use super::{IndexPlacement, PlacedIndex};

/// The trees of all volatile indexes of a database, by the name of the index.
#[derive(Debug)]
pub(super) struct VolatileTreeStore {
    options: IndexOptions,
    entries: Mutex<BTreeMap<String, Arc<TreeEntry>>>,
}

#[derive(Debug, Default)]
struct TreeEntry {
    /// Locked while trees are built.
    kept: Mutex<KeptTrees>,
    /// The cancellation flag of the running build.
    building: Mutex<Option<Arc<AtomicBool>>>,
    /// Set once the trees are no longer needed.
    obsolete: AtomicBool,
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

impl TreeEntry {
    fn end_build(&self) {
        if let Some(cancel) = &*lock(&self.building) {
            cancel.store(true, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        // Set before the running build is looked up, so that a build that begins later sees it.
        self.obsolete.store(true, Ordering::SeqCst);
        self.end_build();
    }

    /// Builds the missing trees; `None` if they are no longer needed.
    ///
    /// # Errors
    /// A tree cannot be built.
    fn build(
        &self,
        kept: &mut KeptTrees,
        index: &TableIndex,
        table: &Table,
        with: (&DramBudget, &IndexOptions),
        cancel: &Arc<AtomicBool>,
    ) -> Result<Option<VolatileTrees>, ElfError> {
        *lock(&self.building) = Some(Arc::clone(cancel));
        if self.obsolete.load(Ordering::SeqCst) {
            cancel.store(true, Ordering::Relaxed);
        }
        // The pool for spilled data, which is created only if a tree is built.
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

/// Creates a pool in an unnamed temporary file.
///
/// # Errors
/// No temporary file can be created.
fn scratch() -> Result<Pool, PoolError> {
    let directory = std::env::temp_dir();
    let failed = |source| PoolError::Io {
        action: "create a temporary file in",
        path: directory.clone(),
        source,
    };
    let file = NamedTempFile::new().map_err(failed)?;
    let medium = FileMedium::open(file.path(), &FileOptions::default())?;
    // Removes the name; the mapping lasts until the build ends.
    file.close().map_err(failed)?;
    Pool::create_on(Medium::from(medium))
}

impl VolatileTreeStore {
    pub(super) fn new(options: IndexOptions) -> Self {
        Self {
            options,
            entries: Mutex::default(),
        }
    }

    fn entry(&self, name: &str) -> Arc<TreeEntry> {
        let mut entries = lock(&self.entries);
        Arc::clone(entries.entry(name.to_owned()).or_default())
    }

    fn get(&self, name: &str) -> Option<Arc<TreeEntry>> {
        lock(&self.entries).get(name).cloned()
    }

    /// Drops the trees of an index and cancels their build.
    pub(super) fn remove(&self, name: &str) {
        let gone = lock(&self.entries).remove(name);
        if let Some(entry) = gone {
            entry.end();
        }
    }

    /// Returns the names of the indexes whose trees are being built. Does not block on a build.
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

    /// Drops the trees of indexes that no longer exist.
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        lock(&self.entries).retain(|name, entry| {
            let stays = is_there(name);
            if !stays {
                entry.end();
            }
            stays
        });
    }

    /// Applies another limit: cancels the running builds, and drops all trees if together they exceed the
    /// limit.
    pub(super) fn limit(&self, bytes: u64) {
        let entries: Vec<_> = lock(&self.entries).values().cloned().collect();
        let mut taken = 0;
        for entry in &entries {
            entry.end_build();
            // A cancelled build releases this lock soon.
            taken += lock(&entry.kept).bytes();
        }
        if taken > bytes {
            entries.iter().for_each(|entry| lock(&entry.kept).let_go());
        }
    }
}

impl IndexPlacement {
    /// Returns the index with the existing trees if these are all of its trees. Neither builds nor blocks.
    pub fn attach(&self, index: &TableIndex, table: &Table) -> Option<Arc<TableIndex>> {
        let entry = self.placements.trees.get(index.name())?;
        let whole = try_lock(&entry.kept)?.attach(index, table).map(Arc::new)?;
        self.put(Arc::clone(&whole), None, None);
        Some(whole)
    }

    fn put(&self, index: Arc<TableIndex>, failed: Option<String>, more_than: Option<u64>) {
        let epoch = self.placements.epoch.load(Ordering::Relaxed);
        *self.slot() = Some(PlacedIndex {
            epoch,
            index,
            failed,
            more_than,
        });
    }

    /// Builds the missing trees of a volatile index, which may take long, and returns the index with them. It
    /// lacks them if another thread is building them and `wait` is false, if they do not fit the budget, and
    /// if `cancel` is set.
    pub(super) fn build(
        &self,
        index: &Arc<TableIndex>,
        table: &Table,
        wait: bool,
        cancel: &Arc<AtomicBool>,
    ) -> Arc<TableIndex> {
        let now = || self.placed().unwrap_or_else(|| Arc::clone(index));
        if !self.makes {
            return self.attach(index, table).unwrap_or_else(now);
        }
        // Drops copies from the time when the index was stored; they would count towards the budget for ever.
        let copies = if wait {
            Some(lock(&self.placements.kept))
        } else {
            self.placements.try_kept()
        };
        match copies {
            Some(mut copies) => drop(copies.remove(index.name())),
            None => return now(),
        }
        let entry = self.placements.trees.entry(index.name());
        let kept = if wait {
            Some(lock(&entry.kept))
        } else {
            try_lock(&entry.kept)
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
