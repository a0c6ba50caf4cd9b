//! Copies of indexes in DRAM, made by the first query that uses an index and kept across versions of the
//! database. This file has the copies of stored indexes; trees.rs has the trees of volatile ones.
//!
//! Invariants:
//! - opening an index copies nothing;
//! - a query never waits for copies that another query makes: it reads the slow tier meanwhile;
//! - copies do not reference the bytes they were made of, so they keep no version alive;
//! - all copies together, including those that running queries still read, stay within the budget that
//!   applied when they were made.
//!
//! `ALTER INDEX` places an index at once; otherwise the first query that uses it does, after opening, after a
//! publish, and in other processes. Statements of an open transaction use the copies there are. An index gets
//! the rest of the budget when it is placed, and tries again when more than twice as much is free.

mod trees;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use halocline_cache::{DramBudget, Placement};
use halocline_columns::Table;
use halocline_elf::{IndexOptions, KeptCopies, PlaceOptions, Query, TableIndex};
use halocline_emulator::EmulatedSpec;
use halocline_sql::EngineError;
use trees::VolatileTreeStore;

use crate::auto::{PlacementAdvisor, PlacementChoice};
use crate::query_memory::QueryMemory;
use crate::selections::IndexSelection;
use crate::tiers::PoolMemory;

/// The copies of all indexes of a database, by the name of the index.
#[derive(Debug)]
pub struct Placements {
    /// The memory of the pool that they are copied from.
    memory: Arc<PoolMemory>,
    /// The memory of the queries, in which the handles of open tables and indexes count.
    handles: Arc<dyn MemoryPool>,
    budget: DramBudget,
    /// Number of changes of the budget; indexes that were placed before the last one are placed anew.
    epoch: AtomicU64,
    /// Chooses the placement of indexes with `placement = 'auto'`.
    advisor: PlacementAdvisor,
    /// Locked while copies are made.
    kept: Mutex<BTreeMap<String, KeptCopies>>,
    trees: VolatileTreeStore,
}

impl Placements {
    /// Returns an empty set for a pool in `memory`, whose placements are advised for `medium`; volatile
    /// indexes are built with `options`. Handles count in the memory of `queries`.
    pub fn new(
        memory: PoolMemory,
        queries: &Arc<QueryMemory>,
        limit: u64,
        medium: EmulatedSpec,
        options: IndexOptions,
    ) -> Self {
        Self {
            memory: Arc::new(memory),
            handles: Arc::clone(queries) as Arc<_>,
            trees: VolatileTreeStore::new(options),
            budget: DramBudget::new(limit),
            advisor: PlacementAdvisor::new(medium),
            epoch: AtomicU64::new(0),
            kept: Mutex::default(),
        }
    }

    /// Returns the memory of the pool.
    pub fn memory(&self) -> &Arc<PoolMemory> {
        &self.memory
    }

    /// Counts the bytes of handles until what is returned is dropped.
    pub fn count_handles(&self, bytes: usize) -> MemoryReservation {
        let reservation = MemoryConsumer::new("open tables and indexes").register(&self.handles);
        reservation.grow(bytes);
        reservation
    }

    /// Returns the DRAM budget of all copies.
    pub fn budget(&self) -> &DramBudget {
        &self.budget
    }

    /// Sets the limit of the budget. Drops all copies, and the trees unless all of them fit. The caller then
    /// drops the handles on them by [`IndexPlacement::forget`], and indexes can be placed anew.
    pub fn set_limit(&self, bytes: u64) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clear();
        self.budget.set_limit(bytes);
        self.trees.limit(bytes);
        self.advisor.forget(None);
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the names of the volatile indexes whose trees are being built.
    pub fn building(&self) -> Vec<String> {
        self.trees.building()
    }

    /// Returns the advisor for indexes with `placement = 'auto'`.
    pub fn advisor(&self) -> &PlacementAdvisor {
        &self.advisor
    }

