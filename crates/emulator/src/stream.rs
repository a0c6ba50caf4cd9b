//! The hardware's stream prefetcher: which lines to fetch ahead when lines are touched in ascending order.

/// Lines of which the next one would start a stream.
const CANDIDATES: usize = 16;
/// Streams followed at once.
const STREAMS: usize = 4;
/// Lines a new stream runs ahead.
const FIRST_AHEAD: u64 = 4;

/// A line that missed makes the next one a candidate; when that misses, too, a stream begins. A stream is remembered by
/// the line at which it has to run ahead again; when that one is skipped, the stream ends. It runs a few lines ahead at
/// first and twice as far each time, up to the most it may, and does not stop at pages.
#[derive(Debug)]
pub(crate) struct Streams {
    candidates: [u64; CANDIDATES],
    next_candidate: usize,
    /// The line that makes a stream run on.
    triggers: [u64; STREAMS],
    /// The first line it has not asked for.
    ends: [u64; STREAMS],
    /// Lines it runs ahead.
    aheads: [u64; STREAMS],
    next_stream: usize,
}

impl Streams {
    pub(crate) fn new() -> Streams {
        Streams {
            candidates: [u64::MAX; CANDIDATES],
            next_candidate: 0,
            triggers: [u64::MAX; STREAMS],
            ends: [0; STREAMS],
            aheads: [0; STREAMS],
            next_stream: 0,
        }
    }

    /// The lines to fetch now that `line` is touched; `missed` says that it was not in the cache.
    #[inline(always)]
    pub(crate) fn touched(&mut self, line: u64, missed: bool, ahead: usize) -> std::ops::Range<u64> {
        let ahead = ahead as u64;
        if let Some(stream) = self.triggers.iter().position(|trigger| *trigger == line) {
            let from = self.ends[stream].max(line + 1);
            self.aheads[stream] = (2 * self.aheads[stream]).min(ahead);
            return from..self.run(stream, line);
        }
        if !missed {
            return 0..0;
        }
        if let Some(found) = self.candidates.iter().position(|next| *next == line) {
            self.candidates[found] = u64::MAX;
            let stream = self.next_stream;
            self.next_stream = (stream + 1) % STREAMS;
            self.aheads[stream] = FIRST_AHEAD.min(ahead);
            return line + 1..self.run(stream, line);
        }
        self.expect(line + 1);
        0..0
    }

    /// Makes `line` a candidate.
    #[inline(always)]
    pub(crate) fn expect(&mut self, line: u64) {
        self.candidates[self.next_candidate % CANDIDATES] = line;
        self.next_candidate = (self.next_candidate + 1) % CANDIDATES;
    }

    /// Sets the line at which the stream runs on after `line`; returns the end of what it asks for now.
    #[inline(always)]
    fn run(&mut self, stream: usize, line: u64) -> u64 {
        let ahead = self.aheads[stream];
        // A few lines at a time, always more than half of the way ahead.
        self.triggers[stream] = line + (ahead / 4).max(1);
        self.ends[stream] = line + 1 + ahead;
        self.ends[stream]
    }
}
