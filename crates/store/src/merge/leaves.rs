//! Leaves of a merge: entries are added in place, or new leaves take the place of the old one.
//!
//! Invariant: the bitmap of a leaf in use does not change here. The word that has the new one is noted, for
//! [`publish_leaves`](Merge::publish_leaves).

use halocline_media::Medium;

use super::error::Result;
use super::{Merge, NewLeaves};
use crate::fault::{StoreFault, injected};
use crate::layout::LEAF;
use crate::leaf::{ENTRIES, Leaf, NewEntry, common_prefix, fingerprint, slot_of};
use crate::memtable::{MemEntry, MemTable};
use crate::record::RecordRef;
use crate::segments::SegmentKind;
use crate::tree::{Damage, load_leaf};

/// Entries of a leaf that a split makes.
const SPLIT_ENTRIES: usize = 32;

impl Merge<'_> {
    /// Adds entries of a table to a leaf in place if they fit and the leaf has no removed key; otherwise
    /// returns the leaves that take its place.
    pub(super) fn edit_leaf(
        &mut self,
        page: u64,
        is_last: bool,
        entries: &[(&[u8], MemEntry)],
        table: &MemTable,
    ) -> Result<Option<NewLeaves>> {
        let medium = self.medium();
        let mut leaf = load_leaf(medium, self.place(page))?;
        let mut added = Vec::new();
        let old_bitmap = leaf.bitmap();
        let mut bitmap = old_bitmap;
        let mut is_copied = false;
        for &(key, entry) in entries {
            let slot = find(medium, self.store, &leaf, key)?;
            let is_kept = slot.is_some() && self.copies_leaves && table.is_removed(key);
            is_copied |= is_kept;
            match (slot, entry) {
                (Some(slot), MemEntry::Record(record)) => {
                    leaf.set_record(slot, record);
                    // A removed key that was set again has no `prev` that leads to the version here.
                    if !is_kept {
                        let slot = slot_of(page, slot);
                        slot.set_record(medium, record);
                        medium.flush(slot.0, 8);
                    }
                }
                (Some(slot), MemEntry::Purged) => bitmap &= !(1 << slot),
                (None, MemEntry::Record(record)) => added.push(NewEntry {
                    key: key.to_vec(),
                    record,
                }),
                (None, MemEntry::Purged) => {}
            }
        }
        let occupied = if injected(StoreFault::ReuseSlot) {
            bitmap
        } else {
            old_bitmap
        };
        let fits = bitmap.count_ones() as usize + added.len() <= ENTRIES
            && (occupied.count_ones() as usize) + added.len() <= ENTRIES
            && added.iter().all(|entry| entry.key.starts_with(leaf.prefix()));
        if injected(StoreFault::PlaceInPlace) {
            leaf.set_placed();
        }
        // A leaf of format 1 is written anew, so that its checksum covers its place.
        let stays = leaf.is_placed() || bitmap == old_bitmap && added.is_empty();
        if bitmap == 0 && added.is_empty() {
            return Ok(match old_bitmap {
                0 => None,
                _ => Some(Vec::new()),
            });
        }
        if !fits || bitmap == 0 || !stays {
            return self.split_leaf(&leaf, bitmap, added, is_last).map(Some);
        }
        let mut free = (0..ENTRIES).filter(|slot| occupied >> slot & 1 == 0);
        for entry in &added {
            let slot = free
                .next()
                .unwrap_or_else(|| unreachable!("there are enough slots"));
            leaf.set(slot, entry);
            bitmap |= 1 << slot;
        }
        if is_copied {
            leaf.set_bitmap(bitmap);
            let copy = self.alloc(SegmentKind::Leaves)?;
            medium.store(copy, leaf.moved_to(self.place(copy)).as_bytes());
            medium.flush(copy, LEAF);
            return Ok(Some(vec![(Vec::new(), copy)]));
        }
        if bitmap != old_bitmap {
            leaf.set_bitmap(bitmap);
            // All of the leaf but the word that makes the entries valid.
            medium.store(page + 8, &leaf.as_bytes()[8..]);
            medium.flush(page, LEAF);
            if injected(StoreFault::BitmapFirst) {
                medium.store_u64(page, leaf.word());
            }
            self.words.push((page, leaf.word()));
        }
        Ok(None)
    }

    /// Distributes the entries of a leaf and new ones over new leaves.
    fn split_leaf(
        &mut self,
        leaf: &Leaf,
        bitmap: u64,
        added: Vec<NewEntry>,
        is_last: bool,
    ) -> Result<NewLeaves> {
        let medium = self.medium();
        let mut all = Vec::with_capacity(ENTRIES + added.len());
        for (slot, _, record) in leaf.entries().filter(|(slot, ..)| bitmap >> slot & 1 == 1) {
            let found = RecordRef::load(medium, record).ok_or(Damage::record(record))?;
            let key = found.key(medium);
            self.verify_entry(leaf, slot, &found, &key)?;
            all.push(NewEntry { key, record });
        }
        let last_old = all.iter().map(|entry| &entry.key).max().cloned();
        // Ascending keys leave full leaves behind.
        let appends = is_last && added.iter().all(|entry| Some(&entry.key) > last_old.as_ref());
        all.extend(added);
        all.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let per_leaf = if appends || all.len() <= ENTRIES {
            ENTRIES
        } else {
            SPLIT_ENTRIES
        };
        self.write_leaves(&all, per_leaf)
    }

    /// Fails unless an entry is one of the key of its record, which is read and not verified: a key that is
    /// damaged must not get an entry.
    fn verify_entry(&self, leaf: &Leaf, slot: usize, record: &RecordRef, key: &[u8]) -> Result<(), Damage> {
        if injected(StoreFault::TrustEntries) {
            return Ok(());
        }
        // The entry has all bytes of a short key, but not whether zeros at its end are part of it.
        let is_short = key.len() <= leaf.prefix().len() + 8 && key.last() != Some(&0);
        let is_of_entry = leaf.is_entry_of(slot, key);
        if (!is_short || !is_of_entry) && record.contents(self.medium()).is_none() {
            return Err(Damage::record(record.offset));
        }
        if !is_of_entry {
            return Err(Damage::entry(leaf.place().offset));
        }
        if record.head.store.get() == self.store {
            Ok(())
        } else {
            Err(Damage::store(record.offset))
        }
    }

    /// Writes leaves of `per_leaf` entries each, or a few fewer. Returns their lower separators and offsets.
    pub(super) fn write_leaves(&mut self, entries: &[NewEntry], per_leaf: usize) -> Result<NewLeaves> {
        let medium = self.medium();
        let leaves = entries.len().div_ceil(per_leaf);
        let even = entries.len().div_ceil(leaves.max(1));
        let size = match per_leaf {
            ENTRIES => ENTRIES,
            _ => even,
        };
        let mut written = Vec::with_capacity(leaves);
        let mut before: Option<&NewEntry> = None;
        for entries in entries.chunks(size) {
            let page = self.alloc(SegmentKind::Leaves)?;
            medium.store(page, Leaf::new(self.place(page), entries).as_bytes());
            medium.flush(page, LEAF);
            written.push((separator(before.map(|entry| &entry.key), &entries[0].key), page));
            before = entries.last();
        }
        Ok(written)
    }
}

