//! What copies that follow the queries are made of, and how they share a budget.
//!
//! Invariant: what is cached is replaced whole, by the thread that holds `renewing`, and never has more bytes than the
//! budget: what is replaced is gone before its successor is made. Readers take no lock.

use crate::header::ElfHeader;
use crate::place::strategy::{StrategySelector, TupleState};
use crate::view::Image;
use arc_swap::{ArcSwap, Guard};
use halocline_cache::{AgedCounts, Packing, TupleCache};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

/// A count is for lists of so many bytes of the budget, on average.
const BYTES_A_COUNT: u64 = 256;
/// The weight of the tree's own probabilities, in samples.
const PRIOR: f32 = 64.0;
/// The share of the budget for lists, one in so many parts, where there are tuples too whose keys are a word.
const LISTS: u64 = 2;
/// What is left for tuples in any case, one part in so many.
const TUPLES: u64 = 5;
/// Bytes beside the shortcuts without which lists are not worth a copy.
const BESIDE_SHORTCUTS: u64 = 1 << 20;
/// Share of exact matches that tuples must answer for it to be worth trying out whether that is faster.
const WORTH: f64 = 0.04;
/// Share of them for which it surely is faster: what answers is one line of DRAM.
const SURE: f64 = 0.25;

/// ListCopies of lists and the header that leads into them.
#[derive(Debug)]
pub(crate) struct ListCopies {
    pub(crate) image: Arc<Image>,
    pub(crate) header: Arc<ElfHeader>,
    /// Which lists they are of.
    pub(super) lists: u64,
}

/// Tuples that exact matches found.
pub(crate) type Tuples = (Packing, TupleCache);

/// What is in DRAM.
#[derive(Debug, Default, Clone)]
pub(crate) struct CachedCopies {
    pub(crate) copies: Option<Arc<ListCopies>>,
    tuples: Option<Arc<Tuples>>,
}

impl CachedCopies {
    /// The tuples.
    #[inline]
    pub(crate) fn tuples(&self) -> Option<&Tuples> {
        self.tuples.as_deref()
    }

    fn tuple_state(&self) -> TupleState {
        match self.tuples() {
            Some((_, cache)) if !cache.is_filled() => TupleState::Filling,
            Some((_, cache)) if cache.hit_rate().is_some_and(|rate| rate >= SURE) => TupleState::Dominant,
            Some((_, cache)) if cache.pays() => TupleState::Filled,
            _ => TupleState::Useless,
        }
    }

    /// Bytes of the copies.
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
    /// Of it for lists where there are tuples too: never so little that the shortcuts have no room, if they can have it.
    pub(super) beside_tuples: u64,
    pub(super) counts: AgedCounts,
    cached: ArcSwap<CachedCopies>,
    pub(crate) strategies: StrategySelector,
    /// Held by the thread that copies; when lists may be copied again.
    renewing: Mutex<Instant>,
    max_codes: Vec<u64>,
    /// Exact matches have been asked for.
    wants_tuples: AtomicBool,
    /// The samples at which the next image is due.
    pub(super) due: AtomicU64,
    /// Samples so far, without aging.
    pub(super) samples: AtomicU64,
    /// Nobody needs the caches any more.
    pub(super) stopped: AtomicBool,
    failed: Mutex<Option<String>>,
}

impl Caches {
    /// Empty caches of at most `budget` bytes; `None` if that is too little for any.
    pub(super) fn new(budget: u64, header: &ElfHeader, first: u64) -> Option<Self> {
        let items = (budget / BYTES_A_COUNT).min(u64::from(u32::MAX)) as usize / size_of::<u32>();
        if items < 16 {
            return None;
        }
        let counts = AgedCounts::new(items, PRIOR, 1 << 16);
        // A frozen copy of the counts is there while lists are copied.
        let budget = budget - 2 * counts.bytes() as u64;
        let shortcuts = header.shortcuts.end().saturating_sub(header.shortcuts.at as u64);
        let least = shortcuts + BESIDE_SHORTCUTS;
        let max_codes = &header.geometry.max_codes;
        let beside_tuples = match budget - budget / TUPLES {
            most if least <= most => least.max(budget / LISTS),
            _ => budget / LISTS,
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

    /// What is in DRAM, for as long as the guard lives.
    #[inline]
    pub(crate) fn cached(&self) -> Guard<Arc<CachedCopies>> {
        self.cached.load()
    }

    /// Whether lists were copied so lately that it would take too much of the time.
    pub(super) fn must_pause(&self) -> bool {
        Instant::now() < *self.renewing()
    }

    /// Tells the ways what there is.
    pub(super) fn update_strategies(&self) {
        let cached = self.cached.load();
        self.strategies
            .set_available(cached.copies.is_some(), cached.tuple_state());
    }

    /// To be held by whoever changes what is cached.
    pub(super) fn renewing(&self) -> MutexGuard<'_, Instant> {
        self.renewing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the copies, whose readers may still be there. Only for who holds `renewing`.
    pub(super) fn replace(&self, copies: Option<Arc<ListCopies>>) -> Arc<CachedCopies> {
        let tuples = self.cached.load().tuples.clone();
        self.cached.swap(Arc::new(CachedCopies { copies, tuples }))
    }

    /// Whether exact matches are asked for.
    pub(super) fn wants_tuples(&self) -> bool {
        self.wants_tuples.load(Relaxed)
    }

    /// An exact match is asked for: makes room for tuples at once, if lists leave it, else with the next image.
    #[inline]
    pub(crate) fn want_tuples(&self) {
        if !self.wants_tuples() {
            self.wants_tuples.store(true, Relaxed);
            self.make_tuples();
        }
    }

    /// Makes room for tuples if they are wanted and lists leave it.
    #[cold]
    pub(super) fn make_tuples(&self) {
        match self.renewing.try_lock() {
            Ok(_renewing) => self.make_tuples_locked(),
            Err(TryLockError::Poisoned(_renewing)) => self.make_tuples_locked(),
            // Whoever renews will see to it.
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// The same for who holds `renewing`.
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
        Some((packing, cache.with_break_even(WORTH)))
    }

    /// Why there are no copies, or why they are not used, if something is in their way.
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

    /// Bytes of DRAM taken now.
    pub(crate) fn bytes(&self) -> u64 {
        let cached = self.cached.load();
        let tuples = cached.tuples.as_ref().map_or(0, |tuples| tuples.1.bytes());
        cached.image_bytes() + (tuples + self.counts.bytes()) as u64
    }
}
