//! What one core asks of the device: when the device has served it, by latency, buffers and bandwidth.
//!
//! The core's time comes with each call, as `(now, behind)`: its own, and how far that is behind real time.

use crate::counts::Tallies;
use crate::flights::Flights;
use crate::lanes::Shared;
use crate::model::{MOST_AHEAD, MOST_MISSES};

/// Accesses between two counts of the threads that share the device.
const RECOUNT: u32 = 64;

/// Who asks for a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The core, by a touch or a prefetch.
    ByCore,
    /// The stream prefetcher.
    Ahead,
}

/// Requests on their way, and when there is room for more.
#[derive(Debug)]
pub(crate) struct Requests {
    lines: Flights,
    units: Flights,
    /// When each miss of the core is free again, then those of the stream prefetcher.
    slots: [u64; MOST_MISSES + MOST_AHEAD],
    next_stream_slot: usize,
    last_unit: u64,
    read_free: u64,
    write_free: u64,
    accepted: u64,
    threads: usize,
    until_recount: u32,
}

impl Requests {
    pub(crate) fn new() -> Requests {
        Requests {
            lines: Flights::new(),
            units: Flights::new(),
            slots: [0; MOST_MISSES + MOST_AHEAD],
            next_stream_slot: 0,
            last_unit: u64::MAX - 1,
            read_free: 0,
            write_free: 0,
            accepted: 0,
            threads: 1,
            until_recount: 0,
        }
    }

    /// Whether any line is on its way.
    #[inline(always)]
    pub(crate) fn any(&self, now: u64) -> bool {
        self.lines.any(now)
    }

    /// When the line is there; 0 if nothing is on its way any more.
    #[inline(always)]
    pub(crate) fn complete_after(&self, line: u64, now: u64) -> u64 {
        if self.any(now) {
            self.lines.complete(line)
        } else {
            0
        }
    }

    /// When the device has accepted what was flushed.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// The miss of the core that is free first.
    #[inline(always)]
    fn first_free(&self, misses: usize) -> usize {
        let mut first = 0;
        for slot in 1..misses {
            if self.slots[slot] < self.slots[first] {
                first = slot;
            }
        }
        first
    }

    /// Starts an access to a line; returns when it is complete.
    #[inline(always)]
    pub(crate) fn start(
        &mut self,
        shared: &Shared,
        tallies: &Tallies,
        (now, behind): (u64, u64),
        line: u64,
        asked: Asked,
    ) -> u64 {
        let model = &shared.model;
        tallies.lines.add(1);
        let slot = match asked {
            Asked::Ahead => {
                self.next_stream_slot += 1;
                if self.next_stream_slot == model.ahead {
                    self.next_stream_slot = 0;
                }
                MOST_MISSES + self.next_stream_slot
            }
            Asked::ByCore => self.first_free(model.misses),
        };
        let start = now.max(self.slots[slot]);
        let unit = line >> model.unit_shift;
        let complete = if shared.reads.as_ref().is_some_and(|buffer| buffer.access(unit)) {
            let there = if self.units.any(start) {
                self.units.complete(unit)
            } else {
                0
            };
            start.max(there) + model.buffered
        } else {
            tallies.units.add(1);
            let start = start.max(self.read_free);
            self.read_free = start + model.read_unit(self.threads(shared, now + behind));
            let complete = start + self.latency(shared, unit);
            if model.unit_shift > 0 {
                self.units
                    .start(unit, now, complete.saturating_sub(model.buffered));
            }
            complete
        };
        self.slots[slot] = complete;
        self.lines.start(line, now, complete);
        complete
    }

    /// Many lines at once: exact counts, and the time of their units, without a record of each line. Returns when all are
    /// there, and how many the device served.
    pub(crate) fn bulk(
        &mut self,
        shared: &Shared,
        tallies: &Tallies,
        (now, behind): (u64, u64),
        first: u64,
        last: u64,
    ) -> (u64, u64) {
        let model = &shared.model;
        let (mut ready, mut missed, mut unit_before) = (now, 0, u64::MAX);
        let cost = model.read_unit(self.threads(shared, now + behind));
        let mut units = 0;
        shared.cache.access_each(first, last, |line| {
            missed += 1;
            let unit = line >> model.unit_shift;
            if unit == unit_before {
                return;
            }
            unit_before = unit;
            if shared.reads.as_ref().is_some_and(|buffer| buffer.access(unit)) {
                ready = ready.max(now + model.buffered);
                return;
            }
            units += 1;
            let start = now.max(self.read_free);
            self.read_free = start + cost;
            ready = ready.max(start + self.latency(shared, unit));
        });
        tallies.units.add(units);
        tallies.lines.add(missed);
        tallies.hits.add(last - first + 1 - missed);
        (ready, missed)
    }

    /// Lines on their way to the device; returns the time at which the core goes on.
    pub(crate) fn flush(
        &mut self,
        shared: &Shared,
        tallies: &Tallies,
        (mut now, behind): (u64, u64),
        first: u64,
        last: u64,
    ) -> u64 {
        let model = &shared.model;
        let cost = model.write_unit(self.threads(shared, now + behind));
        for line in first..=last {
            tallies.written_lines.add(1);
            let unit = line >> model.unit_shift;
            if !shared.writes.as_ref().is_some_and(|buffer| buffer.access(unit)) {
                tallies.written_units.add(1);
                self.write_free = now.max(self.write_free) + cost;
                // A full queue makes the core wait.
                now = now.max(self.write_free.saturating_sub(64 * cost));
            }
            self.accepted = self.write_free.max(now + model.write);
        }
        now
    }

    /// Of a unit that is read next.
    #[inline(always)]
    fn latency(&mut self, shared: &Shared, unit: u64) -> u64 {
        let next = unit == self.last_unit + 1;
        self.last_unit = unit;
        if next {
            shared.model.next_unit
        } else {
            shared.model.random
        }
    }

    /// Threads that share the device, counted now and then.
    #[inline(always)]
    fn threads(&mut self, shared: &Shared, now: u64) -> usize {
        if self.until_recount == 0 {
            self.until_recount = RECOUNT;
            self.threads = shared.threads(now);
        }
        self.until_recount -= 1;
        self.threads
    }
}