/// Returns the entry of a key, or `None` if the key is to be removed.
pub(super) fn new_entry(key: &[u8], entry: MemEntry) -> Option<NewEntry> {
    match entry {
        MemEntry::Record(record) => Some(NewEntry {
            key: key.to_vec(),
            record,
        }),
        MemEntry::Purged => None,
    }
}

/// Finds the slot of a key.
fn find(medium: &Medium, store: u32, leaf: &Leaf, key: &[u8]) -> Result<Option<usize>, Damage> {
    let trusted = injected(StoreFault::TrustEntries);
    for (slot, record) in leaf.matches(fingerprint(key)) {
        let found = RecordRef::load(medium, record).ok_or(Damage::record(record))?;
        let is_of_store = found.head.store.get() == store || trusted;
        if found.is_of(medium, key) && is_of_store {
            return Ok(Some(slot));
        }
        let contents = found.contents(medium).ok_or(Damage::record(record))?;
        if !is_of_store {
            return Err(Damage::store(record));
        }
        if !leaf.is_entry_of(slot, contents.key()) && !trusted {
            return Err(Damage::entry(leaf.place().offset));
        }
    }
    Ok(None)
}

/// Returns the shortest key that is above `before` and not above `first`.
pub(crate) fn separator(before: Option<&Vec<u8>>, first: &[u8]) -> Vec<u8> {
    match before {
        Some(before) => first[..(common_prefix(before, first) + 1).min(first.len())].to_vec(),
        None => Vec::new(),
    }
}
