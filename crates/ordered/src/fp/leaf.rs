//! Reading a leaf, and changes that affect only this leaf.
//!
//! Invariants: an entry is stored to a free slot and is durable before the bitmap marks it as used. In
//! the first line, whose stores arrive in order, fingerprints are stored before the bitmap.

use halocline_media::{LINE, MediaError};

use crate::hybrid::{LeafEntry, LeafRef};
use crate::kernel::{fingerprint, matches_in_line};

use super::fault::{FpFault, injected};
use super::layout::{ALL, NEXT, SLOTS, entry_offset};

/// A copy of a leaf's first line: the bitmap in bytes 0 to 7, fingerprints in bytes 8 to 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FpHeader(pub(super) [u64; 8]);

impl FpHeader {
    /// Returns a bitmap of the entries in use.
    #[inline(always)]
    pub(crate) fn used(&self) -> u64 {
        self.0[0] & ALL
    }

    /// Returns a bitmap of the free slots.
    #[inline(always)]
    pub(crate) fn free(&self) -> u64 {
        !self.0[0] & ALL
    }

    /// Returns a bitmap of the used entries whose fingerprint equals that of `key`.
    #[inline(always)]
    pub(crate) fn matches(&self, key: u64) -> u64 {
        matches_in_line(&self.0, fingerprint(key)) & self.used()
    }

    /// Sets the fingerprint of a free slot and returns the index of the changed word.
    #[inline(always)]
    pub(crate) fn set_fingerprint(&mut self, slot: usize, fingerprint: u8) -> usize {
        let (word, shift) = (1 + slot / 8, slot % 8 * 8);
        self.0[word] = self.0[word] & !(0xFF << shift) | u64::from(fingerprint) << shift;
        word
    }
}

/// A reference to a leaf on the medium.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FpLeafRef<'a>(pub(crate) LeafRef<'a>);

impl<'a> FpLeafRef<'a> {
    #[inline(always)]
    pub(crate) fn head(self) -> FpHeader {
        let mut head = FpHeader::default();
        for (number, word) in (0..).zip(&mut head.0) {
            *word = self.0.medium.load_u64(self.0.offset + number * 8);
        }
        head
    }

    #[inline(always)]
    pub(crate) fn key(self, slot: usize) -> u64 {
        self.0.medium.load_u64(self.0.offset + entry_offset(slot))
    }

    #[inline(always)]
    pub(crate) fn value(self, slot: usize) -> u64 {
        self.0.medium.load_u64(self.0.offset + entry_offset(slot) + 8)
    }

    #[inline]
    pub(crate) fn next(self) -> u64 {
        self.0.medium.load_u64(self.0.offset + NEXT)
    }

    #[inline(always)]
    pub(crate) fn find(self, head: &FpHeader, key: u64) -> Option<usize> {
        let mut same = head.matches(key);
        while same != 0 {
            let slot = same.trailing_zeros() as usize;
            if self.key(slot) == key {
                return Some(slot);
            }
            same &= same - 1;
        }
        None
    }

