//! The entries of one node, copied to private memory.

use std::ops::Deref;

/// The most entries a node of any format has.
const MOST: usize = 30;

/// A node's entries in ascending order of their keys, in private memory, with room for one more.
#[derive(Debug, Clone)]
pub(crate) struct SortedEntries {
    count: usize,
    all: [(u64, u64); MOST + 1],
}

impl SortedEntries {
    #[inline(always)]
    pub(crate) fn new() -> SortedEntries {
        SortedEntries {
            count: 0,
            all: [(0, 0); MOST + 1],
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, entry: (u64, u64)) {
        self.all[self.count] = entry;
        self.count += 1;
    }

    /// Puts an entry in the place of the last one.
    pub(crate) fn replace_last(&mut self, entry: (u64, u64)) {
        self.all[self.count - 1] = entry;
    }

    /// Puts an entry where it belongs.
    pub(crate) fn insert(&mut self, entry: (u64, u64)) {
        let at = self.rank(entry.0);
        self.all.copy_within(at..self.count, at + 1);
        self.all[at] = entry;
        self.count += 1;
    }

    /// How many have keys below this one.
    pub(crate) fn rank(&self, key: u64) -> usize {
        self.partition_point(|entry| entry.0 < key)
    }

    /// Which child the key belongs to.
    pub(crate) fn child(&self, key: u64) -> usize {
        self.partition_point(|entry| entry.0 <= key).saturating_sub(1)
    }

    /// The greatest key that belongs to a child of a node whose own is `high`.
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
