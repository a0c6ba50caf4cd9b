//! One thread's core as the model sees it: when each of its accesses starts and when it is complete.
//!
//! # The model
//! - An access starts when the core asks for it, one of the core's misses is free, and the device's bandwidth allows; it
//!   is complete after the latency of its kind. The lines of one touch overlap each other.
//! - **Dependence.** The address of an access, and the work before it, come from the touch just before: the access starts
//!   when that one is complete, and the work between the two is done after it. There are two exceptions, in which the address
//!   is known without the touch before: a line that was one of the last few touched (the parent that is returned to,
//!   the root of the next search), and the line directly behind the one before (the scan of a list).
//! - **Window.** Past a touch that is independent of what is still awaited the core goes on, but no further than a window of work
//!   (what fits its reorder buffer) behind the oldest touch that is awaited. So independent misses a few
//!   nanoseconds apart overlap, and no chain of dependent ones is ever shortened. With a window of 0 the core waits for
//!   each touch.
//! - A prefetch does not make the core wait, but its address does (the rule of dependence).
//!
//! Time is a number of ticks, `now`, to which the work of the core is added from outside (`worked`).

use super::counts::Tallies;
use super::device::Shared;
use super::flights::Flights;
use super::model::{MOST_AHEAD, MOST_MISSES};
use super::stream::Streams;

/// Lines touched last.
const RECENT: usize = 8;
/// Touches that are awaited while the core goes on.
const AWAITED: usize = 8;
/// Touches of more lines are only added up.
pub(super) const BULK: u64 = 16;

/// The state of one core.
#[derive(Debug)]
pub(super) struct Lane {
    /// The key of the thread it belongs to.
    pub(super) owner: u64,
    /// The core's time.
    pub(super) now: u64,
    /// Work alone, without what was waited for.
    pub(super) work: u64,
    /// When real time was last looked at.
    pub(super) left: u64,
    /// When the model was entered, in real time and in the core's.
    pub(super) entered: u64,
    pub(super) before: u64,
    /// How far the core's time is behind real time.
    pub(super) behind: u64,
    /// Hits since then whose own cost is not taken off yet.
    pub(super) hits: u64,
    /// Whether anything may be incomplete: then no short way is taken.
    pub(super) busy: bool,
    /// The line touched last.
    pub(super) last: u64,
    /// What the touch before is still short of at the time the core left it, and the work clock then.
    pending: u64,
    pending_work: u64,
    awaited: [(u64, u64); AWAITED],
    awaited_from: usize,
    awaited_count: usize,
    recent: [u64; RECENT],
    next_recent: usize,
    pub(super) streams: Streams,
    lines: Flights,
    units: Flights,
    /// When each miss of the core is free again, then those of the stream prefetcher.
    slots: [u64; MOST_MISSES + MOST_AHEAD],
    next_slot: usize,
    next_stream_slot: usize,
    last_unit: u64,
    read_free: u64,
    write_free: u64,
    accepted: u64,
    threads: usize,
    until_recount: u32,
}

impl Lane {
    pub(super) fn new(now: u64) -> Lane {
        Lane {
            owner: u64::MAX,
            now,
            work: 0,
            left: now,
            entered: now,
            before: now,
            behind: 0,
            hits: 0,
            busy: false,
            last: u64::MAX,
            pending: 0,
            pending_work: 0,
            awaited: [(0, 0); AWAITED],
            awaited_from: 0,
            awaited_count: 0,
            recent: [u64::MAX; RECENT],
            next_recent: 0,
            streams: Streams::new(),
            lines: Flights::new(),
            units: Flights::new(),
            slots: [0; MOST_MISSES + MOST_AHEAD],
            next_slot: 0,
            next_stream_slot: 0,
            last_unit: u64::MAX - 1,
            read_free: 0,
            write_free: 0,
            accepted: 0,
            threads: 1,
            until_recount: 0,
        }
    }

