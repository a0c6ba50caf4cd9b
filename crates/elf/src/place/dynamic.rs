//! Copies that follow the queries.
//!
//! Two caches share the budget. *Tuples*: what an exact match found is kept in a [`TupleCache`], the MonoLists of this
//! index, so that the same query again touches no list at all. *Lists*: one query in some dozens is a sample, which runs in
//! the slow tier and counts the lists it visits; now and then the lists that are worth it, by those counts and by their
//! traversal probability ('LLA with real accesses'), are copied anew into an [`Image`](crate::view::Image), whose links lead
//! from copy to copy: swizzled, so that a hit probes nothing. A list that is not worth it any more is in the next image
//! only what its parent's link says: an offset in the slow tier. Readers take no lock: what is cached is immutable, and what
//! is replaced goes when its last reader is done.
//!
//! Lists are chosen and copied by a thread that lives as long as that takes. It holds the index's bytes, so whoever drops
//! the caches first has it stop and waits for it: it looks whether it is still wanted at each list.
//!
//! The other way, the paper's, is a hash table of lists with a replacement policy ([`Hashed`](super::hashed::Hashed)).
//!
//! One query in 64 is a sample. The first image is made after 64 samples, later ones at growing distances.
//! With [`Elf::copy_alone`](crate::Elf::copy_alone) the query at which lists are due copies them itself and
//! nothing is timed: for tests, and for advice. Exact matches beside the image use a [`TupleCache`]: a row
//! takes 13 bytes where its tuple fits one word.

use crate::Result;
use crate::header::ElfHeader;
use crate::place::caches::Caches;
use crate::place::list_copier::{CopyControl, ImageParts};
use crate::place::renewal::Readers;
use crate::place::strategy::QueryKind;
use halocline_cache::{AgedCounts, Key, TupleCache};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

/// Samples before lists are copied for the first time; then always after four times as many, up to [`SAMPLES`] more.
const FIRST: u64 = 64;
/// Samples between two images, once there have been many.
const SAMPLES: u64 = 1 << 14;
/// Threads of this process that copy at once: a table of many segments has as many indexes, and all are due together.
const THREADS: usize = 4;

static COPYING: AtomicUsize = AtomicUsize::new(0);

/// One of the threads that copy.
struct CopySlot;

impl CopySlot {
    /// `None` if there are enough.
    fn take() -> Option<Self> {
        let one_more = |taken: usize| (taken < THREADS).then_some(taken + 1);
        COPYING
            .fetch_update(Relaxed, Relaxed, one_more)
            .ok()
            .map(|_| Self)
    }
}

impl Drop for CopySlot {
    fn drop(&mut self) {
        COPYING.fetch_sub(1, Relaxed);
    }
}

/// The caches of one placed index, and the thread that fills them with lists.
#[derive(Debug)]
pub(crate) struct Dynamic {
    caches: Arc<Caches>,
    /// The thread that copies, or has copied.
    copying: Mutex<Option<JoinHandle<()>>>,
    /// Queries copy themselves.
    alone: AtomicBool,
}

impl Deref for Dynamic {
    type Target = Caches;

    #[inline]
    fn deref(&self) -> &Caches {
        &self.caches
    }
}

impl Dynamic {
    /// Empty caches of at most `budget` bytes; `None` if that is too little for any.
    pub(crate) fn new(budget: u64, header: &ElfHeader) -> Option<Self> {
        Some(Self {
            caches: Arc::new(Caches::new(budget, header, FIRST)?),
            copying: Mutex::default(),
            alone: false.into(),
        })
    }

    /// The counts, if the query of that kind that begins is a sample.
    #[inline]
    pub(crate) fn sample(&self, kind: QueryKind) -> Option<&AgedCounts> {
        self.is_sample().then(|| self.sampled(kind))
    }

    /// Whether the query that begins is a sample.
    #[inline]
    pub(crate) fn is_sample(&self) -> bool {
        self.counts.sample()
    }

    /// The counts for one that is.
    #[cold]
    pub(crate) fn sampled(&self, kind: QueryKind) -> &AgedCounts {
        self.samples.fetch_add(1, Relaxed);
        // What queries alone decide knows no time.
        if !self.alone.load(Relaxed) {
            self.update_strategies();
            self.strategies.sampled(kind);
        }
        &self.counts
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

    /// From now on the query at which lists are due chooses and copies them: when is then a matter of the queries alone.
    pub(crate) fn copy_alone(&self) {
        self.alone.store(true, Relaxed);
    }

    /// Has lists copied anew by `make`, which is given the counts and the bytes there are; unless that is being done, or
    /// took too long to be done again so soon.
    pub(crate) fn renew(
        &self,
        make: impl FnOnce(&AgedCounts, u64, &dyn CopyControl) -> Result<Option<ImageParts>> + Send + 'static,
    ) {
        let mut copying = match self.copying.try_lock() {
            Ok(copying) => copying,
            Err(TryLockError::Poisoned(error)) => PoisonError::into_inner(error),
            Err(TryLockError::WouldBlock) => return,
        };
        // Another thread may just have done it.
        if !self.is_due() || copying.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        if self.must_pause() {
            self.due.fetch_add(FIRST, Relaxed);
            return;
        }
        if self.alone.load(Relaxed) {
            self.is_being_done();
            return self.renew_or_say(Readers::LeaveTo, make);
        }
        let Some(place) = CopySlot::take() else {
            self.due.fetch_add(FIRST, Relaxed);
            return;
        };
        self.is_being_done();
        let caches = Arc::clone(&self.caches);
        let thread = std::thread::Builder::new().name("halocline-copies".to_owned());
        let copy = move || {
            let _place = place;
            caches.renew_or_say(Readers::WaitFor, make);
        };
        match thread.spawn(copy) {
            Ok(thread) => *copying = Some(thread),
            Err(error) => self.set_failed(Some(format!("no thread to copy lists to DRAM: {error}"))),
        }
    }

    /// As [`renew`](Self::renew), due or not, by this thread.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn renew_now(
        &self,
        make: impl FnOnce(&AgedCounts, u64, &dyn CopyControl) -> Result<Option<ImageParts>>,
    ) -> Result<()> {
        self.is_being_done();
        self.caches.renew(Readers::LeaveTo, make)
    }

    /// Copies lists for the first time, by this thread.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn begin(
        &self,
        make: impl FnOnce(&AgedCounts, u64, &dyn CopyControl) -> Result<Option<ImageParts>>,
    ) -> Result<()> {
        self.caches.begin(make)
    }

    /// The next image is due only after this one.
    fn is_being_done(&self) {
        let samples = self.samples.load(Relaxed);
        let next = samples + (3 * samples).clamp(FIRST, SAMPLES);
        self.due.store(next, Relaxed);
    }

    fn copying(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.copying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until lists that are being copied are there.
    pub(crate) fn wait(&self) {
        if let Some(thread) = self.copying().take() {
            // It catches its panics and says what went wrong.
            let _ = thread.join();
        }
    }
}

impl Drop for Dynamic {
    fn drop(&mut self) {
        self.stopped.store(true, Relaxed);
        self.wait();
    }
}

/// What an exact match found is remembered by.
pub(crate) fn remember(cache: &TupleCache, key: &Key, tids: &crate::Tids<'_>) {
    if let (1, Some(tid)) = (tids.len(), tids.first()) {
        cache.put(key.hash, key.words(), tid);
    }
}
