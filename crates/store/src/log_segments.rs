//! The log segments by how much of each emptying would not gain, for the choice of those to empty.
//!
//! Invariant: contains all log segments except those that were emptied.

use std::collections::BTreeSet;

use crate::layout::SEGMENT;

/// Bytes by which the segments of a bucket differ at most.
const STEP: u64 = 1 << 10;

/// Log segments that can be emptied.
#[derive(Debug)]
pub(crate) struct LogSegments {
    /// Offsets of the segments by occupied bytes: 0 if nothing is needed, else the needed bytes and those at
    /// the end that no record could fill.
    by_occupied: Vec<BTreeSet<u64>>,
    /// The segments with records that expire, by the time when the last one does.
    by_expiry: BTreeSet<(u64, u64)>,
}

impl Default for LogSegments {
    fn default() -> Self {
        Self {
            by_occupied: vec![BTreeSet::new(); bucket(SEGMENT) + 1],
            by_expiry: BTreeSet::new(),
        }
    }
}

/// Returns the bucket of a number of occupied bytes. Only empty segments are in the first one.
fn bucket(occupied: u64) -> usize {
    (occupied.div_ceil(STEP) as usize).min(SEGMENT.div_ceil(STEP) as usize)
}

impl LogSegments {
    /// Returns all these segments: offset, occupied bytes and expiry.
    pub(crate) fn of_all(segments: impl Iterator<Item = (u64, u64, u64)>) -> Self {
        let mut buckets = vec![Vec::new(); bucket(SEGMENT) + 1];
        let mut by_expiry = BTreeSet::new();
        for (offset, occupied, expires) in segments {
            buckets[bucket(occupied)].push(offset);
            if expires > 0 {
                by_expiry.insert((expires, offset));
            }
        }
        // Each set is made at once.
        let by_occupied = buckets.into_iter().map(BTreeSet::from_iter).collect();
        Self {
            by_occupied,
            by_expiry,
        }
    }

    pub(crate) fn insert(&mut self, offset: u64, occupied: u64, expires: u64) {
        self.by_occupied[bucket(occupied)].insert(offset);
        if expires > 0 {
            self.by_expiry.insert((expires, offset));
        }
    }

    pub(crate) fn remove(&mut self, offset: u64, occupied: u64, expires: u64) {
        self.by_occupied[bucket(occupied)].remove(&offset);
        self.by_expiry.remove(&(expires, offset));
    }

    /// Changes the occupied bytes and the expiry of a segment from `old` to `new`.
    pub(crate) fn change(&mut self, offset: u64, old: (u64, u64), new: (u64, u64)) {
        if (bucket(old.0), old.1) != (bucket(new.0), new.1) {
            self.remove(offset, old.0, old.1);
            self.insert(offset, new.0, new.1);
        }
    }

    /// Returns the segments whose records have all expired, other than `current`.
    pub(crate) fn expired(&self, now: u64, current: u64) -> impl Iterator<Item = u64> + '_ {
        let expired = self.by_expiry.range(..=(now, u64::MAX));
        expired
            .map(|(_, offset)| *offset)
            .filter(move |offset| *offset != current)
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
        let expired = |segments: &LogSegments, now, current| segments.expired(now, current).next();
        let mut segments = LogSegments::default();
        segments.insert(64, 5000, 0);
        segments.insert(128, SEGMENT, 0);
        segments.insert(192, 5001, 70);
        assert_eq!(first(&segments, 64), Some(192));
        segments.change(128, (SEGMENT, 0), (1, 0));
        segments.change(64, (5000, 0), (0, 0));
        assert_eq!((first(&segments, 0), first(&segments, 64)), (Some(64), Some(128)));
        assert_eq!(
            (expired(&segments, 69, 0), expired(&segments, 70, 0)),
            (None, Some(192))
        );
        assert_eq!(expired(&segments, 70, 192), None);
        segments.remove(192, 5001, 70);
        segments.remove(128, 1, 0);
        assert_eq!((first(&segments, 64), expired(&segments, 99, 0)), (None, None));
    }
}
