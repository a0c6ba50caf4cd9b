//! Access counters of a device: [`Counts`].

use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Numbers of accesses, either since the device was created or between two readings (their difference).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Touched lines that the modelled cache held, including lines still in flight.
    pub hits: u64,
    /// Lines that the device served because they were touched, prefetched, or fetched by the modelled stream
    /// prefetcher.
    pub lines: u64,
    /// Lines among these that the stream prefetcher fetched.
    pub streamed: u64,
    /// Units that the device read because the unit of a requested line was not in its buffer.
    pub units: u64,
    /// Lines flushed.
    pub written_lines: u64,
    /// Units that the device wrote because a flushed line could not be combined with others in its buffer.
    pub written_units: u64,
    /// Fences.
    pub fences: u64,
    /// Calls that entered the model, which is every call except a repeated touch of the same line.
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

/// A counter with a single writing thread and any number of readers.
#[derive(Debug, Default)]
pub(crate) struct ThreadCounter(AtomicU64);

impl ThreadCounter {
    /// Adds to the counter. Only the owning thread may call this: a plain load and store, not a locked
    /// instruction.
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

/// Counters and clock position of one thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadCounters {
    pub(crate) hits: ThreadCounter,
    pub(crate) lines: ThreadCounter,
    pub(crate) streamed: ThreadCounter,
    pub(crate) units: ThreadCounter,
    pub(crate) written_lines: ThreadCounter,
    pub(crate) written_units: ThreadCounter,
    pub(crate) fences: ThreadCounter,
    pub(crate) calls: ThreadCounter,
    /// Ticks of the thread's clock, including the pending wait.
    pub(crate) position: ThreadCounter,
    /// Ticks that passed while no thread owned the lane.
    pub(crate) skipped: ThreadCounter,
    /// Ticks by which real time ran ahead of the modelled time because of the model's own overhead.
    pub(crate) overrun: ThreadCounter,
    /// Ticks for which the core was stalled.
    pub(crate) waited: ThreadCounter,
}

impl ThreadCounters {
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
