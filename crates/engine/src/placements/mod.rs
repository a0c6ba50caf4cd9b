//! What of the indexes is in DRAM: put there by the first query that uses an index, and kept from one version of the
//! database to the next. Copies of stored indexes are here, the trees of volatile ones in trees.rs.
//!
//! Invariants: opening an index copies nothing; a query never waits for copies that another one makes, it reads the slow
//! tier meanwhile; copies are kept without the bytes they were made of, so that they keep no version alive; what all of
//! them take, those that running queries still read among them, never passes the budget as it was when they were made.
//!
//! `ALTER INDEX` places an index at once; otherwise the first query that uses it does, after opening, after a
//! publish, and in other processes. Statements of an open transaction use the copies there are. An index gets
//! what is left of the budget when it is placed, and tries again when more than twice as much is free.

mod trees;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use halocline_cache::{Budget, Placement};
use halocline_columns::Table;
use halocline_elf::{IndexOptions, KeptCopies, PlaceOptions, Query, TableIndex};
use halocline_emulator::EmulatedSpec;

use crate::EngineError;
use crate::advise::{Noted, Picked, Picks};
use trees::Trees;

/// The copies of all indexes of a database, by the index's name.
#[derive(Debug)]
pub(crate) struct Placements {
    budget: Budget,
    /// Counts changes of the budget: what was placed before one is placed anew.
    epoch: AtomicU64,
    /// For indexes whose placement is to be picked.
    picks: Picks,
    /// Locked while copies are made.
    kept: Mutex<BTreeMap<String, KeptCopies>>,
    trees: Trees,
}

impl Placements {
    /// For a pool on that medium; volatile indexes are built with these options.
    pub(crate) fn new(limit: u64, medium: EmulatedSpec, options: IndexOptions) -> Self {
        Self {
            trees: Trees::new(options),
            budget: Budget::new(limit),
            picks: Picks::new(medium),
            epoch: AtomicU64::new(0),
            kept: Mutex::default(),
        }
    }

    /// The DRAM of all of them.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Another limit for all. Copies are kept no longer, and trees only if all of them have room; handles on them are to be
    /// let go by [`Placing::forget`], then indexes can be placed anew.
    pub(crate) fn set_limit(&self, bytes: u64) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clear();
        self.budget.set_limit(bytes);
        self.trees.limit(bytes);
        self.picks.forget(None);
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Volatile indexes whose trees are being built.
    pub(crate) fn building(&self) -> Vec<String> {
        self.trees.building()
    }

    /// For indexes whose placement is to be picked.
    pub(crate) fn picks(&self) -> &Picks {
        &self.picks
    }

    /// Lets the copies and trees of indexes go that are there no more.
    pub(crate) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.trees.retain(&is_there);
        if let Some(mut kept) = self.try_kept() {
            kept.retain(|name, _| is_there(name));
        }
        self.picks.retain(is_there);
    }

    /// The copies, unless some are being made.
    fn try_kept(&self) -> Option<MutexGuard<'_, BTreeMap<String, KeptCopies>>> {
        match self.kept.try_lock() {
            Ok(kept) => Some(kept),
            Err(TryLockError::Poisoned(kept)) => Some(kept.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// An index as it was placed.
#[derive(Debug)]
struct InPlace {
    epoch: u64,
    index: Arc<TableIndex>,
    /// Why it could not be placed at all.
    failed: Option<String>,
    /// Where the budget left too little: it is worth another try with more than this free.
    more_than: Option<u64>,
}

/// Where an open index has, or gets, its copies. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Placing {
    placements: Arc<Placements>,
    /// Whether it may make copies, or only use those there are.
    makes: bool,
    slot: Arc<Mutex<Option<InPlace>>>,
}

impl Placing {
    /// For an index of a published version, which may make copies, or one that a transaction is changing.
    pub(crate) fn new(placements: &Arc<Placements>, published: bool) -> Self {
        Self {
            placements: Arc::clone(placements),
            makes: published,
            slot: Arc::default(),
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<InPlace>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The index with the copies there are; a volatile one may be without its trees.
    pub(crate) fn placed(&self) -> Option<Arc<TableIndex>> {
        self.slot().as_ref().map(|placed| Arc::clone(&placed.index))
    }

    /// Bytes of DRAM that the copies of all indexes may take.
    pub(crate) fn limit(&self) -> u64 {
        self.placements.budget.limit()
    }

    /// Why it could not be placed at all.
    pub(crate) fn failed(&self) -> Option<String> {
        self.slot().as_ref().and_then(|placed| placed.failed.clone())
    }

    /// What was picked for an index whose placement is to be picked.
    pub(crate) fn picked(&self, name: &str) -> Option<Picked> {
        self.placements.picks.picked(name)
    }

    /// A selection goes through the index of this name.
    pub(crate) fn note(&self, name: &str, selection: impl FnOnce() -> Option<Noted>) {
        self.placements.picks.note(name, selection);
    }

    /// Queries like those that the index answers, and what they are in words.
    ///
    /// # Errors
    /// The table's columns cannot be read.
    pub(crate) fn sample(
        &self,
        index: &TableIndex,
        table: &Table,
    ) -> Result<(Vec<Vec<Query>>, String), EngineError> {
        self.placements.picks.sample(index, table)
    }

    /// Lets its copies go; says whether there was something to let go. Queries that use them keep them to their end.
    pub(crate) fn forget(&self) -> bool {
        self.slot().take().is_some()
    }

    /// Whether there is something to do for [`place`](Self::place). Quick.
    pub(crate) fn is_due(&self, index: &TableIndex) -> bool {
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

    /// The index as it is to be placed: makes the copies that are not there yet, which may take long. If others are being
    /// made at the moment, waits for them, or gives the index with what it has now. Setting `cancel` ends the build of a
    /// volatile index, which then is without its trees, as it is where these have no room.
    pub(crate) fn place(
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
        let kept = match wait {
            true => Some(
                self.placements
                    .kept
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            ),
            false => self.placements.try_kept(),
        };
        let now = || self.placed().unwrap_or_else(|| Arc::clone(index));
        let Some(mut kept) = kept else {
            return now();
        };
        if !self.is_due_with(index, &kept) {
            return now();
        }
        // The copies that it has are made anew, or taken up again from those that are kept.
        self.forget();
        let placed = self.place_with(index, table, &mut kept);
        let answer = placed
            .as_ref()
            .map_or_else(|| Arc::clone(index), |placed| Arc::clone(&placed.index));
        *self.slot() = placed;
        answer
    }

    /// As [`is_due`](Self::is_due), once nobody else makes copies.
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
    ) -> Option<InPlace> {
        let epoch = self.placements.epoch.load(Ordering::Relaxed);
        let in_place = |index: Arc<TableIndex>, failed, more_than| InPlace {
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

    /// The placement itself, where it is to be picked.
    fn resolved(
        &self,
        index: &TableIndex,
        table: &Table,
        wanted: PlaceOptions,
    ) -> Result<PlaceOptions, EngineError> {
        match wanted.placement {
            Placement::Auto => {
                let free = self.placements.budget.free();
                self.placements.picks.resolve(index, table, wanted.dram, free)
            }
            _ => Ok(wanted),
        }
    }
}
