//! Copies that follow the queries.
//!
//! Two caches share the budget. *Tuples*: what an exact match found is kept in a [`TupleCache`], the MonoLists of this
//! index, so that the same query again touches no list at all. *Lists*: one query in some dozens is a sample, which runs in
//! the slow tier and counts the lists it visits; now and then the lists that are worth it, by those counts and by their
//! traversal probability ('LLA with real accesses'), are copied anew into an [`Image`](crate::view::Image), whose links lead
//! from copy to copy: swizzled, so that a hit probes nothing. A list that is not worth it any more is in the next image
//! only what its parent's link says: an offset in the slow tier. Readers take no lock: an image is immutable, and one that
//! is replaced goes when its last reader is done.
//!
//! The other way, the paper's, is a hash table of lists with a replacement policy ([`ListCache`], layout `published`).

use crate::header::Header;
use crate::view::Image;
use crate::{ElfError, Result};
use arc_swap::{ArcSwapOption, Guard};
use halocline_cache::{AgedCounts, Key, ListCache, Packing, TupleCache};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Instant;

/// Samples before lists are copied for the first time; then always after four times as many, up to [`SAMPLES`] more.
const FIRST: u64 = 64;
/// Samples between two images, once there have been many.
const SAMPLES: u64 = 1 << 14;
/// Copying takes at most one part in so many of the time.
const LEAST_PAUSE: u32 = 50;
/// A count is for lists of so many bytes of the budget, on average.
const BYTES_A_COUNT: u64 = 256;
/// The weight of the tree's own probabilities, in samples.
const PRIOR: f32 = 64.0;
/// The share of the budget for lists, one in so many parts, where there are tuples too whose keys are a word.
const LISTS: u64 = 2;
/// What is left for tuples in any case, and for those of longer keys, one part in so many.
const TUPLES: u64 = 5;
/// Bytes beside the shortcuts without which lists are not worth a copy.
const BESIDE_SHORTCUTS: u64 = 1 << 20;
/// Least share of exact matches that tuples must answer to be looked up: those whose key is a word, and longer ones, which
/// cost more to make, to compare and to keep.
const BREAK_EVEN: f64 = 0.04;
const LONG_BREAK_EVEN: f64 = 0.2;

/// Copies of lists and the header that leads into them.
#[derive(Debug)]
pub(crate) struct Copies {
    pub(crate) image: Arc<Image>,
    pub(crate) header: Arc<Header>,
}

/// The caches of one placed index.
#[derive(Debug)]
pub(crate) struct Dynamic {
    budget: u64,
    /// Of it for lists where there are tuples too: never so little that the shortcuts have no room, if they can have it.
    beside_tuples: u64,
    counts: AgedCounts,
    copies: ArcSwapOption<Copies>,
    /// The samples at which the next image is due.
    due: AtomicU64,
    /// Samples so far, without aging.
    samples: AtomicU64,
    /// Held by the thread that copies; when lists may be copied again.
    making: Mutex<Instant>,
    max_codes: Vec<u64>,
    tuples: OnceLock<Option<(Packing, TupleCache)>>,
    /// Exact matches have been asked for.
    wants_tuples: AtomicBool,
}

impl Dynamic {
    /// Empty caches of at most `budget` bytes; `None` if that is too little for any.
    pub(crate) fn new(budget: u64, header: &Header) -> Option<Self> {
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
        // Of long tuples so few have room that only a high skew makes them worth a look.
        let half = (budget - budget / LISTS) as usize;
        let long = Packing::new(half, max_codes).is_none_or(|packing| packing.words() > 1);
        let beside_tuples = match budget - budget / TUPLES {
            most if long => most,
            most if least <= most => least.max(budget / LISTS),
            _ => budget / LISTS,
        };
        Some(Self {
            budget,
            beside_tuples,
            counts,
            copies: ArcSwapOption::empty(),
            due: AtomicU64::new(FIRST),
            samples: AtomicU64::new(0),
            making: Mutex::new(Instant::now()),
            max_codes: max_codes.clone(),
            tuples: OnceLock::new(),
            wants_tuples: false.into(),
        })
    }

    /// The copies to search in, for as long as the guard lives.
    #[inline]
    pub(crate) fn copies(&self) -> Guard<Option<Arc<Copies>>> {
        self.copies.load()
    }

    /// The tuples, if they are worth a look now.
    #[inline]
    pub(crate) fn tuples(&self) -> Option<&(Packing, TupleCache)> {
        match self.tuples.get() {
            Some(tuples) => tuples.as_ref().filter(|(_, cache)| cache.worth()),
            None => {
                if !self.wants_tuples.load(Relaxed) {
                    self.want_tuples();
                }
                None
            }
        }
    }

    /// Makes room for tuples: at once, if lists leave it, else with the next image.
    #[cold]
    fn want_tuples(&self) {
        let Ok(_making) = self.making.try_lock() else {
            return;
        };
        self.wants_tuples.store(true, Relaxed);
        if self.image_bytes() <= self.beside_tuples {
            self.tuples
                .get_or_init(|| self.new_tuples(self.budget - self.beside_tuples));
        }
    }

    /// The counts, if the query that begins is a sample.
    #[inline]
    pub(crate) fn sample(&self) -> Option<&AgedCounts> {
        self.counts.sample().then(|| {
            self.samples.fetch_add(1, Relaxed);
            &self.counts
        })
    }

    /// The counts, for a query that is a sample whatever chance says.
    pub(crate) fn learn(&self) -> &AgedCounts {
        self.counts.count_sample();
        self.samples.fetch_add(1, Relaxed);
        &self.counts
    }

