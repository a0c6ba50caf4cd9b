//! The gate of a cache of pairs: whether lookups use it, by its measured hit rate and cost.
//!
//! While the gate is closed, only keys of a fixed sample (those of the first 64th of the buckets) use the
//! cache. These see all of their own lookups, so their hit rate is what the whole cache would have
//! (Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015). While it is open, all keys do,
//! and one lookup in sixteen counts. After a window of lookups the hit rate is compared with the break-even
//! rate: with a share `h` of hits, a lookup saves `h` times the time of the search that it replaces, and
//! costs its own time, so that it pays if `h` is above the ratio of the two times. Both are measured on a
//! lookup now and then.
//!
//! The gate is closed at first, until the sample has been filled.

use crate::draw;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;

/// The sample is one bucket in this many.
pub(super) const SAMPLE: u64 = 64;
/// One lookup in this many counts while the gate is open.
const COUNTED: u64 = 16;
/// One lookup in this many is timed.
const TIMED: u64 = 512;
/// Number of counted lookups after which the gate is judged.
const WINDOW: u64 = 4096;
/// Increment of the number of lookups in the window's word.
const LOOKUP: u64 = 1 << 32;
/// Factor by which the hit rate must exceed the break-even rate to open a closed gate.
const TO_OPEN: f64 = 1.1;
/// Limits of the break-even rate, against times that were measured badly.
const BREAK_EVEN: (f64, f64) = (0.02, 0.9);
/// The break-even rate before anything was measured.
const INITIAL: f64 = 0.25;
/// Weight of a measured time in the moving averages.
const WEIGHT: f64 = 1.0 / 64.0;

/// The gate, on a cache line of its own because every lookup reads it.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct PairGate {
    is_open: AtomicBool,
    stays_open: bool,
    /// Counted lookups in the upper half and their hits in the lower one. Concurrent changes may lose some.
    window: AtomicU64,
    /// Counted lookups before the first judgement, of which the sample has this many to go.
    to_fill: AtomicU64,
    /// Hit rate of the last window, as bits of an `f32`; NaN before.
    rate: AtomicU32,
    /// Moving averages in nanoseconds, as bits of an `f32`: of a lookup in the cache and of a search.
    lookup: AtomicU32,
    search: AtomicU32,
}

fn load(value: &AtomicU32) -> f64 {
    f64::from(f32::from_bits(value.load(Relaxed)))
}

fn store(value: &AtomicU32, number: f64) {
    value.store((number as f32).to_bits(), Relaxed);
}

impl PairGate {
    /// Returns a closed gate. It stays closed for `to_fill` lookups of keys of the sample.
    pub(super) fn new(to_fill: u64) -> Self {
        Self {
            is_open: AtomicBool::new(false),
            stays_open: false,
            window: AtomicU64::new(0),
            to_fill: AtomicU64::new(to_fill),
            rate: AtomicU32::new(f32::NAN.to_bits()),
            lookup: AtomicU32::new(0),
            search: AtomicU32::new(0),
        }
    }

    /// Opens the gate for good.
    pub(super) fn keep_open(&mut self) {
        self.stays_open = true;
        self.is_open = AtomicBool::new(true);
    }

    /// Returns true if the lookup of a key with this hash uses the cache.
    #[inline]
    pub(super) fn admits(&self, hash: u64) -> bool {
        self.is_open() || is_sampled(hash)
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Relaxed)
    }

    /// Returns true if this lookup should be timed.
    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        draw::next().is_multiple_of(TIMED)
    }

    /// Records the time of a lookup in the cache, and that of the search after a miss.
    pub(super) fn record(&self, lookup: Duration, search: Option<Duration>) {
        let average = |of: &AtomicU32, time: Duration| {
            let (time, before) = (time.as_nanos() as f64, load(of));
            // What takes many times as long was interrupted.
            let time = if before > 0.0 {
                time.min(8.0 * before)
            } else {
                time
            };
            let weight = if before > 0.0 { WEIGHT } else { 1.0 };
            store(of, before + (time - before) * weight);
        };
        average(&self.lookup, lookup);
        if let Some(search) = search {
            average(&self.search, search);
        }
    }

    /// Records the result of a lookup.
    #[inline]
    pub(super) fn count(&self, is_hit: bool) {
        if !self.is_open() || draw::next().is_multiple_of(COUNTED) {
            self.count_sampled(is_hit);
        }
    }

    fn count_sampled(&self, is_hit: bool) {
        let window = self.window.load(Relaxed) + LOOKUP + u64::from(is_hit);
        if window / LOOKUP < WINDOW {
            self.window.store(window, Relaxed);
        } else {
            self.window.store(0, Relaxed);
            self.judge((window % LOOKUP) as f64 / WINDOW as f64);
        }
    }

    #[cold]
    fn judge(&self, rate: f64) {
        let to_fill = self.to_fill.load(Relaxed);
        if to_fill > 0 {
            self.to_fill.store(to_fill.saturating_sub(WINDOW), Relaxed);
            return;
        }
        store(&self.rate, rate);
        let least = match self.is_open() {
            true => self.break_even(),
            false => TO_OPEN * self.break_even(),
        };
        self.is_open.store(self.stays_open || rate > least, Relaxed);
    }

    /// Returns the hit rate from which on lookups pay.
    pub(super) fn break_even(&self) -> f64 {
        let (lookup, search) = (load(&self.lookup), load(&self.search));
        if search > 0.0 {
            (lookup / search).clamp(BREAK_EVEN.0, BREAK_EVEN.1)
        } else {
            INITIAL
        }
    }

    /// Returns the hit rate of the last window: of the sample if the gate was closed.
    pub(super) fn hit_rate(&self) -> Option<f64> {
        let rate = load(&self.rate);
        (!rate.is_nan()).then_some(rate)
    }
}

/// Returns true if the key with this hash belongs to the sample.
#[inline]
fn is_sampled(hash: u64) -> bool {
    hash < u64::MAX / SAMPLE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts a window of lookups of the sample, of which one in `of` hits.
    fn window(gate: &PairGate, of: u64) {
        for lookup in 0..WINDOW {
            gate.count_sampled(lookup.is_multiple_of(of));
        }
    }

    #[test]
    fn it_opens_and_closes_by_hit_rate_and_cost() {
        let gate = PairGate::new(WINDOW);
        assert!(gate.admits(0) && !gate.admits(u64::MAX));
        window(&gate, 1);
        assert!(!gate.is_open(), "the cache is being filled");
        assert_eq!(gate.hit_rate(), None);
        window(&gate, 2);
        assert!(gate.is_open() && gate.admits(u64::MAX));
        assert_eq!(gate.hit_rate(), Some(0.5));
        window(&gate, 5);
        assert!(!gate.is_open());
        // A search that takes ten times as long as a lookup pays with one hit in five.
        gate.record(Duration::from_nanos(100), Some(Duration::from_micros(1)));
        assert!((gate.break_even() - 0.1).abs() < 1e-6);
        window(&gate, 5);
        assert!(gate.is_open());
        for _ in 0..1000 {
            gate.record(Duration::from_nanos(500), Some(Duration::from_micros(1)));
        }
        assert!((gate.break_even() - 0.5).abs() < 0.01);
        window(&gate, 5);
        assert!(!gate.is_open());
    }

    #[test]
    fn interrupted_measurements_weigh_little() {
        let gate = PairGate::new(0);
        gate.record(Duration::from_nanos(100), Some(Duration::from_micros(1)));
        gate.record(Duration::from_millis(10), None);
        assert!(gate.break_even() < 0.12, "{}", gate.break_even());
    }
}
