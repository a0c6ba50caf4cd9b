//! Leaves: pages of up to 48 entries, each the offset of a record after a fingerprint and eight bytes of its
//! key.
//!
//! | offset | bytes | contents |
//! |---|---|---|
//! | 0 | 8 | word: bits 0 to 47 entries in use, bits 48 to 63 checksum |
//! | 8 | 48 | fingerprint of each entry: the low byte of the xxh3-64 of its key |
//! | 56 | 1 | length of the prefix that all keys have in common |
//! | 57 | 1 | which checksum the leaf has: 0 without, 1 with its place and its store |
//! | 58 | 198 | that prefix |
//! | 256 | 384 | slice of each entry: eight bytes of the key after the prefix, big-endian, padded with zeros |
//! | 640 | 384 | offset of the record of each entry |
//!
//! As in the LB+-Tree (Liu et al., PVLDB 13(7), 2020) entries are unsorted, a lookup reads the one line with
//! bitmap and fingerprints and then the entry, and one store of a word makes new entries valid. Here a
//! checkpoint adds all entries of a leaf at once, so that two fences suffice for all leaves of a checkpoint.
//! As in the FB+-tree (Chen et al., PVLDB 18(6), 2025) keys are compared by the bytes after their common
//! prefix.
//!
//! Invariants: slots that the durable bitmap uses are not stored to, except that the offset of a record may
//! be replaced. The checksum covers the bitmap, the prefix, fingerprints and slices of the entries in use,
//! and the [place](LeafPlace), so that a leaf counts nowhere else. Leaves of format 1 have a checksum without
//! the place. They are never changed to the other kind where they are, because a crash could leave the one
//! kind with the checksum of the other: whoever changes their entries writes new leaves.

use std::ops::{Bound, RangeInclusive};

use halocline_media::Medium;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::fault::{StoreFault, injected};
use crate::key_range::KeyBounds;
use crate::layout::LEAF;

/// Number of entries of a leaf.
pub(crate) const ENTRIES: usize = 48;

/// Maximum length of the prefix.
pub(crate) const MAX_PREFIX: usize = 198;

const BITMAP: u64 = (1 << ENTRIES) - 1;
const FINGERPRINTS: usize = 8;
const PREFIX_LEN: usize = 56;
const KIND: usize = 57;
const PREFIX: usize = 58;
const SLICES: usize = 256;
const OFFSETS: usize = 640;
const LINE: usize = 64;
/// Bytes of a place under the checksum.
const PLACE_LEN: usize = 12;

/// The kind of a leaf whose checksum does not cover its place: that of format 1.
const UNPLACED: u8 = 0;

/// The kind of a leaf whose checksum covers its place.
const PLACED: u8 = 1;

/// Where a leaf belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeafPlace {
    /// The number of the store.
    pub(crate) store: u32,
    /// Offset of the leaf.
    pub(crate) offset: u64,
}

/// Returns the fingerprint of a key.
#[inline]
pub(crate) fn fingerprint(key: &[u8]) -> u8 {
    xxh3_64(key) as u8
}

/// Returns the eight bytes of a key after a prefix, as a number of the same order.
#[inline]
pub(crate) fn slice_of(key: &[u8], prefix: usize) -> u64 {
    let rest = key.get(prefix..).unwrap_or_default();
    let mut bytes = [0; 8];
    let len = rest.len().min(8);
    bytes[..len].copy_from_slice(&rest[..len]);
    u64::from_be_bytes(bytes)
}

/// The first line of a leaf, for lookups of single keys.
pub(crate) struct LeafLine {
    leaf: u64,
    line: [u8; LINE],
}

impl LeafLine {
    /// Loads the line.
    #[inline]
    pub(crate) fn load(medium: &Medium, leaf: u64) -> Self {
        let mut line = [0; LINE];
        medium.load(leaf, &mut line);
        Self { leaf, line }
    }

    /// Returns the slots whose keys have this fingerprint.
    #[inline]
    pub(crate) fn matches(&self, fingerprint: u8) -> impl Iterator<Item = EntrySlot> + use<> {
        let mut found = 0u64;
        for (slot, other) in self.line[FINGERPRINTS..FINGERPRINTS + ENTRIES].iter().enumerate() {
            found |= u64::from(*other == fingerprint) << slot;
        }
        let mut found = found & self.word() & BITMAP;
        let leaf = self.leaf;
        std::iter::from_fn(move || {
            let slot = (found != 0).then(|| found.trailing_zeros())?;
            found &= found - 1;
            Some(EntrySlot(leaf + (OFFSETS + 8 * slot as usize) as u64))
        })
    }

