//! The hardware's stream prefetcher: which lines to fetch ahead when lines are touched in ascending order.

/// Candidate lines, each of which would start a stream.
const CANDIDATES: usize = 16;
/// Streams that are followed at once.
const STREAMS: usize = 4;
/// Lines that a new stream runs ahead.
const FIRST_AHEAD: u64 = 4;

/// A model of a stream prefetcher. A miss makes the next line a candidate; a miss of a candidate starts a
/// stream. A stream is identified by the line that triggers its next fetch, and ends if that line is skipped.
/// Its distance starts small and doubles with each fetch up to the maximum; it does not stop at page
/// boundaries.
#[derive(Debug)]
pub(crate) struct StreamPrefetcher {
    candidates: [u64; CANDIDATES],
    next_candidate: usize,
    /// Lines that trigger the next fetch of each stream.
    triggers: [u64; STREAMS],
    /// First line of each stream that has not been requested.
    ends: [u64; STREAMS],
    /// Distance of each stream, in lines.
    aheads: [u64; STREAMS],
    next_stream: usize,
}

impl StreamPrefetcher {
    pub(crate) fn new() -> StreamPrefetcher {
        StreamPrefetcher {
            candidates: [u64::MAX; CANDIDATES],
            next_candidate: 0,
            triggers: [u64::MAX; STREAMS],
            ends: [0; STREAMS],
            aheads: [0; STREAMS],
            next_stream: 0,
        }
    }

    /// Returns the lines to fetch after a touch of `line`, where `missed` is true if the cache did not hold
    /// it.
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

    /// Sets the next trigger of a stream after a touch of `line`; returns the new end of its requested lines.
    #[inline(always)]
    fn run(&mut self, stream: usize, line: u64) -> u64 {
        let ahead = self.aheads[stream];
        // Fetch a few lines at a time, so that the stream stays more than half of its distance ahead.
        self.triggers[stream] = line + (ahead / 4).max(1);
        self.ends[stream] = line + 1 + ahead;
        self.ends[stream]
    }
}