    /// The time at which all that was touched is there.
    pub(super) fn position(&self) -> u64 {
        self.now + self.pending
    }

    /// The core has worked.
    #[inline(always)]
    pub(super) fn worked(&mut self, ticks: u64) {
        self.now += ticks;
        self.work += ticks;
    }

    /// Remembers that the line was touched.
    #[inline(always)]
    pub(super) fn remember(&mut self, line: u64) {
        self.last = line;
        self.recent[self.next_recent % RECENT] = line;
        self.next_recent = (self.next_recent + 1) % RECENT;
    }

    /// Waits for what the access to `line` needs: see the module's rules.
    #[inline(always)]
    fn depend(&mut self, line: u64, window: u64) {
        if self.pending > 0 {
            let known = line == self.last.wrapping_add(1)
                || line != self.last
                    && self
                        .recent
                        .iter()
                        .fold(false, |any, recent| any | (*recent == line));
            if known {
                let complete = self.now - (self.work - self.pending_work) + self.pending;
                self.wait_later(self.pending_work, complete);
            } else {
                self.now += self.pending;
            }
            self.pending = 0;
        }
        while self.awaited_count > 0 {
            let (since, complete) = self.awaited[self.awaited_from];
            let past = (self.work - since).saturating_sub(window);
            if past == 0 && complete > self.now {
                break;
            }
            self.now = self.now.max(complete + past);
            self.pop_awaited();
        }
    }

    fn pop_awaited(&mut self) {
        self.awaited_from = (self.awaited_from + 1) % AWAITED;
        self.awaited_count -= 1;
    }

    #[inline(always)]
    fn wait_later(&mut self, since: u64, complete: u64) {
        if self.awaited_count == AWAITED {
            self.now = self.now.max(self.awaited[self.awaited_from].1);
            self.pop_awaited();
        }
        self.awaited[(self.awaited_from + self.awaited_count) % AWAITED] = (since, complete);
        self.awaited_count += 1;
    }

    /// Touches lines; returns whether the device had to serve one. The core's work up to here is already added.
    #[inline(always)]
    pub(super) fn touch(&mut self, shared: &Shared, tallies: &Tallies, first: u64, last: u64) -> bool {
        let model = &shared.model;
        self.depend(first, model.window);
        let (mut ready, mut missed) = (self.now, false);
        if last - first >= BULK {
            ready = self.bulk(shared, tallies, first, last);
            missed = true;
        } else {
            for line in first..=last {
                let hit = shared.cache.access(line);
                if hit {
                    tallies.hits.add(1);
                    if self.lines.any(self.now) {
                        ready = ready.max(self.lines.complete(line));
                    }
                } else {
                    missed = true;
                    ready = ready.max(self.start(shared, tallies, line, false));
                }
                if model.ahead > 0 {
                    self.run_ahead(shared, tallies, line, !hit);
                }
            }
        }
        self.remember(last);
        if model.window == 0 {
            self.now = ready;
        } else {
            self.pending = ready - self.now;
            self.pending_work = self.work;
        }
        self.busy = self.pending > 0 || self.awaited_count > 0 || self.lines.any(self.now);
        missed
    }

    /// Starts the access to a line, if the cache has not got it.
    #[inline(always)]
    pub(super) fn prefetch(&mut self, shared: &Shared, tallies: &Tallies, line: u64) {
        self.depend(line, shared.model.window);
        self.start(shared, tallies, line, false);
        self.busy = true;
    }

    fn run_ahead(&mut self, shared: &Shared, tallies: &Tallies, line: u64, missed: bool) {
        for ahead in self.streams.touched(line, missed, shared.model.ahead) {
            if !shared.cache.access(ahead) {
                tallies.streamed.add(1);
                self.start(shared, tallies, ahead, true);
            }
        }
    }

