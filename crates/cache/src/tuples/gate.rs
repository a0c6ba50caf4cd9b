//! The gate of a cache: lookups are skipped while the sampled hit rate is too low for them to pay.
//!
//! While the gate is open, one lookup in 16 is a sample. After 1024 samples their hit rate is
//! evaluated, and the gate closes if it is below the break-even rate. While it is closed, one query in
//! 64 still does a lookup, admits its result as usual, and is a sample. The cache thus sees the same
//! workload at a 64th of the rate, and the gate opens when its hits pay again. There is no evaluation
//! before the cache has had twice as many lookups as entries, as it needs time to fill.

use crate::draw;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

const SAMPLE: u64 = 16;
const TRY: u64 = 64;
const WINDOW: u32 = 1024;
/// Increment of the number of samples in the window word.
const SAMPLED: u64 = 1 << 32;
/// Marker of a rate that has not been measured.
const UNKNOWN: u32 = u32::MAX;

/// The gate, on a cache line of its own because every lookup reads it.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct AdmissionGate {
    closed: AtomicBool,
    /// Number of hits in a window below which the gate closes.
    break_even: u32,
    /// Number of samples before the first evaluation.
    grace: u64,
    /// The number of samples in this window in the upper half, and of their hits in the lower one. It is
    /// stored without a read-modify-write operation, which would serialize lookups; concurrent stores
    /// lose a sample.
    window: AtomicU64,
    all_samples: AtomicU64,
    /// Number of hits in the last complete window.
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

    /// Returns true if the cache has had time to fill and has been evaluated.
    #[inline]
    pub(super) fn has_judged(&self) -> bool {
        self.all_samples.load(Relaxed) >= self.grace
    }

    /// Returns true if this query does a lookup although the gate is closed.
    #[inline]
    pub(super) fn try_anyway(&self) -> bool {
        draw::next().is_multiple_of(TRY)
    }

    /// Records the result of a lookup.
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
