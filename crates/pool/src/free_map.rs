//! A set of ranges of space: [`FreeMap`].

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges that do not touch, mapping start to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct FreeMap {
    ranges: BTreeMap<u64, u64>,
}

impl FreeMap {
    /// Returns the set of these ranges, which are disjoint.
    pub(crate) fn from_ranges(ranges: impl IntoIterator<Item = Range<u64>>) -> FreeMap {
        let mut map = FreeMap::default();
        ranges.into_iter().for_each(|range| map.add(range));
        map
    }

    /// Adds a range that is not in the map and merges it with its neighbours.
    pub(crate) fn add(&mut self, range: Range<u64>) {
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&before, &before_end)) = self.ranges.range(..start).next_back()
            && before_end >= start
        {
            debug_assert!(before_end == start, "{range:?} is free already");
            self.ranges.remove(&before);
            start = before;
        }
        if let Some(after_end) = self.ranges.remove(&end) {
            end = after_end;
        }
        self.ranges.insert(start, end);
    }

    /// Removes the parts of a range that are in the map.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        while let Some((&start, &end)) = self.ranges.range(..range.end).next_back()
            && end > range.start
        {
            self.ranges.remove(&start);
            if end > range.end {
                self.ranges.insert(range.end, end);
            }
            if start < range.start {
                self.ranges.insert(start, range.start);
            }
        }
    }

    pub(crate) fn overlaps(&self, range: &Range<u64>) -> bool {
        let before_end = self.ranges.range(..range.end).next_back();
        before_end.is_some_and(|(_, end)| *end > range.start)
    }

    /// Returns the parts of a range that are in the map.
    pub(crate) fn within(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut found = Vec::new();
        if let Some((_, &end)) = self.ranges.range(..range.start).next_back()
            && end > range.start
        {
            found.push(range.start..end.min(range.end));
        }
        let inside = self.ranges.range(range.start..range.end);
        found.extend(inside.map(|(&start, &end)| start..end.min(range.end)));
        found
    }

    /// Returns all ranges in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// Returns the start of the range that ends at `end`, if there is one.
    pub(crate) fn start_of_range_to(&self, end: u64) -> Option<u64> {
        let (&start, &last) = self.ranges.range(..end).next_back()?;
        (last == end).then_some(start)
    }

    /// Removes `len` bytes from the smallest sufficient range, the lowest of several, to keep large ranges
    /// whole. Linear in the number of ranges.
    pub(crate) fn take_best(&mut self, len: u64) -> Option<u64> {
        let fits = self.iter().filter(|range| range.end - range.start >= len);
        let found = fits
            .min_by_key(|range| (range.end - range.start, range.start))?
            .start;
        self.remove(found..found + len);
        Some(found)
    }

    /// Removes the first `len` free bytes that start at a multiple of `alignment`. Linear in the number of
    /// ranges.
    pub(crate) fn take_aligned(&mut self, len: u64, alignment: u64) -> Option<u64> {
        let found = self.ranges.iter().find_map(|(&start, &end)| {
            let at = start.next_multiple_of(alignment);
            (at < end && end - at >= len).then_some(at)
        })?;
        self.remove(found..found + len);
        Some(found)
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Range<u64>> {
        std::mem::take(&mut self.ranges)
            .into_iter()
            .map(|(start, end)| start..end)
    }
}
