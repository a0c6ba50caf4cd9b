//! The sources of a step of a scan, each in the order of the scan: [`LeafCursor`], [`TableCursors`].

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::iter::Peekable;

use halocline_media::Medium;

use crate::fault::{StoreFault, injected};
use crate::key_range::{KeyBounds, contains};
use crate::leaf::{ENTRIES, Leaf, LeafPlace, MAX_PREFIX, fingerprint, slice_of};
use crate::memtable::{MemEntry, MemTable};
use crate::record::RecordRef;
use crate::record_arena::{RecordArena, RecordSpan};
use crate::scan::Direction;
use crate::tree::{Damage, load_leaf};

/// Distance in entries at which records of a leaf are prefetched, and lines of each.
const PREFETCH: usize = 8;
const PREFETCH_LINES: u64 = 3;

impl Direction {
    /// Compares two keys by their places in the scan.
    #[inline]
    pub(crate) fn compare(self, one: &[u8], other: &[u8]) -> Ordering {
        match self {
            Self::Forward => one.cmp(other),
            Self::Backward => other.cmp(one),
        }
    }
}

/// A record of a leaf, in the arena of the step.
#[derive(Debug)]
pub(crate) struct LoadedRecord {
    pub(crate) record: RecordRef,
    pub(crate) span: RecordSpan,
}

/// An entry of a leaf. Of those with the same slice the records decide the order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct CursorEntry {
    slice: u64,
    /// Offset of the record.
    record: u64,
    fingerprint: u8,
}

/// The records of a leaf between two bounds.
pub(crate) struct LeafCursor<'a> {
    bounds: KeyBounds<'a>,
    direction: Direction,
    /// The store and the leaf, and the prefix of its keys.
    place: LeafPlace,
    prefix: ([u8; MAX_PREFIX], usize),
    entries: [CursorEntry; ENTRIES],
    at: usize,
    len: usize,
    /// The records of one slice, in order.
    loaded: &'a mut VecDeque<LoadedRecord>,
}

impl<'a> LeafCursor<'a> {
    /// Opens a cursor on a leaf, or on nothing. `loaded` is space to use.
    pub(crate) fn new(
        medium: &Medium,
        leaf: Option<LeafPlace>,
        bounds: KeyBounds<'a>,
        direction: Direction,
        loaded: &'a mut VecDeque<LoadedRecord>,
    ) -> Result<Self, Damage> {
        loaded.clear();
        let mut cursor = Self {
            bounds,
            direction,
            place: LeafPlace { store: 0, offset: 0 },
            prefix: ([0; MAX_PREFIX], 0),
            entries: [CursorEntry::default(); ENTRIES],
            at: 0,
            len: 0,
            loaded,
        };
        if let Some(leaf) = leaf {
            cursor.fill(&load_leaf(medium, leaf)?);
        }
        for entry in &cursor.entries[..cursor.len.min(PREFETCH)] {
            medium.prefetch_lines(entry.record, PREFETCH_LINES);
        }
        Ok(cursor)
    }

    fn fill(&mut self, leaf: &Leaf) {
        self.place = leaf.place();
        let prefix = leaf.prefix();
        self.prefix.0[..prefix.len()].copy_from_slice(prefix);
        self.prefix.1 = prefix.len();
        let slices = leaf.slices(self.bounds);
        for (slot, slice, record) in leaf.entries() {
            if slices.contains(&slice) {
                self.entries[self.len] = CursorEntry {
                    slice,
                    record,
                    fingerprint: leaf.fingerprint(slot),
                };
                self.len += 1;
            }
        }
        let entries = &mut self.entries[..self.len];
        entries.sort_unstable();
        if self.direction == Direction::Backward {
            entries.reverse();
        }
    }

    /// Returns true if more records of the slice of the last one are loaded.
    pub(crate) fn is_within_slice(&self) -> bool {
        !self.loaded.is_empty()
    }

    /// Returns the next record, without going to the one after it.
    #[inline]
    pub(crate) fn peek(
        &mut self,
        medium: &Medium,
        arena: &mut RecordArena,
    ) -> Result<Option<&LoadedRecord>, Damage> {
        while self.loaded.is_empty() && self.at < self.len {
            self.load_slice(medium, arena)?;
        }
        Ok(self.loaded.front())
    }