    /// Returns all entries in arbitrary order.
    #[inline(always)]
    pub(crate) fn entries(self, head: &FpHeader) -> impl Iterator<Item = LeafEntry<usize>> + use<'a> {
        let mut used = head.used();
        std::iter::from_fn(move || {
            let slot = (used != 0).then(|| used.trailing_zeros() as usize)?;
            used &= used - 1;
            let (key, value) = (self.key(slot), self.value(slot));
            Some(LeafEntry { key, value, slot })
        })
    }

    /// Inserts an entry into a free slot, if there is one, and atomically removes the entries in the bitmap
    /// `instead`.
    ///
    /// # Errors
    /// Fails if the medium does. The entry is then absent, or present but perhaps not durable.
    #[inline(always)]
    pub(crate) fn put(self, head: &FpHeader, key: u64, value: u64, instead: u64) -> Result<bool, MediaError> {
        if head.free() == 0 {
            return Ok(false);
        }
        let slot = head.free().trailing_zeros() as usize;
        self.store_entry(slot, key, value);
        if !injected(FpFault::EntryUnflushed) {
            self.flush_entry(slot);
        }
        // The bitmap must not become durable before the entry that it marks as used.
        if !injected(FpFault::EntryUnfenced) {
            self.0.medium.fence()?;
        }
        if injected(FpFault::UpdateInTwoStores) && instead != 0 {
            self.store_bitmap(head.used() & !instead);
        }
        self.set(head, slot, key, instead)?;
        Ok(true)
    }

    /// Marks a durable entry as used and the entries in `instead` as free, by one store.
    #[inline(always)]
    pub(crate) fn set(self, head: &FpHeader, slot: usize, key: u64, instead: u64) -> Result<(), MediaError> {
        let mut head = *head;
        let bitmap = (head.used() | 1 << slot) & !instead;
        if injected(FpFault::BitmapBeforeFingerprint) {
            self.store_bitmap(bitmap);
        }
        // Fingerprint and bitmap are in one line, whose stores arrive in order: no fence is needed between.
        let word = head.set_fingerprint(slot, fingerprint(key));
        let at = self.0.offset + word as u64 * 8;
        self.0.medium.store_u64(at, head.0[word]);
        self.store_bitmap(bitmap);
        self.flush_head();
        self.0.medium.fence()
    }

    /// Replaces the value of an entry: out of place if a slot is free, otherwise by one store.
    ///
    /// # Errors
    /// Fails if the medium does. The value is then the old one, or the new one but perhaps not durable.
    #[inline(always)]
    pub(crate) fn replace(self, head: &FpHeader, entry: LeafEntry<usize>) -> Result<(), MediaError> {
        if self.put(head, entry.key, entry.value, 1 << entry.slot)? {
            return Ok(());
        }
        let at = self.0.offset + entry_offset(entry.slot) + 8;
        self.0.medium.store_u64(at, entry.value);
        self.flush_entry(entry.slot);
        self.0.medium.fence()
    }

    /// Removes an entry by one store.
    ///
    /// # Errors
    /// Fails if the medium does. The entry is then removed, but perhaps not durably.
    #[inline]
    pub(crate) fn clear(self, head: &FpHeader, slot: usize) -> Result<(), MediaError> {
        self.store_bitmap(head.used() & !(1 << slot));
        self.flush_head();
        if injected(FpFault::RemoveUnfenced) {
            return Ok(());
        }
        self.0.medium.fence()
    }

    #[inline(always)]
    pub(crate) fn store_entry(self, slot: usize, key: u64, value: u64) {
        let at = self.0.offset + entry_offset(slot);
        self.0.medium.store_u64(at, key);
        self.0.medium.store_u64(at + 8, value);
    }

    #[inline(always)]
    pub(crate) fn store_bitmap(self, bitmap: u64) {
        self.0.medium.store_u64(self.0.offset, bitmap);
    }

    /// Stores the whole first line, the bitmap last.
    pub(crate) fn store_head(self, head: &FpHeader) {
        for (number, word) in head.0.iter().enumerate().rev() {
            self.0.medium.store_u64(self.0.offset + number as u64 * 8, *word);
        }
    }

    #[inline(always)]
    pub(crate) fn flush_head(self) {
        self.0.medium.flush(self.0.offset, LINE);
    }

    #[inline(always)]
    pub(crate) fn flush_entry(self, slot: usize) {
        self.0.medium.flush(self.0.offset + entry_offset(slot), 16);
    }

    /// Stores and flushes the link.
    pub(crate) fn set_next(self, next: u64) {
        self.0.medium.store_u64(self.0.offset + NEXT, next);
        self.0.medium.flush(self.0.offset + NEXT, 8);
    }

    /// Stores and flushes a new leaf that is not referenced yet, except for lines without entries.
    pub(crate) fn write_new(self, entries: impl Iterator<Item = (u64, u64)>, next: u64) {
        let mut head = FpHeader::default();
        let mut count = 0;
        for ((key, value), slot) in entries.zip(0..SLOTS) {
            self.store_entry(slot, key, value);
            head.set_fingerprint(slot, fingerprint(key));
            head.0[0] |= 1 << slot;
            count = slot + 1;
        }
        self.store_head(&head);
        if !injected(FpFault::NewLeafUnflushed) {
            self.0.medium.flush(self.0.offset, entry_offset(count));
        }
        self.set_next(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_keeps_its_parts_apart() {
        let mut head = FpHeader::default();
        assert_eq!((head.used(), head.free()), (0, ALL));
        for slot in 0..SLOTS {
            let key = slot as u64 * 77;
            head.set_fingerprint(slot, fingerprint(key));
            assert_eq!(head.matches(key) >> slot, 0, "not in use");
            head.0[0] |= 1 << slot;
            assert_eq!(head.matches(key) >> slot, 1);
        }
        assert_eq!((head.used(), head.free()), (ALL, 0));
        let before = head;
        assert_eq!(head.set_fingerprint(9, !fingerprint(9 * 77)), 2);
        assert_eq!(head.matches(9 * 77) >> 9 & 1, 0);
        head.set_fingerprint(9, fingerprint(9 * 77));
        assert_eq!(head, before);
    }
}
