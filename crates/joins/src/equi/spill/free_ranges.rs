//! The free ranges of a spill space: first fit, neighbours are joined.

use std::collections::BTreeMap;

/// Free ranges by offset.
#[derive(Debug, Default)]
pub(super) struct FreeRanges {
    ranges: BTreeMap<u64, u64>,
}

impl FreeRanges {
    /// Takes `len` bytes from the first range that is long enough, and returns their offset.
    pub(super) fn take(&mut self, len: u64) -> Option<u64> {
        let (&offset, &free) = self.ranges.iter().find(|(_, free)| **free >= len)?;
        self.ranges.remove(&offset);
        if free > len {
            self.ranges.insert(offset + len, free - len);
        }
        Some(offset)
    }

    /// Adds a range.
    pub(super) fn add(&mut self, mut offset: u64, mut len: u64) {
        if len == 0 {
            return;
        }
        if let Some((&before, &free)) = self.ranges.range(..offset).next_back()
            && before + free == offset
        {
            self.ranges.remove(&before);
            (offset, len) = (before, free + len);
        }
        if let Some(free) = self.ranges.remove(&(offset + len)) {
            len += free;
        }
        self.ranges.insert(offset, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined() {
        let mut free = FreeRanges::default();
        assert_eq!(free.take(1), None);
        free.add(0, 100);
        let taken: Vec<u64> = (0..4).map(|_| free.take(25).unwrap()).collect();
        assert_eq!(
            (taken.as_slice(), free.take(1)),
            ([0, 25, 50, 75].as_slice(), None)
        );
        for offset in [50, 0, 75, 25] {
            free.add(offset, 25);
        }
        assert_eq!((free.take(100), free.take(1)), (Some(0), None));
    }
}