    /// Returns the record that [`peek`](Self::peek) has shown.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<LoadedRecord> {
        self.loaded.pop_front()
    }

    /// Returns true if an entry is one of this key.
    #[inline]
    fn is_of(&self, entry: CursorEntry, key: &[u8]) -> bool {
        let prefix = &self.prefix.0[..self.prefix.1];
        key.starts_with(prefix)
            && slice_of(key, prefix.len()) == entry.slice
            && fingerprint(key) == entry.fingerprint
    }

    fn load_slice(&mut self, medium: &Medium, arena: &mut RecordArena) -> Result<(), Damage> {
        let slice = self.entries[self.at].slice;
        let mut before = None;
        while self.at < self.len && self.entries[self.at].slice == slice {
            let entry = self.entries[self.at];
            let offset = entry.record;
            if let Some(soon) = self.entries[..self.len].get(self.at + PREFETCH) {
                medium.prefetch_lines(soon.record, PREFETCH_LINES);
            }
            self.at += 1;
            let record = RecordRef::load(medium, offset).ok_or(Damage::record(offset))?;
            // A damaged key would be missing from its range.
            let span = arena.load(medium, &record).ok_or(Damage::record(offset))?;
            if !injected(StoreFault::TrustEntries) {
                if record.head.store.get() != self.place.store {
                    return Err(Damage::store(offset));
                }
                if before.replace(offset) == Some(offset) || !self.is_of(entry, arena.get(&span.key)) {
                    return Err(Damage::entry(self.place.offset));
                }
            }
            if contains(self.bounds, arena.get(&span.key)) {
                self.loaded.push_back(LoadedRecord { record, span });
            }
        }
        if self.loaded.len() > 1 {
            let direction = self.direction;
            self.loaded.make_contiguous().sort_unstable_by(|one, other| {
                direction.compare(arena.get(&one.span.key), arena.get(&other.span.key))
            });
        }
        Ok(())
    }
}

/// An iterator in the direction of a scan.
pub(crate) struct Directed<I> {
    ascending: I,
    direction: Direction,
}

impl<I: DoubleEndedIterator> Iterator for Directed<I> {
    type Item = I::Item;

    #[inline]
    fn next(&mut self) -> Option<I::Item> {
        match self.direction {
            Direction::Forward => self.ascending.next(),
            Direction::Backward => self.ascending.next_back(),
        }
    }
}

/// The entries of both memtables, where those of the active one replace those of the frozen one.
pub(crate) struct TableCursors<I: Iterator> {
    active: Peekable<I>,
    frozen: Option<Peekable<I>>,
    direction: Direction,
}

impl<'a> TableCursors<std::iter::Empty<(&'a [u8], MemEntry)>> {
    /// Opens cursors on the entries between two bounds.
    pub(crate) fn new(
        active: &'a MemTable,
        frozen: Option<&'a MemTable>,
        bounds: KeyBounds<'_>,
        direction: Direction,
    ) -> TableCursors<impl Iterator<Item = (&'a [u8], MemEntry)>> {
        let entries = |table: &'a MemTable| {
            let ascending = table.range_of(bounds);
            Directed { ascending, direction }.peekable()
        };
        TableCursors {
            active: entries(active),
            frozen: frozen.map(entries),
            direction,
        }
    }
}

impl<'a, I: Iterator<Item = (&'a [u8], MemEntry)>> TableCursors<I> {
    /// Returns the key of the next entry.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<&'a [u8]> {
        let active = self.active.peek().map(|(key, _)| *key);
        let frozen = self.frozen.as_mut().and_then(|table| table.peek());
        match (active, frozen) {
            (Some(active), Some((frozen, _))) if self.direction.compare(active, frozen).is_gt() => {
                Some(frozen)
            }
            (Some(active), _) => Some(active),
            (None, frozen) => frozen.map(|(key, _)| *key),
        }
    }

    /// Returns the next entry, which has the key that [`peek`](Self::peek) has shown.
    pub(crate) fn take(&mut self, key: &[u8]) -> Option<MemEntry> {
        let is_of_key = |entry: &(&[u8], MemEntry)| entry.0 == key;
        let active = self.active.next_if(is_of_key);
        let frozen = self.frozen.as_mut().and_then(|table| table.next_if(is_of_key));
        active.or(frozen).map(|(_, entry)| entry)
    }
}
