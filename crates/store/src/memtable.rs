//! Keys whose entries in the leaves are older, until the next checkpoint.

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::xxh3_64;

use crate::key_range::{KeyBounds, KeyRange};

/// The newest state of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemEntry {
    /// Offset of its newest record.
    Record(u64),
    /// It has no record any more; nor has the tree after the next checkpoint.
    Purged,
}

/// The newest states of some keys.
#[derive(Debug, Default)]
pub(crate) struct MemTable {
    entries: BTreeMap<Box<[u8]>, MemEntry>,
    /// Keys that were [removed](Self::remove), and may have been set again.
    removed: BTreeSet<Box<[u8]>>,
    /// A bit for each hash of a key; most lookups of other keys end here.
    filter: Vec<u64>,
}

/// Bits of the filter.
const FILTER_BITS: u64 = 1 << 19;

impl MemTable {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the state of a key, if it is here.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<MemEntry> {
        if self.entries.is_empty() {
            return None;
        }
        let bit = xxh3_64(key) % FILTER_BITS;
        if self.filter[(bit / 64) as usize] >> (bit % 64) & 1 == 0 {
            return None;
        }
        self.entries.get(key).copied()
    }

    /// Sets the state of a key.
    pub(crate) fn set(&mut self, key: &[u8], entry: MemEntry) {
        if let Some(old) = self.entries.get_mut(key) {
            *old = entry;
            return;
        }
        if self.filter.is_empty() {
            self.filter = vec![0; (FILTER_BITS / 64) as usize];
        }
        let bit = xxh3_64(key) % FILTER_BITS;
        self.filter[(bit / 64) as usize] |= 1 << (bit % 64);
        self.entries.insert(key.into(), entry);
    }

    /// Removes a key without a record in the log that says so. What its leaf has of it counts until the next
    /// checkpoint is durable.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        self.set(key, MemEntry::Purged);
        self.removed.insert(key.into());
    }

    /// Returns true if a key was [removed](Self::remove), whatever its state is now.
    pub(crate) fn is_removed(&self, key: &[u8]) -> bool {
        !self.removed.is_empty() && self.removed.contains(key)
    }

    /// Returns true if any key was [removed](Self::remove).
    pub(crate) fn has_removed(&self) -> bool {
        !self.removed.is_empty()
    }

    /// Takes over the entries of a newer table.
    pub(crate) fn extend(&mut self, newer: &Self) {
        newer.iter().for_each(|(key, entry)| self.set(key, entry));
        self.removed.extend(newer.removed.iter().cloned());
    }

    /// Returns all entries in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], MemEntry)> + Clone {
        self.entries.iter().map(|(key, entry)| (&**key, *entry))
    }

    /// Returns the entries of a range of keys.
    ///
    /// # Panics
    /// If the range is empty.
    pub(crate) fn range(&self, range: &KeyRange) -> impl DoubleEndedIterator<Item = (&[u8], MemEntry)> {
        self.range_of(range.bounds())
    }

    /// Returns the entries between two bounds.
    ///
    /// # Panics
    /// If nothing can be between them.
    pub(crate) fn range_of(
        &self,
        bounds: KeyBounds<'_>,
    ) -> impl DoubleEndedIterator<Item = (&[u8], MemEntry)> + use<'_> {
        let entries = self.entries.range::<[u8], _>(bounds);
        entries.map(|(key, entry)| (&**key, *entry))
    }
}
