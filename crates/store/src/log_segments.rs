//! The log segments by how much of each emptying would not gain, for the choice of those to empty.
//!
//! Invariant: contains all log segments except those that were emptied.

use std::collections::BTreeSet;

use crate::layout::SEGMENT;

/// Bytes by which the segments of a bucket differ at most.
const BUCKET_BYTES: u64 = 1 << 10;

/// Log segments that can be emptied.
#[derive(Debug)]
pub(crate) struct LogSegments {
    /// Offsets of the segments by occupied bytes: 0 if nothing is needed, else the needed bytes that have not
    /// expired and those at the end that no record could fill.
    by_occupied: Vec<BTreeSet<u64>>,
}

impl Default for LogSegments {
    fn default() -> Self {
        Self {
            by_occupied: vec![BTreeSet::new(); bucket(SEGMENT) + 1],
        }
    }
}

/// Returns the bucket of a number of occupied bytes. Only empty segments are in the first one.
fn bucket(occupied: u64) -> usize {
    (occupied.div_ceil(BUCKET_BYTES) as usize).min(SEGMENT.div_ceil(BUCKET_BYTES) as usize)
}

impl LogSegments {
    /// Returns all these segments: offset and occupied bytes.
    pub(crate) fn of_all(segments: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut buckets = vec![Vec::new(); bucket(SEGMENT) + 1];
        for (offset, occupied) in segments {
            buckets[bucket(occupied)].push(offset);
        }
        // Each set is made at once.
        let by_occupied = buckets.into_iter().map(BTreeSet::from_iter).collect();
        Self { by_occupied }
    }

    pub(crate) fn insert(&mut self, offset: u64, occupied: u64) {
        self.by_occupied[bucket(occupied)].insert(offset);
    }

    pub(crate) fn remove(&mut self, offset: u64, occupied: u64) {
        self.by_occupied[bucket(occupied)].remove(&offset);
    }

    /// Changes the occupied bytes of a segment from `old` to `new`.
    pub(crate) fn change(&mut self, offset: u64, old: u64, new: u64) {
        if bucket(old) != bucket(new) {
            self.remove(offset, old);
            self.insert(offset, new);
        }
    }

    /// Returns the segments other than `current`, those with about the least occupied bytes first.
    pub(crate) fn emptiest(&self, current: u64) -> impl Iterator<Item = u64> + '_ {
        let segments = self.by_occupied.iter().flatten().copied();
        segments.filter(move |offset| *offset != current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emptiest_is_found() {
        let first = |segments: &LogSegments, current| segments.emptiest(current).next();
        let mut segments = LogSegments::default();
        segments.insert(64, 5000);
        segments.insert(128, SEGMENT);
        segments.insert(192, 5001);
        assert_eq!(first(&segments, 64), Some(192));
        segments.change(128, SEGMENT, 1);
        segments.change(64, 5000, 0);
        assert_eq!((first(&segments, 0), first(&segments, 64)), (Some(64), Some(128)));
        segments.remove(192, 5001);
        segments.remove(128, 1);
        assert_eq!(first(&segments, 64), None);
    }
}
