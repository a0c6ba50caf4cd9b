//! What a device has done: [`Counts`].

use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Accesses so far, or between two readings (the difference of two).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Lines that were touched and that the modelled cache held, in flight or there.
    pub hits: u64,
    /// Lines the device served: touched, prefetched, or fetched by the model's stream prefetcher.
    pub lines: u64,
    /// Those of them that the stream prefetcher fetched.
    pub streamed: u64,
    /// Units the device read, for lines whose unit was not in its buffer.
    pub units: u64,
    /// Lines flushed.
    pub written_lines: u64,
    /// Units the device wrote, for lines that could not be combined with others in its buffer.
    pub written_units: u64,
    /// Fences.
    pub fences: u64,
    /// Calls for which the model was entered: all but touches of the line touched last.
    pub calls: u64,
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, before: Counts) -> Counts {
        Counts {
            hits: self.hits - before.hits,
            lines: self.lines - before.lines,
            streamed: self.streamed - before.streamed,
            units: self.units - before.units,
            written_lines: self.written_lines - before.written_lines,
            written_units: self.written_units - before.written_units,
            fences: self.fences - before.fences,
            calls: self.calls - before.calls,
        }
    }
}

/// A number that one thread counts and any may read.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    /// Only by the thread that counts: not a locked instruction.
    #[inline(always)]
    pub(crate) fn add(&self, count: u64) {
        self.set(self.get() + count);
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one thread has counted, and how far its clock is.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) hits: Tally,
    pub(crate) lines: Tally,
    pub(crate) streamed: Tally,
    pub(crate) units: Tally,
    pub(crate) written_lines: Tally,
    pub(crate) written_units: Tally,
    pub(crate) fences: Tally,
    pub(crate) calls: Tally,
    /// Ticks of the thread's clock, with what it still has to wait for.
    pub(crate) position: Tally,
    /// Ticks of that which passed while no thread had the lane.
    pub(crate) skipped: Tally,
    /// Ticks that real time was ahead of it and that were given up.
    pub(crate) overrun: Tally,
    /// Ticks for which the core had nothing to do but wait.
    pub(crate) waited: Tally,
}

impl Tallies {
    pub(crate) fn add_to(&self, sum: &mut Counts) {
        sum.hits += self.hits.get();
        sum.lines += self.lines.get();
        sum.streamed += self.streamed.get();
        sum.units += self.units.get();
        sum.written_lines += self.written_lines.get();
        sum.written_units += self.written_units.get();
        sum.fences += self.fences.get();
        sum.calls += self.calls.get();
    }
}
