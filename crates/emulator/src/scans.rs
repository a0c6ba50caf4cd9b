//! Sequential reads that overlap with the processing of the bytes.
//!
//! A core reads such bytes line by line, and its stream prefetcher keeps some lines ahead of it, at as many
//! positions as are read in turn (the columns of a table). The device's transfer overlaps with the
//! processing: the core has finished a range when both have. It waits immediately only for the first line of
//! a range of which nothing was fetched ahead.

use std::collections::VecDeque;

/// Read positions that the stream prefetcher follows at once.
const FRONTS: usize = 16;

/// A position at which a sequential read is expected to continue.
#[derive(Debug, Default)]
struct ReadFront {
    /// The line after the last one read.
    next: u64,
    /// Requested lines from `next` on, as pairs of end line (exclusive) and arrival time.
    ahead: VecDeque<(u64, u64)>,
}

impl ReadFront {
    /// Returns the first line that has not been requested.
    fn asked(&self) -> u64 {
        self.ahead.back().map_or(self.next, |(end, _)| *end)
    }

    /// Requests lines until `lines` of them are in flight or have arrived.
    fn fetch_ahead(&mut self, lines: u64, mut fetch: impl FnMut(u64, u64) -> Option<u64>) {
        let (from, end) = (self.asked(), self.next + lines);
        if from < end {
            let there = fetch(from, end - 1).unwrap_or(0);
            self.ahead.push_back((end, there));
        }
    }
}

/// The read positions of one core.
#[derive(Debug)]
pub(crate) struct SequentialReads {
    /// Positions in order of use, most recent last.
    fronts: Vec<ReadFront>,
    /// Time at which everything being read has arrived.
    pub(crate) ready: u64,
}

impl SequentialReads {
    pub(crate) fn new() -> SequentialReads {
        SequentialReads {
            fronts: Vec::new(),
            ready: 0,
        }
    }

    /// Reads lines `first..=last`. `fetch` requests lines from the device and returns the arrival time of the
    /// last one, or `None` if the cache has all of them. Returns the time at which the core can begin;
    /// `ready` is then the earliest time at which it can finish.
    pub(crate) fn read(
        &mut self,
        now: u64,
        (first, last): (u64, u64),
        lines_ahead: u64,
        mut fetch: impl FnMut(u64, u64) -> Option<u64>,
    ) -> u64 {
        let expected = |front: &ReadFront| front.next <= first && first <= front.asked() && lines_ahead > 0;
        let Some(at) = self.fronts.iter().position(expected) else {
            let begin = fetch(first, first);
            let rest = (first < last).then(|| fetch(first + 1, last)).flatten();
            if begin.or(rest).is_some() && lines_ahead > 0 {
                let mut front = if self.fronts.len() < FRONTS {
                    ReadFront::default()
                } else {
                    self.fronts.remove(0)
                };
                front.next = last + 1;
                front.ahead.clear();
                // The prefetcher ramps up within the range, so it is at most the range's length ahead by now.
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

    /// Fetches up to line `last` if `first` lies at a read position or within its prefetched range.
    pub(crate) fn prefetch(&mut self, first: u64, last: u64, fetch: impl FnMut(u64, u64) -> Option<u64>) {
        let expected = |front: &ReadFront| front.next <= first && first <= front.asked();
        if let Some(at) = self.fronts.iter().position(expected) {
            let front = &mut self.fronts[at];
            front.fetch_ahead(last + 1 - front.next, fetch);
        }
    }
}