    fn word(&self) -> u64 {
        word_at(&self.line, 0)
    }

    /// Returns the slice that the entry of a key has.
    pub(crate) fn slice(&self, key: &[u8]) -> u64 {
        slice_of(key, self.line[PREFIX_LEN].into())
    }
}

/// The place of an entry's offset of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntrySlot(pub(crate) u64);

impl EntrySlot {
    /// Returns the offset of the record.
    #[inline]
    pub(crate) fn record(self, medium: &Medium) -> u64 {
        medium.load_u64(self.0)
    }

    /// Returns the slice of the entry.
    pub(crate) fn slice(self, medium: &Medium) -> u64 {
        medium.load_u64(self.0 - (OFFSETS - SLICES) as u64)
    }

    /// Replaces the offset of the record: visible, not durable.
    pub(crate) fn set_record(self, medium: &Medium, record: u64) {
        medium.store_u64(self.0, record);
    }
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// A copy of a leaf.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    place: LeafPlace,
    bytes: [u8; LEAF as usize],
}

/// An entry to be added: its key without the prefix decides the order.
#[derive(Debug, Clone)]
pub(crate) struct NewEntry {
    pub(crate) key: Vec<u8>,
    pub(crate) record: u64,
}

impl Leaf {
    /// Loads the leaf of a place.
    pub(crate) fn load(medium: &Medium, place: LeafPlace) -> Self {
        let mut bytes = [0; LEAF as usize];
        medium.load(place.offset, &mut bytes);
        Self { place, bytes }
    }

    /// Creates a leaf of entries with ascending keys.
    ///
    /// # Panics
    /// If there are too many.
    pub(crate) fn new(place: LeafPlace, entries: &[NewEntry]) -> Self {
        assert!(entries.len() <= ENTRIES, "{} entries in a leaf", entries.len());
        let mut leaf = Self {
            place,
            bytes: [0; LEAF as usize],
        };
        leaf.bytes[KIND] = if injected(StoreFault::UnplacedLeaves) {
            UNPLACED
        } else {
            PLACED
        };
        if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
            let common = common_prefix(&first.key, &last.key).min(MAX_PREFIX);
            leaf.bytes[PREFIX_LEN] = common as u8;
            leaf.bytes[PREFIX..PREFIX + common].copy_from_slice(&first.key[..common]);
        }
        for (slot, entry) in entries.iter().enumerate() {
            leaf.set(slot, entry);
        }
        leaf.set_bitmap((1 << entries.len()) - 1);
        leaf
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the entries in use as bits.
    pub(crate) fn bitmap(&self) -> u64 {
        word_at(&self.bytes, 0) & BITMAP
    }

    /// Returns the word to store: the bitmap and the checksum.
    pub(crate) fn word(&self) -> u64 {
        word_at(&self.bytes, 0)
    }

    /// Returns true if the checksum matches.
    pub(crate) fn is_intact(&self) -> bool {
        self.checksum(self.bitmap()) == self.word() >> ENTRIES
            && self.prefix_len() <= MAX_PREFIX
            && self.bytes[KIND] <= PLACED
    }

    /// Returns true if the checksum covers the place.
    pub(crate) fn is_placed(&self) -> bool {
        self.bytes[KIND] == PLACED
    }

    /// Gives the leaf the checksum of its place, with the next [bitmap](Self::set_bitmap).
    pub(crate) fn set_placed(&mut self) {
        self.bytes[KIND] = PLACED;
    }

    pub(crate) fn place(&self) -> LeafPlace {
        self.place
    }

    /// Returns the leaf at another place. Its checksum covers that if it covered the place before.
    pub(crate) fn moved_to(mut self, place: LeafPlace) -> Self {
        self.place = place;
        self.set_bitmap(self.bitmap());
        self
    }

    fn prefix_len(&self) -> usize {
        self.bytes[PREFIX_LEN].into()
    }

