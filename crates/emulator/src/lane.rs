//! The model of one thread's core: when each of its accesses starts and completes.
//!
//! # The model
//! - An access starts when the core issues it, a miss slot is free, and the device's bandwidth allows; it
//!   completes after the latency of its kind. The lines of one touch overlap.
//! - **Dependence.** The address of an access, and the work before it, depend on the touch just before: the
//!   access starts when that touch completes, and the work between the two is done after it. In two cases the
//!   address is known without the touch before: the line was touched recently (a parent that is revisited,
//!   the root of the next search), or it directly follows the previous line (the scan of a list).
//! - **Window.** The core continues past a touch that the next access does not depend on, but only by a
//!   window of work (the size of its reorder buffer) after the oldest pending touch. So independent misses a
//!   few nanoseconds apart overlap, and a chain of dependent ones is never shortened. With a window of 0 the
//!   core waits for each touch.
//! - Sequential reads (`scan`) are transferred while the core processes them; see [`SequentialReads`].
//! - A prefetch does not make the core wait, but its address does (the rule of dependence).
//!
//! Time is a number of ticks, `now`, to which the caller adds the work of the core (`advance`).

use crate::counts::ThreadCounters;
use crate::device_requests::{DeviceRequests, Requester};
use crate::scans::SequentialReads;
use crate::shared::DeviceState;
use crate::stream::StreamPrefetcher;

/// Length of the history of touched lines.
const RECENT_LINES: usize = 8;
/// Maximum number of touches that may be pending while the core continues.
const MAX_AWAITED: usize = 8;
/// Touches of this number of lines or more are modelled in total instead of line by line.
pub(crate) const MIN_BULK_LINES: u64 = 16;

/// The state of one modelled core.
#[derive(Debug)]
pub(crate) struct CoreLane {
    /// The key of the owning thread.
    pub(crate) owner: u64,
    /// The core's time, in ticks.
    pub(crate) now: u64,
    /// Ticks of work alone, without stalls.
    pub(crate) work: u64,
    /// Real time at which the model was last left.
    pub(crate) left: u64,
    /// Time at which the model was entered: real time in `entered`, the core's time in `before`.
    pub(crate) entered: u64,
    pub(crate) before: u64,
    /// Lag of the core's time behind real time.
    pub(crate) behind: u64,
    /// Hits since then whose overhead has not been subtracted yet.
    pub(crate) hits: u64,
    /// Overhead that has not been subtracted from the caller's work yet.
    pub(crate) owed: u64,
    /// True if an access may be pending, which rules out the fast path.
    pub(crate) busy: bool,
    /// The line touched last.
    pub(crate) last: u64,
    /// Remaining latency of the previous touch when the core continued, and the work clock at that moment.
    pending: u64,
    pending_work: u64,
    awaited: [(u64, u64); MAX_AWAITED],
    awaited_from: usize,
    awaited_count: usize,
    recent: [u64; RECENT_LINES],
    next_recent: usize,
    pub(crate) streams: StreamPrefetcher,
    scans: SequentialReads,
    requests: DeviceRequests,
}

impl CoreLane {
    pub(crate) fn new(now: u64) -> CoreLane {
        CoreLane {
            owner: u64::MAX,
            now,
            work: 0,
            left: now,
            entered: now,
            before: now,
            behind: 0,
            hits: 0,
            owed: 0,
            busy: false,
            last: u64::MAX,
            pending: 0,
            pending_work: 0,
            awaited: [(0, 0); MAX_AWAITED],
            awaited_from: 0,
            awaited_count: 0,
            recent: [u64::MAX; RECENT_LINES],
            next_recent: 0,
            streams: StreamPrefetcher::new(),
            scans: SequentialReads::new(),
            requests: DeviceRequests::new(),
        }
    }

    /// Returns the time at which everything touched has arrived.
    pub(crate) fn position(&self) -> u64 {
        (self.now + self.pending).max(self.scans.ready)
    }

    /// Adds work of the core.
    #[inline(always)]
    pub(crate) fn advance(&mut self, ticks: u64) {
        self.now += ticks;
        self.work += ticks;
    }

    /// Adds the line to the history of touched lines.
    #[inline(always)]
    pub(crate) fn remember(&mut self, line: u64) {
        self.last = line;
        self.recent[self.next_recent % RECENT_LINES] = line;
        self.next_recent = (self.next_recent + 1) % RECENT_LINES;
    }

    /// Waits for what the access to `line` depends on, following the rules of the module.
    #[inline(always)]
    fn depend(&mut self, line: u64, window: u64) {
        self.now = self.now.max(self.scans.ready);
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
        self.awaited_from = (self.awaited_from + 1) % MAX_AWAITED;
        self.awaited_count -= 1;
    }

    #[inline(always)]
    fn wait_later(&mut self, since: u64, complete: u64) {
        if self.awaited_count == MAX_AWAITED {
            self.now = self.now.max(self.awaited[self.awaited_from].1);
            self.pop_awaited();
        }
        self.awaited[(self.awaited_from + self.awaited_count) % MAX_AWAITED] = (since, complete);
        self.awaited_count += 1;
    }

