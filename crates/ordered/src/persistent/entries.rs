//! The entries of a node, copied to private memory.

use std::ops::Deref;

/// Maximum number of entries of a node in any format.
const MAX_ENTRIES: usize = 30;

/// Entries in ascending order of their keys, with room for one more than a node holds.
#[derive(Debug, Clone)]
pub(crate) struct SortedEntries {
    count: usize,
    all: [(u64, u64); MAX_ENTRIES + 1],
}

impl SortedEntries {
    #[inline(always)]
    pub(crate) fn new() -> SortedEntries {
        SortedEntries {
            count: 0,
            all: [(0, 0); MAX_ENTRIES + 1],
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, entry: (u64, u64)) {
        self.all[self.count] = entry;
        self.count += 1;
    }

    /// Replaces the last entry.
    pub(crate) fn replace_last(&mut self, entry: (u64, u64)) {
        self.all[self.count - 1] = entry;
    }

    /// Inserts an entry at its position in key order.
    pub(crate) fn insert(&mut self, entry: (u64, u64)) {
        let at = self.rank(entry.0);
        self.all.copy_within(at..self.count, at + 1);
        self.all[at] = entry;
        self.count += 1;
    }

    /// Returns the number of entries with lesser keys.
    pub(crate) fn rank(&self, key: u64) -> usize {
        self.partition_point(|entry| entry.0 < key)
    }

    /// Returns the index of the child that a key belongs to.
    pub(crate) fn child(&self, key: u64) -> usize {
        self.partition_point(|entry| entry.0 <= key).saturating_sub(1)
    }

    /// Returns the greatest key of a child, given that of the node.
    pub(crate) fn high(&self, child: usize, high: u64) -> u64 {
        self.get(child + 1).map_or(high, |next| next.0.wrapping_sub(1))
    }
}

impl Deref for SortedEntries {
    type Target = [(u64, u64)];

    #[inline(always)]
    fn deref(&self) -> &[(u64, u64)] {
        &self.all[..self.count]
    }
}
