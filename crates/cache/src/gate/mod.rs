//! The gate of a cache in front of an index: lookups use it if that pays, by its measured hit rate and times.
//!
//! While the gate is closed, only keys of a fixed sample (those of the first 64th of the hashes) use the
//! cache. These see all of their own lookups, so their hit rate is what the whole cache would have
//! (Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015). While it is open, all keys do.
//! One lookup in [`TIMED`] is timed, and after a window of these the gate is judged:
//!
//! - *Closed*, it opens if the sample predicts a gain: with a share `h` of hits, a lookup saves `h` times the
//!   time of a search and costs its own, so `h` must be above the ratio of the two times, the break-even
//!   rate.
//! - *Open*, it closes if `h` is below that rate, or if lookups take no less than they did while it was
//!   closed. Only this comparison accounts for the CPU's caches, which have the hot keys while searches read
//!   them. The next attempt waits twice as long as the last one, unless the hit rate has risen.
//! - What lookups take while it is closed is measured again from time to time, for one window.

mod verdict;

use crate::draw;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use verdict::GateState;

/// The sample is one hash in this many.
pub(crate) const SAMPLE: u64 = 64;
/// One lookup in this many is timed.
const TIMED: u64 = 128;
/// Number of timed lookups after which the gate is judged.
const WINDOW: u64 = 512;
/// The times of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PairTimes {
    /// Time of the lookup in the cache, if it was looked up there.
    pub lookup: Option<Duration>,
    /// Time of the search in the index, if the cache did not have the key.
    pub search: Option<Duration>,
}

/// The gate. Every lookup reads whether it is open, so that is on a cache line of its own.
#[derive(Debug)]
pub(crate) struct LookupGate {
    open: OpenFlag,
    stays_open: bool,
    /// Time of reading the clock, in nanoseconds.
    clock: f64,
    /// Timed lookups of other threads are not counted while one holds the lock.
    state: Mutex<GateState>,
}

#[derive(Debug)]
#[repr(align(64))]
struct OpenFlag(AtomicBool);

impl LookupGate {
    /// Returns a closed gate of a cache with room for a number of entries.
    pub(crate) fn new(entries: u64) -> Self {
        Self {
            open: OpenFlag(AtomicBool::new(false)),
            stays_open: false,
            clock: clock(),
            state: Mutex::new(GateState::new(2 * entries / (TIMED * WINDOW) + 1)),
        }
    }

    /// Opens the gate for good.
    pub(crate) fn keep_open(&mut self) {
        self.stays_open = true;
        self.open = OpenFlag(AtomicBool::new(true));
    }

    /// Returns true if the lookup of a key with this hash uses the cache.
    #[inline]
    pub(crate) fn admits(&self, hash: u64) -> bool {
        self.is_open() || is_sampled(hash)
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open.0.load(Relaxed)
    }

    /// Returns true if this lookup should be timed.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        draw::next().is_multiple_of(TIMED)
    }

    fn try_state(&self) -> Option<MutexGuard<'_, GateState>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Counts a lookup that was not timed. Those with an open gate need not be counted.
    #[inline]
    pub(crate) fn count(&self, is_hit: bool) {
        if !self.is_open() {
            self.count_sampled(is_hit);
        }
    }

    #[cold]
    fn count_sampled(&self, is_hit: bool) {
        if let Some(mut state) = self.try_state() {
            state.count(1, u64::from(is_hit));
        }
    }

    /// Records the times of a lookup.
    pub(crate) fn record(&self, times: PairTimes) {
        let Some(mut state) = self.try_state() else { return };
        let nanos = |time: Duration| (time.as_nanos() as f64 - self.clock).max(1.0);
        let (lookup, search) = (times.lookup.map(nanos), times.search.map(nanos));
        if let Some(lookup) = lookup {
            state.count(1, u64::from(search.is_none()));
            state.time(self.is_open(), lookup, search);
        }
        // Keys of the sample do not count while others go round the cache.
        if self.is_open() || lookup.is_none() {
            self.add(&mut state, lookup.unwrap_or(0.0) + search.unwrap_or(0.0), 1);
        }
    }

    /// Records the time that several lookups took together, and how many of them hit.
    pub(crate) fn record_batch(&self, time: Duration, lookups: u64, hits: u64) {
        if let Some(mut state) = self.try_state() {
            if self.is_open() {
                state.count(lookups, hits);
            }
            self.add(&mut state, time.as_nanos() as f64, lookups);
        }
    }

    fn add(&self, state: &mut GateState, time: f64, lookups: u64) {
        let is_open = self.is_open();
        if state.add(is_open, time, lookups) >= WINDOW {
            let opens = state.judge(is_open);
            self.open.0.store(self.stays_open || opens, Relaxed);
        }
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the hit rate from which on lookups are expected to pay.
    pub(crate) fn break_even(&self) -> f64 {
        self.state().break_even()
    }

    /// Returns the hit rate of the last window: of the sample if the gate was closed.
    pub(crate) fn hit_rate(&self) -> Option<f64> {
        self.state().hit_rate()
    }
}