    /// Starts an access that the device serves; returns when it is complete.
    #[inline(always)]
    fn start(&mut self, shared: &Shared, tallies: &Tallies, line: u64, stream: bool) -> u64 {
        let model = &shared.model;
        tallies.lines.add(1);
        let slot = if stream {
            self.next_stream_slot += 1;
            if self.next_stream_slot == model.ahead {
                self.next_stream_slot = 0;
            }
            MOST_MISSES + self.next_stream_slot
        } else {
            self.next_slot += 1;
            if self.next_slot == model.misses {
                self.next_slot = 0;
            }
            self.next_slot
        };
        let start = self.now.max(self.slots[slot]);
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
            self.read_free = start + model.read_unit(self.threads(shared));
            let latency = if unit == self.last_unit + 1 {
                model.next_unit
            } else {
                model.random
            };
            self.last_unit = unit;
            let complete = start + latency;
            if model.unit_shift > 0 {
                self.units
                    .start(unit, self.now, complete.saturating_sub(model.buffered));
            }
            complete
        };
        self.slots[slot] = complete;
        self.lines.start(line, self.now, complete);
        complete
    }

    /// Threads that share the device, counted now and then.
    #[inline(always)]
    fn threads(&mut self, shared: &Shared) -> usize {
        if self.until_recount == 0 {
            self.until_recount = 64;
            self.threads = shared.threads(self.now + self.behind);
        }
        self.until_recount -= 1;
        self.threads
    }

    /// Many lines at once: exact counts, and the time of their units, without a record of each line. What reading them
    /// takes on the host itself is not added to what the device takes.
    fn bulk(&mut self, shared: &Shared, tallies: &Tallies, first: u64, last: u64) -> u64 {
        let model = &shared.model;
        let (mut ready, mut missed, mut unit_before) = (self.now, 0, u64::MAX);
        let cost = model.read_unit(self.threads(shared));
        let mut units = 0;
        shared.cache.access_each(first, last, |line| {
            missed += 1;
            let unit = line >> model.unit_shift;
            if unit == unit_before {
                return;
            }
            unit_before = unit;
            if shared.reads.as_ref().is_some_and(|buffer| buffer.access(unit)) {
                ready = ready.max(self.now + model.buffered);
                return;
            }
            units += 1;
            let start = self.now.max(self.read_free);
            self.read_free = start + cost;
            let latency = if unit == self.last_unit + 1 {
                model.next_unit
            } else {
                model.random
            };
            self.last_unit = unit;
            ready = ready.max(start + latency);
        });
        tallies.units.add(units);
        tallies.lines.add(missed);
        tallies.hits.add(last - first + 1 - missed);
        self.streams.expect(last + 1);
        ready.saturating_sub(missed * model.host_line).max(self.now)
    }

    /// Lines on their way to the device.
    pub(super) fn flush(&mut self, shared: &Shared, tallies: &Tallies, first: u64, last: u64) {
        let model = &shared.model;
        let cost = model.write_unit(self.threads(shared));
        for line in first..=last {
            tallies.written_lines.add(1);
            let unit = line >> model.unit_shift;
            if !shared.writes.as_ref().is_some_and(|buffer| buffer.access(unit)) {
                tallies.written_units.add(1);
                self.write_free = self.now.max(self.write_free) + cost;
                // A full queue makes the core wait.
                self.now = self.now.max(self.write_free.saturating_sub(64 * cost));
            }
            self.accepted = self.write_free.max(self.now + model.write);
        }
    }

    /// Waits until what was flushed is accepted.
    pub(super) fn fence(&mut self, tallies: &Tallies) {
        tallies.fences.add(1);
        self.now = self.now.max(self.accepted);
    }

    /// Waits for everything that was touched.
    pub(super) fn settle(&mut self) {
        self.now += self.pending;
        self.pending = 0;
        while self.awaited_count > 0 {
            self.now = self.now.max(self.awaited[self.awaited_from].1);
            self.pop_awaited();
        }
    }
}