    /// Whether it is time for a new image.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.samples.load(Relaxed) >= self.due.load(Relaxed)
    }

    /// Copies lists anew by `make`, which is given the counts and the bytes there are; unless another thread does so, or
    /// someone still reads the image before.
    pub(crate) fn renew(
        &self,
        make: impl FnOnce(&AgedCounts, u64) -> Result<Option<(Arc<Image>, Arc<Header>)>>,
    ) -> Result<()> {
        let making = match self.making.try_lock() {
            Ok(making) => making,
            Err(TryLockError::Poisoned(error)) => PoisonError::into_inner(error),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        // Another thread may just have done it, or it took too long to be done again so soon.
        if !self.is_due() {
            return Ok(());
        }
        if Instant::now() < *making {
            self.due.fetch_add(FIRST, Relaxed);
            return Ok(());
        }
        self.renew_locked(making, make)
    }

    /// Copies lists for the first time, so many that there is room for tuples too.
    pub(crate) fn begin(
        &self,
        make: impl FnOnce(&AgedCounts, u64) -> Result<Option<(Arc<Image>, Arc<Header>)>>,
    ) -> Result<()> {
        let mut not_before = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let made = self.keep(make(&self.counts.frozen(), self.beside_tuples));
        *not_before = Instant::now();
        made
    }

    /// As [`renew`](Self::renew), due or not.
    pub(crate) fn renew_now(
        &self,
        make: impl FnOnce(&AgedCounts, u64) -> Result<Option<(Arc<Image>, Arc<Header>)>>,
    ) -> Result<()> {
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        self.renew_locked(making, make)
    }

    fn renew_locked(
        &self,
        mut not_before: MutexGuard<'_, Instant>,
        make: impl FnOnce(&AgedCounts, u64) -> Result<Option<(Arc<Image>, Arc<Header>)>>,
    ) -> Result<()> {
        let (samples, start) = (self.samples.load(Relaxed), Instant::now());
        self.due
            .store(samples + (3 * samples).clamp(FIRST, SAMPLES), Relaxed);
        // The old copies go first: never are there more bytes than the budget has.
        let old = self.copies.swap(None);
        if let Some(old) = old {
            if Arc::strong_count(&old) > 1 {
                self.copies.store(Some(old));
                return Ok(());
            }
            drop(old);
        }
        let with_tuples = self.wants_tuples.load(Relaxed);
        let room = if with_tuples {
            self.beside_tuples
        } else {
            self.budget
        };
        if with_tuples {
            self.tuples.get_or_init(|| self.new_tuples(self.budget - room));
        }
        let made = self.keep(make(&self.counts.frozen(), room));
        *not_before = Instant::now() + start.elapsed() * LEAST_PAUSE;
        made
    }

    fn keep(&self, made: Result<Option<(Arc<Image>, Arc<Header>)>>) -> Result<()> {
        if let Some((image, header)) = made? {
            self.copies.store(Some(Arc::new(Copies { image, header })));
        }
        Ok(())
    }

    fn new_tuples(&self, budget: u64) -> Option<(Packing, TupleCache)> {
        let (packing, cache) = Packing::with_cache(budget as usize, &self.max_codes)?;
        let break_even = match packing.words() {
            1 => BREAK_EVEN,
            _ => LONG_BREAK_EVEN,
        };
        Some((packing, cache.with_break_even(break_even)))
    }

    /// Bytes of DRAM taken now.
    pub(crate) fn bytes(&self) -> u64 {
        let tuples = self.tuples.get().and_then(Option::as_ref);
        let tuples = tuples.map_or(0, |(_, cache)| cache.bytes());
        self.image_bytes() + (tuples + self.counts.bytes()) as u64
    }

    fn image_bytes(&self) -> u64 {
        let copies = self.copies.load();
        let image = copies.as_ref().map(|copies| copies.image.bytes.mapped_bytes());
        image.unwrap_or_default() as u64
    }
}

/// What an exact match found is remembered by.
pub(crate) fn remember(cache: &TupleCache, key: &Key, tids: &crate::Tids<'_>) {
    if let (1, Some(tid)) = (tids.len(), tids.first()) {
        cache.put(key.hash, key.words(), tid);
    }
}

/// A hash table of lists, the paper's way.
#[derive(Debug)]
pub(crate) struct Hashed {
    pub(crate) lists: ListCache,
    /// Probability of a list by its dimension, as if all prefixes had the same number of rows.
    pub(crate) probabilities: Vec<f32>,
}

impl Hashed {
    /// An empty table of at most `budget` bytes.
    pub(crate) fn new(
        budget: u64,
        policy: halocline_cache::PolicyKind,
        header: &Header,
    ) -> Result<Option<Self>> {
        let geometry = &header.geometry;
        let (mut lists, mut rows, mut probabilities) = (1.0_f64, geometry.rows as f64, vec![]);
        for histogram in &header.histograms {
            probabilities.push((1.0 / lists) as f32);
            lists = (lists * histogram.distinct.max(1) as f64).min(rows.max(1.0));
        }
        rows = rows.max(1.0);
        // The lists that there are many of have few entries.
        let entries = header.histograms.iter().map(|histogram| histogram.distinct);
        let mut below = 1.0;
        let mut average = 12.0;
        for distinct in entries {
            let next = below * distinct.max(1) as f64;
            if next >= rows {
                average = (rows / below).clamp(1.0, distinct.max(1) as f64) * crate::published::ENTRY as f64;
                break;
            }
            below = next;
        }
        match ListCache::new(budget as usize, average as usize, policy) {
            Ok(lists) => Ok(Some(Self { lists, probabilities })),
            Err(halocline_cache::CacheError::BudgetTooSmall { .. }) => Ok(None),
            Err(error) => Err(ElfError::Placement {
                placement: halocline_cache::Placement::Dynamic(policy, halocline_cache::Links::Hashed),
                reason: error.to_string(),
            }),
        }
    }
}
