//! The caches of an index whose copies follow the queries, and how they share a budget.
//!
//! Invariant: cached copies are immutable and replaced as a whole, by the thread that holds `renewing`. They
//! never exceed the budget: old copies are freed before their successors are made. Readers take no lock.

use crate::header::ElfHeader;
use crate::place::strategy::{StrategySelector, TupleState};
use crate::view::Image;
use arc_swap::{ArcSwap, Guard};
use halocline_cache::{AgedCounts, Packing, TupleCache};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

/// Bytes of the budget per access counter.
const BYTES_PER_COUNTER: u64 = 256;
/// Weight of the probabilities that follow from the shape of the tree, in samples.
const PRIOR_WEIGHT: f32 = 64.0;
/// Divisor of the budget that gives the share of the lists where tuples are cached too.
const LISTS_DIVISOR: u64 = 2;
/// Divisor of the budget that gives the least share of the tuples.
const TUPLES_DIVISOR: u64 = 5;
/// Minimum number of bytes for lists, in addition to the shortcuts, for which lists are copied.
const MIN_LIST_BYTES: u64 = 1 << 20;
/// Minimum hit rate of the tuples at which their speed is measured.
const MIN_HIT_RATE: f64 = 0.04;
/// Hit rate above which tuples are used without a measurement: a hit reads one line of DRAM.
const DOMINANT_HIT_RATE: f64 = 0.25;

/// Copies of lists and the header whose offsets lead into them.
#[derive(Debug)]
pub(crate) struct ListCopies {
    pub(crate) image: Arc<Image>,
    pub(crate) header: Arc<ElfHeader>,
    /// Fingerprint of the copied lists.
    pub(super) lists: u64,
}

/// Results of earlier exact matches.
pub(crate) type Tuples = (Packing, TupleCache);

/// The caches that are in DRAM.
#[derive(Debug, Default, Clone)]
pub(crate) struct CachedCopies {
    pub(crate) copies: Option<Arc<ListCopies>>,
    tuples: Option<Arc<Tuples>>,
}

impl CachedCopies {
    /// Returns the tuple cache, if it exists.
    #[inline]
    pub(crate) fn tuples(&self) -> Option<&Tuples> {
        self.tuples.as_deref()
    }

    fn tuple_state(&self) -> TupleState {
        match self.tuples() {
            Some((_, cache)) if !cache.is_filled() => TupleState::Filling,
            Some((_, cache)) if cache.hit_rate().is_some_and(|rate| rate >= DOMINANT_HIT_RATE) => {
                TupleState::Dominant
            }
            Some((_, cache)) if cache.pays() => TupleState::Filled,
            _ => TupleState::Useless,
        }
    }

    /// Returns the size of the list copies in bytes.
    pub(super) fn image_bytes(&self) -> u64 {
        let image = self
            .copies
            .as_ref()
            .map(|copies| copies.image.bytes.mapped_bytes());
        image.unwrap_or_default() as u64
    }
}

/// The caches of one placed index.
#[derive(Debug)]
pub(crate) struct Caches {
    pub(super) budget: u64,
    /// Share of the lists where tuples are cached too. It covers the shortcuts if the budget allows.
    pub(super) beside_tuples: u64,
    pub(super) counts: AgedCounts,
    cached: ArcSwap<CachedCopies>,
    pub(crate) strategies: StrategySelector,
    /// The earliest time of the next renewal; locked by the thread that renews.
    renewing: Mutex<Instant>,
    max_codes: Vec<u64>,
    /// True after the first exact match.
    wants_tuples: AtomicBool,
    /// Number of samples at which the next image is due.
    pub(super) due: AtomicU64,
    /// Samples so far, without aging.
    pub(super) samples: AtomicU64,
    /// Set when the caches are dropped; cancels a renewal.
    pub(super) stopped: AtomicBool,
    failed: Mutex<Option<String>>,
}

