//! Bytes that are read from front to back while the core works on them: what is on its way, and what was fetched ahead.
//!
//! A core reads such bytes line by line, and its stream prefetcher keeps some lines ahead of it, across as many places as
//! are read in turn (the columns of a table). So the device's transfer goes on beside the work: the core is done with a
//! stretch when both are. It waits at once only for the first line of a place where nothing was fetched ahead.

use std::collections::VecDeque;

/// Places that the stream prefetcher follows at once.
const FRONTS: usize = 16;

/// Where reading on is expected.
#[derive(Debug, Default)]
struct Front {
    /// The line behind what was read.
    next: u64,
    /// Lines from there on that have been asked for: up to which line, and when they are there.
    ahead: VecDeque<(u64, u64)>,
}

impl Front {
    /// The first line that was not asked for.
    fn asked(&self) -> u64 {
        self.ahead.back().map_or(self.next, |(end, _)| *end)
    }
}

/// The places that one core reads on at.
#[derive(Debug)]
pub(super) struct Scans {
    fronts: Vec<Front>,
    next_front: usize,
    /// When all that is being read is there.
    pub(super) ready: u64,
}

impl Scans {
    pub(super) fn new() -> Scans {
        Scans {
            fronts: Vec::new(),
            next_front: 0,
            ready: 0,
        }
    }

    /// Reads lines `first..=last`. `fetch` asks the device for lines and says when the last of them is there, or `None` if the
    /// cache has all of them. Returns when the core can begin; when it can be done, at the earliest, is `ready`.
    pub(super) fn read(
        &mut self,
        now: u64,
        (first, last): (u64, u64),
        lines_ahead: u64,
        mut fetch: impl FnMut(u64, u64) -> Option<u64>,
    ) -> u64 {
        let expected = |front: &Front| front.next <= first && first <= front.asked() && lines_ahead > 0;
        let Some(at) = self.fronts.iter().position(expected) else {
            let begin = fetch(first, first);
            let rest = (first < last).then(|| fetch(first + 1, last)).flatten();
            if begin.or(rest).is_some() && lines_ahead > 0 {
                let front = Front {
                    next: last + 1,
                    ahead: VecDeque::new(),
                };
                let at = self.next_front;
                match self.fronts.get_mut(at) {
                    Some(old) => *old = front,
                    None => self.fronts.push(front),
                }
                self.next_front = (at + 1) % FRONTS;
                // As far as it has got by then, being twice as far ahead at each few lines.
                self.fetch_ahead(at, lines_ahead.min(last + 1 - first), fetch);
            }
            let begin = begin.unwrap_or(now);
            self.ready = rest.unwrap_or(begin).max(begin);
            return begin;
        };
        let front = &mut self.fronts[at];
        let (mut ready, mut from, mut begin) = (now, first, front.next);
        while let Some(&(end, there)) = front.ahead.front()
            && begin <= last
        {
            if end > first {
                ready = ready.max(there);
                from = end;
            }
            if end > last + 1 {
                break;
            }
            begin = end;
            front.ahead.pop_front();
        }
        if from <= last {
            ready = ready.max(fetch(from, last).unwrap_or(now));
        }
        front.next = last + 1;
        self.fetch_ahead(at, lines_ahead, fetch);
        self.ready = ready;
        now
    }

    /// Fetches lines `first..=last`, if some before them are ahead of a front or were read last.
    pub(super) fn prefetch(&mut self, first: u64, last: u64, fetch: impl FnMut(u64, u64) -> Option<u64>) {
        let expected = |front: &Front| front.next <= first && first <= front.asked();
        if let Some(at) = self.fronts.iter().position(expected) {
            let lines = last + 1 - self.fronts[at].next;
            self.fetch_ahead(at, lines, fetch);
        }
    }

    /// Keeps so many lines ahead of a front.
    fn fetch_ahead(&mut self, at: usize, lines: u64, mut fetch: impl FnMut(u64, u64) -> Option<u64>) {
        let front = &mut self.fronts[at];
        let (from, end) = (front.asked(), front.next + lines);
        if from < end {
            let there = fetch(from, end - 1).unwrap_or(0);
            front.ahead.push_back((end, there));
        }
    }
}
