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

    /// Keeps so many lines on their way.
    fn fetch_ahead(&mut self, lines: u64, mut fetch: impl FnMut(u64, u64) -> Option<u64>) {
        let (from, end) = (self.asked(), self.next + lines);
        if from < end {
            let there = fetch(from, end - 1).unwrap_or(0);
            self.ahead.push_back((end, there));
        }
    }
}

/// The places that one core reads on at.
#[derive(Debug)]
pub(crate) struct Scans {
    /// Those read last come last.
    fronts: Vec<Front>,
    /// When all that is being read is there.
    pub(crate) ready: u64,
}

impl Scans {
    pub(crate) fn new() -> Scans {
        Scans {
            fronts: Vec::new(),
            ready: 0,
        }
    }

    /// Reads lines `first..=last`. `fetch` asks the device for lines and says when the last of them is there, or `None` if the
    /// cache has all of them. Returns when the core can begin; when it can be done, at the earliest, is `ready`.
    pub(crate) fn read(
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
                let mut front = match self.fronts.len() < FRONTS {
                    true => Front::default(),
                    false => self.fronts.remove(0),
                };
                front.next = last + 1;
                front.ahead.clear();
                // As far as it has got by then, being twice as far ahead at each few lines.
                front.fetch_ahead(lines_ahead.min(last + 1 - first), fetch);
                self.fronts.push(front);
            }
            let begin = begin.unwrap_or(now);
            self.ready = rest.unwrap_or(begin).max(begin);
            return begin;
        };
        self.fronts[at..].rotate_left(1);
        let at = self.fronts.len() - 1;
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
        front.fetch_ahead(lines_ahead, fetch);
        self.ready = ready;
        now
    }

    /// Fetches lines `first..=last`, if some before them are ahead of a front or were read last.
    pub(crate) fn prefetch(&mut self, first: u64, last: u64, fetch: impl FnMut(u64, u64) -> Option<u64>) {
        let expected = |front: &Front| front.next <= first && first <= front.asked();
        if let Some(at) = self.fronts.iter().position(expected) {
            let front = &mut self.fronts[at];
            front.fetch_ahead(last + 1 - front.next, fetch);
        }
    }
}