impl Caches {
    /// Creates empty caches of at most `budget` bytes; returns `None` if that is too little for any.
    pub(super) fn new(budget: u64, header: &ElfHeader, first: u64) -> Option<Self> {
        let items = (budget / BYTES_PER_COUNTER).min(u64::from(u32::MAX)) as usize / size_of::<u32>();
        if items < 16 {
            return None;
        }
        let counts = AgedCounts::new(items, PRIOR_WEIGHT, 1 << 16);
        // Twice: a renewal works on a frozen copy of the counts.
        let budget = budget - 2 * counts.bytes() as u64;
        let shortcuts = header.shortcuts.end().saturating_sub(header.shortcuts.at as u64);
        let least = shortcuts + MIN_LIST_BYTES;
        let max_codes = &header.geometry.max_codes;
        let beside_tuples = match budget - budget / TUPLES_DIVISOR {
            most if least <= most => least.max(budget / LISTS_DIVISOR),
            _ => budget / LISTS_DIVISOR,
        };
        Some(Self {
            budget,
            beside_tuples,
            counts,
            cached: ArcSwap::default(),
            strategies: StrategySelector::new(),
            renewing: Mutex::new(Instant::now()),
            max_codes: max_codes.clone(),
            wants_tuples: false.into(),
            due: AtomicU64::new(first),
            samples: AtomicU64::new(0),
            stopped: false.into(),
            failed: Mutex::default(),
        })
    }

    /// Returns the current caches; they stay in DRAM while the guard lives.
    #[inline]
    pub(crate) fn cached(&self) -> Guard<Arc<CachedCopies>> {
        self.cached.load()
    }

    /// Returns true if the pause after the last renewal is not over.
    pub(super) fn must_pause(&self) -> bool {
        Instant::now() < *self.renewing()
    }

    /// Informs the strategy selector of the caches that exist.
    pub(super) fn update_strategies(&self) {
        let cached = self.cached.load();
        self.strategies
            .set_available(cached.copies.is_some(), cached.tuple_state());
    }

    /// Locks the caches against changes by other threads.
    pub(super) fn renewing(&self) -> MutexGuard<'_, Instant> {
        self.renewing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the copies and returns the old caches, which may still have readers. The caller holds
    /// `renewing`.
    pub(super) fn replace(&self, copies: Option<Arc<ListCopies>>) -> Arc<CachedCopies> {
        let tuples = self.cached.load().tuples.clone();
        self.cached.swap(Arc::new(CachedCopies { copies, tuples }))
    }

    /// Returns true after the first exact match.
    pub(super) fn wants_tuples(&self) -> bool {
        self.wants_tuples.load(Relaxed)
    }

    /// Requests the tuple cache; called by each exact match. The first call creates the cache if the lists
    /// leave room for it; otherwise the next renewal does.
    #[inline]
    pub(crate) fn want_tuples(&self) {
        if !self.wants_tuples() {
            self.wants_tuples.store(true, Relaxed);
            self.make_tuples();
        }
    }

    /// Creates the tuple cache if there were exact matches and the lists leave room for it.
    #[cold]
    pub(super) fn make_tuples(&self) {
        match self.renewing.try_lock() {
            Ok(_renewing) => self.make_tuples_locked(),
            Err(TryLockError::Poisoned(_renewing)) => self.make_tuples_locked(),
            // The thread that renews creates it.
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// Implements [`make_tuples`](Self::make_tuples) for a caller that holds `renewing`.
    pub(super) fn make_tuples_locked(&self) {
        let cached = self.cached.load_full();
        if self.wants_tuples() && cached.tuples.is_none() && cached.image_bytes() <= self.beside_tuples {
            let tuples = self.new_tuples(self.budget - self.beside_tuples);
            self.cached.store(Arc::new(CachedCopies {
                tuples: tuples.map(Arc::new),
                ..(*cached).clone()
            }));
        }
    }

    fn new_tuples(&self, budget: u64) -> Option<Tuples> {
        let (packing, cache) = Packing::with_cache(budget as usize, &self.max_codes)?;
        Some((packing, cache.with_break_even(MIN_HIT_RATE)))
    }

    /// Returns the reason why there are no copies or why queries bypass them, if there is one.
    pub(crate) fn fallback(&self) -> Option<String> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let useless = || {
            let text = "its copies in DRAM make no query faster now: queries go round them, and try them again at times";
            self.strategies.are_useless().then(|| text.to_owned())
        };
        failed.or_else(useless)
    }

    pub(super) fn set_failed(&self, reason: Option<String>) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Returns the bytes of DRAM in use.
    pub(crate) fn bytes(&self) -> u64 {
        let cached = self.cached.load();
        let tuples = cached.tuples.as_ref().map_or(0, |tuples| tuples.1.bytes());
        cached.image_bytes() + (tuples + self.counts.bytes()) as u64
    }
}