    /// Returns the prefix that all keys have in common.
    pub(crate) fn prefix(&self) -> &[u8] {
        let len = self.prefix_len().min(MAX_PREFIX);
        &self.bytes[PREFIX..PREFIX + len]
    }

    /// Returns the slots in use with their slices and records.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        let bitmap = self.bitmap();
        (0..ENTRIES)
            .filter(move |slot| bitmap >> slot & 1 == 1)
            .map(|slot| {
                let slice = word_at(&self.bytes, SLICES + 8 * slot);
                (slot, slice, word_at(&self.bytes, OFFSETS + 8 * slot))
            })
    }

    /// Returns the slices that keys between two bounds can have in this leaf.
    pub(crate) fn slices(&self, (from, to): KeyBounds<'_>) -> RangeInclusive<u64> {
        let prefix = self.prefix();
        let slice = |bound: Bound<&[u8]>| match bound {
            Bound::Included(key) | Bound::Excluded(key) if key.starts_with(prefix) => {
                Some(slice_of(key, prefix.len()))
            }
            _ => None,
        };
        slice(from).unwrap_or(0)..=slice(to).unwrap_or(u64::MAX)
    }

    /// Returns the slots of entries with this fingerprint, and their records.
    pub(crate) fn matches(&self, fingerprint: u8) -> impl Iterator<Item = (usize, u64)> + '_ {
        let entries = self.entries();
        entries
            .filter(move |(slot, ..)| self.bytes[FINGERPRINTS + slot] == fingerprint)
            .map(|(slot, _, record)| (slot, record))
    }

    /// Returns the fingerprint of a slot.
    pub(crate) fn fingerprint(&self, slot: usize) -> u8 {
        self.bytes[FINGERPRINTS + slot]
    }

    /// Returns true if the entry of a slot is one of this key, as far as the leaf can tell: all keys of up to
    /// eight bytes after the prefix, and of longer ones all but one in 256.
    #[inline]
    pub(crate) fn is_entry_of(&self, slot: usize, key: &[u8]) -> bool {
        let prefix = self.prefix();
        key.starts_with(prefix)
            && slice_of(key, prefix.len()) == word_at(&self.bytes, SLICES + 8 * slot)
            && fingerprint(key) == self.bytes[FINGERPRINTS + slot]
    }

    /// Stores an entry in a slot; [`set_bitmap`](Self::set_bitmap) makes it valid.
    pub(crate) fn set(&mut self, slot: usize, entry: &NewEntry) {
        let prefix = self.prefix_len();
        self.bytes[FINGERPRINTS + slot] = fingerprint(&entry.key);
        self.put(SLICES + 8 * slot, slice_of(&entry.key, prefix));
        self.put(OFFSETS + 8 * slot, entry.record);
    }

    /// Replaces the record of a slot.
    pub(crate) fn set_record(&mut self, slot: usize, record: u64) {
        self.put(OFFSETS + 8 * slot, record);
    }

    /// Sets which entries are in use, and the checksum.
    pub(crate) fn set_bitmap(&mut self, bitmap: u64) {
        self.put(0, bitmap);
        let sum = self.checksum(bitmap);
        self.put(0, bitmap | sum << ENTRIES);
    }

    fn put(&mut self, at: usize, word: u64) {
        self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }

    fn checksum(&self, bitmap: u64) -> u64 {
        let mut covered = [0; MAX_PREFIX + 9 * ENTRIES + PLACE_LEN];
        let prefix = self.prefix().len();
        covered[..prefix].copy_from_slice(&self.bytes[PREFIX..PREFIX + prefix]);
        let mut len = prefix;
        for slot in (0..ENTRIES).filter(|slot| bitmap >> slot & 1 == 1) {
            covered[len] = self.bytes[FINGERPRINTS + slot];
            covered[len + 1..len + 9].copy_from_slice(&self.bytes[SLICES + 8 * slot..SLICES + 8 * slot + 8]);
            len += 9;
        }
        if self.is_placed() {
            covered[len..len + 8].copy_from_slice(&self.place.offset.to_le_bytes());
            covered[len + 8..len + PLACE_LEN].copy_from_slice(&self.place.store.to_le_bytes());
            len += PLACE_LEN;
        }
        let lens = u64::from(u16::from_le_bytes([self.bytes[PREFIX_LEN], self.bytes[KIND]]));
        xxh3_64_with_seed(&covered[..len], bitmap ^ lens << ENTRIES) >> ENTRIES
    }
}