/// Returns the nanoseconds that reading the clock adds to a measured time.
fn clock() -> f64 {
    let times = (0..16).map(|_| Instant::now().elapsed());
    times.min().unwrap_or_default().as_nanos() as f64
}

/// Returns true if the key with this hash belongs to the sample.
#[inline]
fn is_sampled(hash: u64) -> bool {
    hash < u64::MAX / SAMPLE
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKUP: u64 = 100;

    /// Records a window of lookups of which one in `of` hits, with searches of some nanoseconds.
    fn window(gate: &LookupGate, of: u64, search: u64) {
        let nanos = |nanos: u64| Some(Duration::from_nanos(nanos + gate.clock as u64));
        for lookup in 0..WINDOW {
            let is_hit = lookup.is_multiple_of(of);
            let through = PairTimes {
                lookup: nanos(LOOKUP),
                search: nanos(search).filter(|_| !is_hit),
            };
            if !gate.is_open() {
                // A key of the sample, and one of the others.
                gate.record(through);
                gate.record(PairTimes {
                    lookup: None,
                    search: nanos(search),
                });
            } else {
                gate.record(through);
            }
        }
    }

    fn gate() -> LookupGate {
        LookupGate::new(10)
    }

    #[test]
    fn it_opens_if_the_sample_predicts_a_gain() {
        let gate = gate();
        assert!(gate.admits(0) && !gate.admits(u64::MAX));
        window(&gate, 20, 1000);
        assert!(!gate.is_open(), "5 % hit");
        window(&gate, 2, 1000);
        assert!(gate.is_open() && gate.admits(u64::MAX));
        assert_eq!(gate.hit_rate(), Some(0.5));
        window(&gate, 2, 1000);
        assert!((gate.break_even() - 0.1).abs() < 0.01, "{}", gate.break_even());
        for _ in 0..50 {
            window(&gate, 2, 1000);
            assert!(gate.is_open());
        }
        window(&gate, 50, 1000);
        assert!(!gate.is_open(), "lookups have stopped to hit");
    }

    #[test]
    fn it_closes_if_lookups_take_no_less_and_waits_longer_each_time() {
        let gate = gate();
        let mut openings = Vec::new();
        for at in 0..1000 {
            let was_open = gate.is_open();
            // Searches after misses take twice as long as those that the cache has taken over.
            window(&gate, 3, if was_open { 1400 } else { 700 });
            if gate.is_open() && !was_open {
                openings.push(at);
            }
        }
        let waits: Vec<_> = openings.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(openings.len() > 2 && waits.is_sorted(), "{openings:?}");
        assert!(waits[waits.len() - 1] > 3 * waits[0], "{openings:?}");
    }

    #[test]
    fn the_time_without_the_cache_is_measured_again() {
        let gate = gate();
        let mut closed = 0;
        for _ in 0..400 {
            window(&gate, 2, 1000);
            closed += u64::from(!gate.is_open());
        }
        assert!(
            (2..8).contains(&closed),
            "{closed} windows of 400 without the cache"
        );
    }

    #[test]
    fn interrupted_measurements_weigh_little() {
        let gate = gate();
        for _ in 0..2 {
            window(&gate, 2, 1000);
        }
        gate.record(PairTimes {
            lookup: Some(Duration::from_millis(10)),
            search: None,
        });
        assert!(gate.break_even() < 0.12, "{}", gate.break_even());
    }
}
