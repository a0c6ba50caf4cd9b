//! Whether looking something up pays: an estimate of the hit rate from a sample of the lookups.
//!
//! While it is open one lookup in 16 is a sample; when 1024 are there, their hit rate is judged, and below the
//! break-even rate the gate closes. Then one query in 64 is looked up, offered on a miss like any other, and is a
//! sample: the cache sees the same workload, 64 times slower, and opens the gate when its hits pay again. A cache that
//! had fewer lookups than twice its room is not judged: it had no time to fill.

use crate::draw;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

const SAMPLE: u64 = 16;
const TRY: u64 = 64;
const WINDOW: u32 = 1024;
/// One sample in the word of the window.
const SAMPLED: u64 = 1 << 32;
/// A rate that was never measured.
const UNKNOWN: u32 = u32::MAX;

/// On a line of its own: it is written rarely and read by every lookup.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct AdmissionGate {
    closed: AtomicBool,
    /// Hits in a window below which it closes.
    break_even: u32,
    /// Samples before the first judgement.
    grace: u64,
    /// The samples of this window, above the hits among them: one word, stored without a read-modify-write, which would
    /// make lookups wait for each other. Threads that store at the same time lose a sample with its answer.
    window: AtomicU64,
    all_samples: AtomicU64,
    /// The hits of the last whole window.
    last_hits: AtomicU32,
}

impl AdmissionGate {
    pub(super) fn new(entries: usize) -> Self {
        Self {
            closed: AtomicBool::new(false),
            break_even: 0,
            grace: 2 * entries as u64 / SAMPLE,
            window: AtomicU64::new(0),
            all_samples: AtomicU64::new(0),
            last_hits: AtomicU32::new(UNKNOWN),
        }
    }

    pub(super) fn set_break_even(&mut self, rate: f64) {
        self.break_even = (rate.clamp(0.0, 1.0) * f64::from(WINDOW)).ceil() as u32;
    }

    #[inline]
    pub(super) fn open(&self) -> bool {
        !self.closed.load(Relaxed)
    }

    /// Whether the cache has had the time to fill, and was judged.
    #[inline]
    pub(super) fn has_judged(&self) -> bool {
        self.all_samples.load(Relaxed) >= self.grace
    }

    /// Whether this query is one of those that are looked up while it is closed.
    #[inline]
    pub(super) fn try_anyway(&self) -> bool {
        draw::next().is_multiple_of(TRY)
    }

    /// A lookup hit or missed.
    #[inline]
    pub(super) fn note(&self, hit: bool) {
        if !self.open() || draw::next().is_multiple_of(SAMPLE) {
            self.sample(hit);
        }
    }

    fn sample(&self, hit: bool) {
        let window = self.window.load(Relaxed) + SAMPLED + u64::from(hit);
        if window >> SAMPLED.ilog2() < u64::from(WINDOW) {
            self.window.store(window, Relaxed);
        } else {
            self.window.store(0, Relaxed);
            self.judge(window as u32);
        }
    }

    #[cold]
    fn judge(&self, hits: u32) {
        self.last_hits.store(hits, Relaxed);
        let all = self.all_samples.fetch_add(u64::from(WINDOW), Relaxed) + u64::from(WINDOW);
        if all >= self.grace {
            self.closed.store(hits < self.break_even, Relaxed);
        }
    }

    pub(super) fn rate(&self) -> Option<f64> {
        match self.last_hits.load(Relaxed) {
            UNKNOWN => None,
            hits => Some(f64::from(hits) / f64::from(WINDOW)),
        }
    }
}