/// Returns the length of the prefix that two keys have in common.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Returns the place of the record's offset of a slot of a leaf.
pub(crate) fn slot_of(leaf: u64, slot: usize) -> EntrySlot {
    EntrySlot(leaf + (OFFSETS + 8 * slot) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault;

    const HERE: LeafPlace = LeafPlace {
        store: 7,
        offset: 8 << 10,
    };

    fn entries(keys: &[&[u8]]) -> Vec<NewEntry> {
        let entry = |(at, key): (usize, &&[u8])| NewEntry {
            key: key.to_vec(),
            record: 1000 + 8 * at as u64,
        };
        keys.iter().enumerate().map(entry).collect()
    }

    #[test]
    fn entries_are_found_and_flips_are_noticed() {
        let leaf = Leaf::new(HERE, &entries(&[b"tenant/1/a", b"tenant/1/b", b"tenant/22"]));
        assert_eq!(leaf.prefix(), b"tenant/");
        assert!(leaf.is_intact());
        assert_eq!(leaf.bitmap(), 7);
        assert!(
            leaf.matches(fingerprint(b"tenant/22"))
                .any(|found| found == (2, 1016))
        );
        let slices: Vec<u64> = leaf.entries().map(|(_, slice, _)| slice).collect();
        assert!(slices.is_sorted());
        for byte in (0..58 + 7).chain(SLICES..SLICES + 24) {
            // Fingerprints of unused slots are not covered.
            if (11..56).contains(&byte) {
                continue;
            }
            let mut damaged = leaf.clone();
            damaged.bytes[byte] ^= 4;
            assert!(!damaged.is_intact(), "byte {byte}");
        }
        assert!(Leaf::new(HERE, &[]).is_intact());
        assert_eq!(Leaf::new(HERE, &[]).bitmap(), 0);
    }

    #[test]
    fn a_leaf_counts_at_its_place_only() {
        let entries = entries(&[b"tenant/1/a", b"tenant/1/b", b"tenant/22"]);
        let others = [
            LeafPlace {
                offset: 9 << 10,
                ..HERE
            },
            LeafPlace { store: 8, ..HERE },
        ];
        let moved = |leaf: &Leaf, place: LeafPlace| Leaf {
            place,
            ..leaf.clone()
        };
        let leaf = Leaf::new(HERE, &entries);
        assert!(leaf.is_placed() && leaf.is_intact());
        assert!(others.iter().all(|other| !moved(&leaf, *other).is_intact()));
        let old = fault::with(StoreFault::UnplacedLeaves, || Leaf::new(HERE, &entries));
        assert!(!old.is_placed() && old.is_intact());
        assert!(others.iter().all(|other| moved(&old, *other).is_intact()));
        // Neither kind is taken for the other, and there is no third one.
        for leaf in [leaf, old] {
            for kind in (0..=u8::MAX).filter(|kind| *kind != leaf.bytes[KIND]) {
                let mut other = leaf.clone();
                other.bytes[KIND] = kind;
                assert!(!other.is_intact(), "kind {kind}");
            }
        }
    }

    #[test]
    fn entries_tell_keys_apart() {
        let leaf = Leaf::new(HERE, &entries(&[b"tenant/1/a", b"tenant/22"]));
        assert!(leaf.is_entry_of(0, b"tenant/1/a") && leaf.is_entry_of(1, b"tenant/22"));
        for other in [
            &b"tenant/22"[..],
            b"tenant/1/b",
            b"tenanz/1/a",
            b"tenant/1/a\0",
            b"te",
            b"",
        ] {
            assert!(!leaf.is_entry_of(0, other), "{}", other.escape_ascii());
        }
    }

    #[test]
    fn slices_have_the_order_of_keys() {
        let keys: [&[u8]; 6] = [b"", b"a", b"a\0", b"aa", b"ab345678", b"b"];
        for pair in keys.windows(2) {
            assert!(slice_of(pair[0], 0) <= slice_of(pair[1], 0));
        }
        assert_eq!(slice_of(b"ab", 1), u64::from(b'b') << 56);
        assert_eq!(slice_of(b"ab", 2), 0);
    }
}