    /// Drops the copies and trees of indexes that no longer exist.
    pub fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.trees.retain(&is_there);
        if let Some(mut kept) = self.try_kept() {
            kept.retain(|name, _| is_there(name));
        }
        self.advisor.retain(is_there);
    }

    /// Returns the copies unless another thread is making some.
    fn try_kept(&self) -> Option<MutexGuard<'_, BTreeMap<String, KeptCopies>>> {
        match self.kept.try_lock() {
            Ok(kept) => Some(kept),
            Err(TryLockError::Poisoned(kept)) => Some(kept.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The result of placing an index.
#[derive(Debug)]
struct PlacedIndex {
    epoch: u64,
    index: Arc<TableIndex>,
    /// The reason why the index could not be placed at all.
    failed: Option<String>,
    /// Set if the budget left too little: placing is worth another try once more bytes than this are free.
    more_than: Option<u64>,
}

/// The placement of an open index: the copies it has, or gets. Clones share them.
#[derive(Debug, Clone)]
pub struct IndexPlacement {
    placements: Arc<Placements>,
    /// True if it may make copies, false if it only uses existing ones.
    makes: bool,
    slot: Arc<Mutex<Option<PlacedIndex>>>,
}

impl IndexPlacement {
    /// Returns the placement of an index of a published version, which may make copies, or of one that a
    /// transaction changes.
    pub fn new(placements: &Arc<Placements>, published: bool) -> Self {
        Self {
            placements: Arc::clone(placements),
            makes: published,
            slot: Arc::default(),
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<PlacedIndex>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index with its existing copies; a volatile index may lack its trees.
    pub fn placed(&self) -> Option<Arc<TableIndex>> {
        self.slot().as_ref().map(|placed| Arc::clone(&placed.index))
    }

    /// Returns the number of bytes of DRAM that the copies of all indexes may take.
    pub fn limit(&self) -> u64 {
        self.placements.budget.limit()
    }

    /// Returns the reason why the index could not be placed at all.
    pub fn failed(&self) -> Option<String> {
        self.slot().as_ref().and_then(|placed| placed.failed.clone())
    }

    /// Returns the placement that was chosen for an index with `placement = 'auto'`.
    pub fn choice(&self, name: &str) -> Option<PlacementChoice> {
        self.placements.advisor.choice(name)
    }

    /// Records a selection through the index of this name.
    pub fn record(&self, name: &str, selection: impl FnOnce() -> Option<IndexSelection>) {
        self.placements.advisor.record(name, selection);
    }

    /// Returns queries like those that the index answers, and a description of them.
    ///
    /// # Errors
    /// The table's columns cannot be read.
    pub fn sample(
        &self,
        index: &TableIndex,
        table: &Table,
    ) -> Result<(Vec<Vec<Query>>, String), EngineError> {
        self.placements.advisor.sample(index, table)
    }

    /// Drops the handle on the copies, and returns true if there was one. Running queries keep the copies
    /// until they end.
    pub fn forget(&self) -> bool {
        self.slot().take().is_some()
    }

    /// Returns true if [`place`](Self::place) has something to do. O(1).
    pub fn is_due(&self, index: &TableIndex) -> bool {
        match index.wanted() {
            Ok(wanted) if wanted.placement != Placement::SlowOnly => {
                self.slot().as_ref().is_none_or(|placed| {
                    placed.epoch != self.placements.epoch.load(Ordering::Relaxed)
                        || (placed.more_than).is_some_and(|bytes| self.placements.budget.free() > bytes)
                })
            }
            _ if !self.makes => false,
            _ => {
                self.placements.trees.has(index.name())
                    || (self.placements.try_kept()).is_some_and(|kept| kept.contains_key(index.name()))
            }
        }
    }

    /// Makes the missing copies of the index, which may take long, and returns the index with them. If
    /// another thread is making copies, waits for it if `wait`, and otherwise returns the index with its
    /// present copies. Setting `cancel` ends the build of a volatile index, which then lacks its trees, as it
    /// does when they do not fit the budget.
    pub fn place(
        &self,
        index: &Arc<TableIndex>,
        table: &Table,
        wait: bool,
        cancel: &Arc<AtomicBool>,
    ) -> Arc<TableIndex> {
        if index.is_volatile() {
            return self.build(index, table, wait, cancel);
        }
        if self.makes {
            self.placements.trees.remove(index.name());
        }
        let kept = if wait {
            Some(
                self.placements
                    .kept
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            )
        } else {
            self.placements.try_kept()
        };
        let now = || self.placed().unwrap_or_else(|| Arc::clone(index));
        let Some(mut kept) = kept else {
            return now();
        };
        if !self.is_due_with(index, &kept) {
            return now();
        }
        // The present copies are made anew, or attached again from those that are kept.
        self.forget();
        let placed = self.place_with(index, table, &mut kept);
        let answer = placed
            .as_ref()
            .map_or_else(|| Arc::clone(index), |placed| Arc::clone(&placed.index));
        *self.slot() = placed;
        answer
    }

    /// Returns the same as [`is_due`](Self::is_due), for a caller that has the lock on the copies.
    fn is_due_with(&self, index: &TableIndex, kept: &BTreeMap<String, KeptCopies>) -> bool {
        match index.wanted() {
            Ok(wanted) if wanted.placement != Placement::SlowOnly => self.is_due(index),
            _ => self.makes && kept.contains_key(index.name()),
        }
    }

    fn place_with(
        &self,
        index: &Arc<TableIndex>,
        table: &Table,
        kept: &mut BTreeMap<String, KeptCopies>,
    ) -> Option<PlacedIndex> {
        let epoch = self.placements.epoch.load(Ordering::Relaxed);
        let in_place = |index: Arc<TableIndex>, failed, more_than| PlacedIndex {
            epoch,
            index,
            failed,
            more_than,
        };
        let name = index.name();
        let wanted = match index.wanted() {
            Ok(wanted) if wanted.placement != Placement::SlowOnly => wanted,
            _ => {
                kept.remove(name);
                return None;
            }
        };
        if !self.makes {
            let attached = kept.get(name).map(|kept| Arc::new(kept.attach(index)));
            return Some(in_place(
                attached.unwrap_or_else(|| Arc::clone(index)),
                None,
                None,
            ));
        }
        let failed = |kept: &mut BTreeMap<String, KeptCopies>, error: EngineError| {
            kept.remove(name);
            tracing::warn!("index {name} is read from the slow tier: {error}");
            Some(in_place(Arc::clone(index), Some(error.to_string()), None))
        };
        let wanted = match self.resolved(index, table, wanted) {
            Ok(wanted) => wanted,
            Err(error) => return failed(kept, error),
        };
        if wanted.placement == Placement::SlowOnly {
            kept.remove(name);
            return Some(in_place(Arc::clone(index), None, None));
        }
        let copies = kept.entry(name.to_owned()).or_default();
        let budget = &self.placements.budget;
        match copies.place(index, &wanted, budget) {
            Ok(placed) => {
                let more_than = (copies.is_short()).then(|| budget.free().max(placed.placed().dram_bytes));
                Some(in_place(Arc::new(placed), None, more_than))
            }
            Err(error) => failed(kept, error.into()),
        }
    }

    /// Replaces `auto` by the placement that is chosen for the index.
    fn resolved(
        &self,
        index: &TableIndex,
        table: &Table,
        wanted: PlaceOptions,
    ) -> Result<PlaceOptions, EngineError> {
        match wanted.placement {
            Placement::Auto => {
                let free = self.placements.budget.free();
                self.placements.advisor.resolve(index, table, wanted.dram, free)
            }
            _ => Ok(wanted),
        }
    }
}
