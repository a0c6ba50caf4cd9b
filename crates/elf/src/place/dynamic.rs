//! Copies that follow the queries.
//!
//! Two caches share the budget. *Tuples*: a [`TupleCache`] holds the results of exact matches, so that a
//! repeated query reads no list. *Lists*: one query in some dozens is a sample, which runs in the slow tier
//! and counts the lists it visits; from time to time, the lists with the highest benefit by these counts and
//! by their traversal probability ("LLA with real accesses") are copied into a new
//! [`Image`](crate::view::Image). Links within an image are swizzled: they lead from copy to copy, so that a
//! hit probes no hash table. The link to a list that is no longer copied is an offset in the slow tier.
//! Readers take no lock: images are immutable and freed after their last reader.
//!
//! A background thread selects and copies the lists. It holds the index's bytes, so dropping the caches
//! cancels it and waits for it; it checks for cancellation before each list.
//!
//! The alternative, which the paper describes, is a hash table of lists with a replacement policy
//! ([`Hashed`](super::hashed::Hashed)).
//!
//! One query in 64 is a sample. The first image is made after 64 samples, later ones at growing distances.
//! After [`Elf::copy_alone`](crate::Elf::copy_alone), the query at which an image is due makes it itself and
//! nothing is timed, for tests and for advice. Exact matches beside the image use a [`TupleCache`]: a row
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

/// Samples before the first image; each later image is due after four times as many, at most
/// [`MAX_SAMPLES_BETWEEN_IMAGES`] later.
const FIRST_IMAGE_SAMPLES: u64 = 64;
/// Maximum number of samples between two images.
const MAX_SAMPLES_BETWEEN_IMAGES: u64 = 1 << 14;
/// Maximum number of threads of this process that copy at the same time. The indexes of a table's segments
/// are due together, so that without a limit there would be a thread for each segment.
const MAX_COPY_THREADS: usize = 4;

static COPYING: AtomicUsize = AtomicUsize::new(0);

/// Permission to run one of the threads that copy.
struct CopySlot;

impl CopySlot {
    /// Returns `None` if [`MAX_COPY_THREADS`] threads are running.
    fn take() -> Option<Self> {
        let one_more = |taken: usize| (taken < MAX_COPY_THREADS).then_some(taken + 1);
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
    /// The thread that copies, or that copied last.
    copying: Mutex<Option<JoinHandle<()>>>,
    /// Queries make images themselves, without a thread.
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
    /// Creates empty caches of at most `budget` bytes; `None` if that is too little.
    pub(crate) fn new(budget: u64, header: &ElfHeader) -> Option<Self> {
        Some(Self {
            caches: Arc::new(Caches::new(budget, header, FIRST_IMAGE_SAMPLES)?),
            copying: Mutex::default(),
            alone: false.into(),
        })
    }

    /// Returns the counters if the query that begins is a sample.
    #[inline]
    pub(crate) fn sample(&self, kind: QueryKind) -> Option<&AgedCounts> {
        self.is_sample().then(|| self.sampled(kind))
    }

    /// Returns true if the query that begins is a sample.
    #[inline]
    pub(crate) fn is_sample(&self) -> bool {
        self.counts.sample()
    }

    /// Returns the counters for a query that is a sample.
    #[cold]
    pub(crate) fn sampled(&self, kind: QueryKind) -> &AgedCounts {
        self.samples.fetch_add(1, Relaxed);
        // Without a thread nothing depends on measured times.
        if !self.alone.load(Relaxed) {
            self.update_strategies();
            self.strategies.sampled(kind);
        }
        &self.counts
    }

    /// Returns the counters for a query that is made a sample.
    pub(crate) fn learn(&self) -> &AgedCounts {
        self.counts.count_sample();
        self.samples.fetch_add(1, Relaxed);
        &self.counts
    }

    /// Returns true if a new image is due.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.samples.load(Relaxed) >= self.due.load(Relaxed)
    }

    /// Makes the query at which an image is due create it from now on, so that the caches depend on the
    /// queries alone.
    pub(crate) fn copy_alone(&self) {
        self.alone.store(true, Relaxed);
    }

    /// Starts a renewal by `make`, which receives the counters and the bytes available. Does nothing if one
    /// is running, or if the pause after the last one is not over.
    pub(crate) fn renew(
        &self,
        make: impl FnOnce(&AgedCounts, u64, &dyn CopyControl) -> Result<Option<ImageParts>> + Send + 'static,
    ) {
        let mut copying = match self.copying.try_lock() {
            Ok(copying) => copying,
            Err(TryLockError::Poisoned(error)) => PoisonError::into_inner(error),
            Err(TryLockError::WouldBlock) => return,
        };
        // Another thread may have done it since the caller checked.
        if !self.is_due() || copying.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        if self.must_pause() {
            self.due.fetch_add(FIRST_IMAGE_SAMPLES, Relaxed);
            return;
        }
        if self.alone.load(Relaxed) {
            self.is_being_done();
            return self.renew_or_say(Readers::LeaveTo, make);
        }
        let Some(place) = CopySlot::take() else {
            self.due.fetch_add(FIRST_IMAGE_SAMPLES, Relaxed);
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

    /// Renews the copies on this thread, even if no image is due.
    ///
    /// # Errors
    /// The errors of `make`.
    pub(crate) fn renew_now(
        &self,
        make: impl FnOnce(&AgedCounts, u64, &dyn CopyControl) -> Result<Option<ImageParts>>,
    ) -> Result<()> {
        self.is_being_done();
        self.caches.renew(Readers::LeaveTo, make)
    }

    /// Makes the first image, on this thread.
    ///
    /// # Errors
    /// The errors of `make`.
    pub(crate) fn begin(
        &self,
        make: impl FnOnce(&AgedCounts, u64, &dyn CopyControl) -> Result<Option<ImageParts>>,
    ) -> Result<()> {
        self.caches.begin(make)
    }

    /// Schedules the next image.
    fn is_being_done(&self) {
        let samples = self.samples.load(Relaxed);
        let next = samples + (3 * samples).clamp(FIRST_IMAGE_SAMPLES, MAX_SAMPLES_BETWEEN_IMAGES);
        self.due.store(next, Relaxed);
    }

    fn copying(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.copying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a renewal in progress.
    pub(crate) fn wait(&self) {
        if let Some(thread) = self.copying().take() {
            // The thread catches its panics and records errors.
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

/// Stores the result of an exact match that found one row.
pub(crate) fn remember(cache: &TupleCache, key: &Key, tids: &crate::Tids<'_>) {
    if let (1, Some(tid)) = (tids.len(), tids.first()) {
        cache.put(key.hash, key.words(), tid);
    }
}
