//! Marks of writes in progress. Keys share marks; a shared mark causes a needless bypass of the cache.
//!
//! A mark is one word: the number of writes in progress in the lower half, and the number of writes that have
//! begun, modulo 2^32, in the upper one. A reader would have to be suspended for exactly a multiple of 2^32
//! writes to take one state for another.

use crate::hash_index::scale;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

/// Number of marks: few enough to stay in a core's caches.
const MARKS: usize = if cfg!(test) { 4 } else { 2048 };
/// Increment of the number of writes that have begun.
const BEGUN: u64 = 1 << 32;
const IN_PROGRESS: u64 = BEGUN - 1;

/// A state of a key's mark in which no write was in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuietMark(u64);

#[derive(Debug)]
pub(crate) struct WriteMarks(Box<[AtomicU64]>);

impl WriteMarks {
    pub(crate) fn new() -> Self {
        Self((0..MARKS).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    fn mark(&self, hash: u64) -> &AtomicU64 {
        // The upper bits select the shard: other bits keep the keys of one shard apart.
        &self.0[scale(hash.rotate_left(32), self.0.len())]
    }

    /// Returns the state of the key's mark, or `None` while a write is in progress.
    #[inline]
    pub(crate) fn quiet(&self, hash: u64) -> Option<QuietMark> {
        let mark = self.mark(hash).load(Acquire);
        (mark & IN_PROGRESS == 0).then_some(QuietMark(mark))
    }

    /// Returns true if no write has begun since.
    #[inline]
    pub(crate) fn is_still(&self, hash: u64, quiet: QuietMark) -> bool {
        self.mark(hash).load(SeqCst) == quiet.0
    }

    /// Begins a write. Returns the mark's state if no other write is in progress.
    #[inline]
    pub(crate) fn begin(&self, hash: u64) -> Option<QuietMark> {
        let before = self.mark(hash).fetch_add(BEGUN + 1, SeqCst);
        (before & IN_PROGRESS == 0).then_some(QuietMark(before))
    }

    /// Returns true if this write, which found the mark quiet, is the only one since.
    #[inline]
    pub(crate) fn is_only(&self, hash: u64, quiet: QuietMark) -> bool {
        self.mark(hash).load(SeqCst) == quiet.0.wrapping_add(BEGUN + 1)
    }

    /// Ends a write.
    #[inline]
    pub(crate) fn end(&self, hash: u64) {
        self.mark(hash).fetch_sub(1, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_seen_while_they_last_and_after() {
        let marks = WriteMarks::new();
        let quiet = marks.quiet(5).unwrap();
        assert!(marks.is_still(5, quiet));
        let first = marks.begin(5).unwrap();
        assert!(marks.is_only(5, first) && marks.quiet(5).is_none() && !marks.is_still(5, quiet));
        assert!(marks.begin(5).is_none());
        assert!(!marks.is_only(5, first));
        marks.end(5);
        assert!(!marks.is_only(5, first) && marks.quiet(5).is_none());
        marks.end(5);
        assert!(marks.quiet(5).is_some() && !marks.is_still(5, quiet));
    }
}