    /// Touches lines; returns true if the device served one. The caller has already added the core's work up
    /// to here.
    #[inline(always)]
    pub(crate) fn touch(
        &mut self,
        shared: &DeviceState,
        counters: &ThreadCounters,
        first: u64,
        last: u64,
    ) -> bool {
        let model = &shared.model;
        self.depend(first, model.window);
        let (mut ready, mut missed) = (self.now, false);
        if last - first >= MIN_BULK_LINES {
            ready = self.bulk(shared, counters, first, last);
            missed = true;
        } else {
            for line in first..=last {
                let hit = shared.cache.access(line);
                if hit {
                    counters.hits.add(1);
                    ready = ready.max(self.requests.complete_after(line, self.now));
                } else {
                    missed = true;
                    ready = ready.max(self.request(shared, counters, line, Requester::Core));
                }
                if model.ahead > 0 {
                    self.run_ahead(shared, counters, line, !hit);
                }
            }
        }
        self.remember(last);
        self.await_until(ready, model.window);
        missed
    }

    /// Touches independent lines; returns true if the device served one.
    pub(crate) fn touch_each(
        &mut self,
        shared: &DeviceState,
        counters: &ThreadCounters,
        lines: impl Iterator<Item = u64>,
    ) -> bool {
        let mut missed = false;
        let (mut ready, mut before) = (0, None);
        for line in lines {
            if before == Some(line) {
                continue;
            }
            if before.is_none() {
                self.depend(line, shared.model.window);
            }
            before = Some(line);
            if shared.cache.access(line) {
                counters.hits.add(1);
                ready = ready.max(self.requests.complete_after(line, self.now));
            } else {
                missed = true;
                ready = ready.max(self.request(shared, counters, line, Requester::Core));
            }
        }
        if let Some(last) = before {
            self.remember(last);
        }
        self.await_until(ready.max(self.now), shared.model.window);
        missed
    }

    /// Makes the touched lines pending until `ready`.
    #[inline(always)]
    fn await_until(&mut self, ready: u64, window: u64) {
        if window == 0 {
            self.now = ready;
        } else {
            self.pending = ready - self.now;
            self.pending_work = self.work;
        }
        self.busy = self.pending > 0 || self.awaited_count > 0 || self.requests.any(self.now);
    }

    /// Starts a sequential read.
    pub(crate) fn scan(&mut self, shared: &DeviceState, counters: &ThreadCounters, first: u64, last: u64) {
        self.depend(first, shared.model.window);
        let (now, behind) = (self.now, self.behind);
        let requests = &mut self.requests;
        let fetch = |first, last| {
            let (ready, missed) = requests.bulk(shared, counters, (now, behind), first, last);
            (missed > 0).then_some(ready)
        };
        self.now = (self.scans).read(now, (first, last), shared.model.ahead as u64, fetch);
        self.remember(last);
        self.busy = true;
    }

    /// Starts to fetch lines that a sequential read is expected to reach next.
    pub(crate) fn scan_ahead(
        &mut self,
        shared: &DeviceState,
        counters: &ThreadCounters,
        first: u64,
        last: u64,
    ) {
        let (now, behind) = (self.now, self.behind);
        let requests = &mut self.requests;
        self.scans.prefetch(first, last, |first, last| {
            let (ready, missed) = requests.bulk(shared, counters, (now, behind), first, last);
            (missed > 0).then_some(ready)
        });
    }

    /// Starts to fetch a line that missed the cache.
    #[inline(always)]
    pub(crate) fn prefetch(&mut self, shared: &DeviceState, counters: &ThreadCounters, line: u64) {
        self.depend(line, shared.model.window);
        self.request(shared, counters, line, Requester::Core);
        self.busy = true;
    }

    fn run_ahead(&mut self, shared: &DeviceState, counters: &ThreadCounters, line: u64, missed: bool) {
        for ahead in self.streams.touched(line, missed, shared.model.ahead) {
            if !shared.cache.access(ahead) {
                counters.streamed.add(1);
                self.request(shared, counters, ahead, Requester::StreamPrefetcher);
            }
        }
    }

    /// Requests a line from the device; returns the time at which it arrives.
    #[inline(always)]
    fn request(
        &mut self,
        shared: &DeviceState,
        counters: &ThreadCounters,
        line: u64,
        requester: Requester,
    ) -> u64 {
        let (now, behind) = (self.now, self.behind);
        self.requests
            .start(shared, counters, (now, behind), line, requester)
    }

    /// Requests many lines at once. The time that the host itself takes to read them is part of the device's
    /// time.
    fn bulk(&mut self, shared: &DeviceState, counters: &ThreadCounters, first: u64, last: u64) -> u64 {
        let (now, behind) = (self.now, self.behind);
        let (ready, missed) = self.requests.bulk(shared, counters, (now, behind), first, last);
        self.streams.expect(last + 1);
        ready
            .saturating_sub(missed * shared.model.host_line)
            .max(self.now)
    }

    /// Writes lines back to the device.
    pub(crate) fn flush(&mut self, shared: &DeviceState, counters: &ThreadCounters, first: u64, last: u64) {
        let (now, behind) = (self.now, self.behind);
        self.now = self.requests.flush(shared, counters, (now, behind), first, last);
    }

    /// Waits until the device has accepted the flushed lines.
    pub(crate) fn fence(&mut self, counters: &ThreadCounters) {
        counters.fences.add(1);
        self.now = self.now.max(self.requests.accepted());
    }

    /// Waits until everything touched has arrived.
    pub(crate) fn settle(&mut self) {
        self.now = self.position();
        self.pending = 0;
        while self.awaited_count > 0 {
            self.now = self.now.max(self.awaited[self.awaited_from].1);
            self.pop_awaited();
        }
    }
}
