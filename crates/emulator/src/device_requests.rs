//! Requests of one core to the device: when each is served, given latency, buffers and bandwidth.
//!
//! Each call passes the core's time as `(now, behind)`, where `behind` is its lag behind real time.

use crate::counts::ThreadCounters;
use crate::model::{MAX_AHEAD, MAX_MISSES};
use crate::outstanding::OutstandingMisses;
use crate::shared::DeviceState;

/// Accesses between two counts of the threads that share the device.
const RECOUNT: u32 = 64;

/// The origin of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requester {
    /// A touch or a prefetch of the core.
    Core,
    /// The modelled stream prefetcher.
    StreamPrefetcher,
}

/// Outstanding requests, and the times at which resources for further ones become free.
#[derive(Debug)]
pub(crate) struct DeviceRequests {
    lines: OutstandingMisses,
    units: OutstandingMisses,
    /// Times at which each miss slot becomes free: first those of the core, then those of the stream
    /// prefetcher.
    slots: [u64; MAX_MISSES + MAX_AHEAD],
    next_stream_slot: usize,
    last_unit: u64,
    read_free: u64,
    write_free: u64,
    accepted: u64,
    threads: usize,
    until_recount: u32,
}

impl DeviceRequests {
    pub(crate) fn new() -> DeviceRequests {
        DeviceRequests {
            lines: OutstandingMisses::new(),
            units: OutstandingMisses::new(),
            slots: [0; MAX_MISSES + MAX_AHEAD],
            next_stream_slot: 0,
            last_unit: u64::MAX - 1,
            read_free: 0,
            write_free: 0,
            accepted: 0,
            threads: 1,
            until_recount: 0,
        }
    }

    /// Returns true if any line is in flight.
    #[inline(always)]
    pub(crate) fn any(&self, now: u64) -> bool {
        self.lines.any(now)
    }

    /// Returns the time at which the line arrives, or 0 if nothing is in flight.
    #[inline(always)]
    pub(crate) fn complete_after(&self, line: u64, now: u64) -> u64 {
        if self.any(now) {
            self.lines.complete(line)
        } else {
            0
        }
    }

    /// Returns the time at which the device has accepted all flushed lines.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns the miss slot of the core that becomes free first.
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

    /// Requests a line; returns the time at which it arrives.
    #[inline(always)]
    pub(crate) fn start(
        &mut self,
        shared: &DeviceState,
        counters: &ThreadCounters,
        (now, behind): (u64, u64),
        line: u64,
        requester: Requester,
    ) -> u64 {
        let model = &shared.model;
        counters.lines.add(1);
        let slot = match requester {
            Requester::StreamPrefetcher => {
                self.next_stream_slot += 1;
                if self.next_stream_slot == model.ahead {
                    self.next_stream_slot = 0;
                }
                MAX_MISSES + self.next_stream_slot
            }
            Requester::Core => self.first_free(model.misses),
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
            counters.units.add(1);
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

    /// Requests many lines at once, with exact counts and the time of their units but no record of each line.
    /// Returns the time at which all have arrived, and the number of lines that the device served.
    pub(crate) fn bulk(
        &mut self,
        shared: &DeviceState,
        counters: &ThreadCounters,
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
        counters.units.add(units);
        counters.lines.add(missed);
        counters.hits.add(last - first + 1 - missed);
        (ready, missed)
    }

    /// Writes lines back to the device; returns the time at which the core continues.
    pub(crate) fn flush(
        &mut self,
        shared: &DeviceState,
        counters: &ThreadCounters,
        (mut now, behind): (u64, u64),
        first: u64,
        last: u64,
    ) -> u64 {
        let model = &shared.model;
        let cost = model.write_unit(self.threads(shared, now + behind));
        for line in first..=last {
            counters.written_lines.add(1);
            let unit = line >> model.unit_shift;
            if !shared.writes.as_ref().is_some_and(|buffer| buffer.access(unit)) {
                counters.written_units.add(1);
                self.write_free = now.max(self.write_free) + cost;
                // The core stalls while the write queue is full.
                now = now.max(self.write_free.saturating_sub(64 * cost));
            }
            self.accepted = self.write_free.max(now + model.write);
        }
        now
    }

    /// Returns the latency of reading a unit, which is lower directly after the unit read before.
    #[inline(always)]
    fn latency(&mut self, shared: &DeviceState, unit: u64) -> u64 {
        let next = unit == self.last_unit + 1;
        self.last_unit = unit;
        if next {
            shared.model.next_unit
        } else {
            shared.model.random
        }
    }

    /// Returns the number of threads that share the device, recounted every [`RECOUNT`] requests.
    #[inline(always)]
    fn threads(&mut self, shared: &DeviceState, now: u64) -> usize {
        if self.until_recount == 0 {
            self.until_recount = RECOUNT;
            self.threads = shared.threads(now);
        }
        self.until_recount -= 1;
        self.threads
    }
}
