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
//! - What is read from front to back (`scan`) comes while the core works on it: see [`Scans`].
//! - A prefetch does not make the core wait, but its address does (the rule of dependence).
//!
//! Time is a number of ticks, `now`, to which the work of the core is added from outside (`worked`).

use crate::counts::Tallies;
use crate::lanes::Shared;
use crate::requests::{Asked, Requests};
use crate::scans::Scans;
use crate::stream::Streams;

/// Lines touched last.
const RECENT: usize = 8;
/// Touches that are awaited while the core goes on.
const AWAITED: usize = 8;
/// Touches of more lines are only added up.
pub(crate) const BULK: u64 = 16;

/// The state of one core.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The key of the thread it belongs to.
    pub(crate) owner: u64,
    /// The core's time.
    pub(crate) now: u64,
    /// Work alone, without what was waited for.
    pub(crate) work: u64,
    /// When real time was last looked at.
    pub(crate) left: u64,
    /// When the model was entered, in real time and in the core's.
    pub(crate) entered: u64,
    pub(crate) before: u64,
    /// How far the core's time is behind real time.
    pub(crate) behind: u64,
    /// Hits since then whose own cost is not taken off yet.
    pub(crate) hits: u64,
    /// What the model took from its caller and has not taken off the work yet.
    pub(crate) owed: u64,
    /// Whether anything may be incomplete: then no short way is taken.
    pub(crate) busy: bool,
    /// The line touched last.
    pub(crate) last: u64,
    /// What the touch before is still short of at the time the core left it, and the work clock then.
    pending: u64,
    pending_work: u64,
    awaited: [(u64, u64); AWAITED],
    awaited_from: usize,
    awaited_count: usize,
    recent: [u64; RECENT],
    next_recent: usize,
    pub(crate) streams: Streams,
    scans: Scans,
    requests: Requests,
}

impl Lane {
    pub(crate) fn new(now: u64) -> Lane {
        Lane {
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
            awaited: [(0, 0); AWAITED],
            awaited_from: 0,
            awaited_count: 0,
            recent: [u64::MAX; RECENT],
            next_recent: 0,
            streams: Streams::new(),
            scans: Scans::new(),
            requests: Requests::new(),
        }
    }

    /// The time at which all that was touched is there.
    pub(crate) fn position(&self) -> u64 {
        (self.now + self.pending).max(self.scans.ready)
    }

    /// The core has worked.
    #[inline(always)]
    pub(crate) fn worked(&mut self, ticks: u64) {
        self.now += ticks;
        self.work += ticks;
    }

    /// Remembers that the line was touched.
    #[inline(always)]
    pub(crate) fn remember(&mut self, line: u64) {
        self.last = line;
        self.recent[self.next_recent % RECENT] = line;
        self.next_recent = (self.next_recent + 1) % RECENT;
    }

    /// Waits for what the access to `line` needs: see the module's rules.
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
    pub(crate) fn touch(&mut self, shared: &Shared, tallies: &Tallies, first: u64, last: u64) -> bool {
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
                    ready = ready.max(self.requests.complete_after(line, self.now));
                } else {
                    missed = true;
                    ready = ready.max(self.request(shared, tallies, line, Asked::ByCore));
                }
                if model.ahead > 0 {
                    self.run_ahead(shared, tallies, line, !hit);
                }
            }
        }
        self.remember(last);
        self.await_until(ready, model.window);
        missed
    }

    /// Touches lines whose addresses are all known; returns whether the device had to serve one.
    pub(crate) fn touch_each(
        &mut self,
        shared: &Shared,
        tallies: &Tallies,
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
                tallies.hits.add(1);
                ready = ready.max(self.requests.complete_after(line, self.now));
            } else {
                missed = true;
                ready = ready.max(self.request(shared, tallies, line, Asked::ByCore));
            }
        }
        if let Some(last) = before {
            self.remember(last);
        }
        self.await_until(ready.max(self.now), shared.model.window);
        missed
    }

    /// What was touched is there at `ready`.
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

    /// Begins to read lines from front to back.
    pub(crate) fn scan(&mut self, shared: &Shared, tallies: &Tallies, first: u64, last: u64) {
        self.depend(first, shared.model.window);
        let (now, behind) = (self.now, self.behind);
        let requests = &mut self.requests;
        let fetch = |first, last| {
            let (ready, missed) = requests.bulk(shared, tallies, (now, behind), first, last);
            (missed > 0).then_some(ready)
        };
        self.now = (self.scans).read(now, (first, last), shared.model.ahead as u64, fetch);
        self.remember(last);
        self.busy = true;
    }

    /// Starts to fetch lines that a scan is to read next.
    pub(crate) fn scan_ahead(&mut self, shared: &Shared, tallies: &Tallies, first: u64, last: u64) {
        let (now, behind) = (self.now, self.behind);
        let requests = &mut self.requests;
        self.scans.prefetch(first, last, |first, last| {
            let (ready, missed) = requests.bulk(shared, tallies, (now, behind), first, last);
            (missed > 0).then_some(ready)
        });
    }

    /// Starts the access to a line, if the cache has not got it.
    #[inline(always)]
    pub(crate) fn prefetch(&mut self, shared: &Shared, tallies: &Tallies, line: u64) {
        self.depend(line, shared.model.window);
        self.request(shared, tallies, line, Asked::ByCore);
        self.busy = true;
    }

    fn run_ahead(&mut self, shared: &Shared, tallies: &Tallies, line: u64, missed: bool) {
        for ahead in self.streams.touched(line, missed, shared.model.ahead) {
            if !shared.cache.access(ahead) {
                tallies.streamed.add(1);
                self.request(shared, tallies, ahead, Asked::Ahead);
            }
        }
    }

    /// Starts an access that the device serves; returns when it is complete.
    #[inline(always)]
    fn request(&mut self, shared: &Shared, tallies: &Tallies, line: u64, asked: Asked) -> u64 {
        let (now, behind) = (self.now, self.behind);
        self.requests.start(shared, tallies, (now, behind), line, asked)
    }

    /// Many lines at once. What reading them takes on the host itself is not added to what the device takes.
    fn bulk(&mut self, shared: &Shared, tallies: &Tallies, first: u64, last: u64) -> u64 {
        let (now, behind) = (self.now, self.behind);
        let (ready, missed) = self.requests.bulk(shared, tallies, (now, behind), first, last);
        self.streams.expect(last + 1);
        ready
            .saturating_sub(missed * shared.model.host_line)
            .max(self.now)
    }

    /// Lines on their way to the device.
    pub(crate) fn flush(&mut self, shared: &Shared, tallies: &Tallies, first: u64, last: u64) {
        let (now, behind) = (self.now, self.behind);
        self.now = self.requests.flush(shared, tallies, (now, behind), first, last);
    }

    /// Waits until what was flushed is accepted.
    pub(crate) fn fence(&mut self, tallies: &Tallies) {
        tallies.fences.add(1);
        self.now = self.now.max(self.requests.accepted());
    }

    /// Waits for everything that was touched.
    pub(crate) fn settle(&mut self) {
        self.now = self.position();
        self.pending = 0;
        while self.awaited_count > 0 {
            self.now = self.now.max(self.awaited[self.awaited_from].1);
            self.pop_awaited();
        }
    }
}
