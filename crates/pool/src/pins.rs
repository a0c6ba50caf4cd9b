//! The generations that are being read, as seen by a writer.

use std::ops::Range;

use crate::PoolError;
use crate::access::Access;
use crate::fault::{PoolFault, injected};

/// The pinned generations before the newest, as disjoint ranges in ascending order. No older generation can
/// become pinned later, because only the newest one is ever pinned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PinnedRanges(Vec<Range<u64>>);

impl PinnedRanges {
    /// Returns the generations before `newest` that are pinned by this or other handles.
    ///
    /// # Errors
    /// [`PoolError::Io`] if the file system does not support locks.
    pub(crate) fn before(access: &Access, newest: u64) -> Result<PinnedRanges, PoolError> {
        if injected(PoolFault::IgnoreReaders) {
            return Ok(PinnedRanges::default());
        }
        access.pinned_before(newest).map(PinnedRanges::from_ranges)
    }

    /// Merges ranges of any order that may overlap.
    pub(crate) fn from_ranges(mut ranges: Vec<Range<u64>>) -> PinnedRanges {
        ranges.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        PinnedRanges(joined)
    }

    /// Returns true if a generation of the range is pinned.
    pub(crate) fn meet(&self, generations: &Range<u64>) -> bool {
        let at = self.0.partition_point(|pin| pin.end <= generations.start);
        self.0.get(at).is_some_and(|pin| pin.start < generations.end)
    }

    /// Returns the oldest pinned generation.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.0.first().map(|range| range.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_meet_what_they_share() {
        let pins = PinnedRanges::from_ranges(vec![7..9, 3..4, 4..5, 8..10, 20..20]);
        assert_eq!(pins, PinnedRanges(vec![3..5, 7..10]));
        assert_eq!(pins.oldest(), Some(3));
        let met = |start, end| pins.meet(&(start..end));
        assert!(
            !met(0, 3) && met(0, 4) && met(4, 5) && !met(5, 7) && met(5, 8) && met(9, 12) && !met(10, 30)
        );
        assert!(!PinnedRanges::default().meet(&(0..u64::MAX)));
    }
}
