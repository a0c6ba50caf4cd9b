//! The catalog: the segments in use and the stores, as of a checkpoint.
//!
//! A checkpoint appends to the catalog what has changed since the one before, so that its cost depends on
//! that and not on the size of the stores. Once more was appended than the catalog had at first, a new one is
//! written, whose space the old one needs no more.
//!
//! Invariants: bytes that a checkpoint names are not changed, only bytes after them. Each change of a
//! segment since the newest catalog is either among the [changed](crate::segments::Segments::take_changed)
//! ones or in the catalog that is being written. A log segment is in it as it was at the beginning of the
//! checkpoint, since opening replays what came after that.

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromZeros, IntoBytes};

use crate::fault::{StoreFault, injected};
use crate::layout::{
    CatalogDelta, CatalogHead, CatalogSegment, KIND_NONE, SEGMENT, SegmentEntry, StoreEntry,
};
use crate::merge::MergeError;
use crate::segments::{Freed, SegmentKind, SegmentUse, Segments};
use crate::state::StoresState;

/// Bytes of a catalog in each of its segments but the last one.
pub(crate) const CATALOG_ROOM: u64 = SEGMENT - size_of::<CatalogSegment>() as u64;

/// Bytes that are appended to a catalog before a new one is written, at least.
const MIN_APPENDED_BYTES: u64 = 8 << 10;

/// A stored catalog.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    /// Its segments, in order. None before the first checkpoint.
    pub(crate) segments: Vec<u64>,
    pub(crate) len: u64,
    pub(crate) sum: u64,
    /// Bytes that it had at first.
    pub(crate) first_len: u64,
    /// The stores in it, by their numbers.
    pub(crate) stores: BTreeMap<u32, CatalogStore>,
    /// True if the next checkpoint has to write a new one: it is damaged, or in segments to give back.
    pub(crate) must_renew: bool,
}

/// A store in a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CatalogStore {
    pub(crate) name: String,
    pub(crate) root: u64,
    /// One more than the level of the root; 0 if there is none, or if it is not known.
    pub(crate) levels: u16,
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
}

/// The contents of a catalog to be written.
pub(crate) struct CatalogContents<'a> {
    pub(crate) stores: BTreeMap<u32, CatalogStore>,
    pub(crate) next_store: u32,
    /// Segments that have changed since the catalog before, up to the beginning of the checkpoint.
    pub(crate) changed: &'a BTreeSet<u64>,
    /// The log segments among them, or all if the catalog is to be a new one, as of the beginning of the
    /// checkpoint.
    pub(crate) logs: &'a BTreeMap<u64, SegmentUse>,
    /// Pages that the checkpoint has allocated.
    pub(crate) allocated: &'a Freed,
    /// Pages and segments that are free with the checkpoint.
    pub(crate) freed: [&'a Freed; 2],
}

impl Catalog {
    /// Returns true if a checkpoint has to write a new catalog after this one.
    pub(crate) fn is_renewed(&self) -> bool {
        let appended = self.len - self.first_len;
        self.segments.is_empty()
            || self.must_renew
            || appended > self.first_len.max(MIN_APPENDED_BYTES)
            || injected(StoreFault::RenewCatalog)
    }
}

impl CatalogContents<'_> {
    /// Returns the pages of each segment that are free with the checkpoint, and the segments that are.
    fn unused(&self, segments: &Segments) -> (BTreeMap<u64, u64>, BTreeSet<u64>) {
        let mut pages = BTreeMap::new();
        for &(page, kind) in self.freed.iter().flat_map(|freed| &freed.pages) {
            if let Some(segment) = segments.start_of(page) {
                *pages.entry(segment).or_insert(0) |= kind.bit(page - segment);
            }
        }
        let whole = self.freed.iter().flat_map(|freed| &freed.segments).copied();
        (pages, whole.collect())
    }

    /// Returns the entries of segments: those that may have changed, or all that are in use.
    fn entries(&self, segments: &Segments, all: bool) -> Vec<SegmentEntry> {
        let (pages, whole) = self.unused(segments);
        let wanted: BTreeSet<u64> = if all {
            let with_pages = segments.iter().filter(|(_, used)| used.kind != SegmentKind::Log);
            with_pages
                .map(|(offset, _)| offset)
                .chain(self.logs.keys().copied())
                .collect()
        } else {
            let allocated = self
                .allocated
                .pages
                .iter()
                .filter_map(|page| segments.start_of(page.0));
            let allocated = allocated.filter(|_| !injected(StoreFault::ForgetAllocated));
            let changed = self.changed.iter();
            let changed = changed.filter(|_| !injected(StoreFault::ForgetChanged));
            let changed = changed.chain(pages.keys()).chain(&whole).copied();
            changed.chain(allocated).collect()
        };
        let entries = wanted.into_iter().map(|offset| {
            let with_pages = || segments.get(offset).filter(|used| used.kind != SegmentKind::Log);
            let current = self.logs.get(&offset).or_else(with_pages);
            let current = current.filter(|_| !whole.contains(&offset));
            let used = current.map_or(0, |segment| match segment.kind {
                SegmentKind::Log => segment.used,
                _ => segment.used & !pages.get(&offset).copied().unwrap_or(0),
            });
            // A segment without pages is free; a log segment may have records after the checkpoint.
            let current = current.filter(|segment| segment.kind == SegmentKind::Log || used != 0);
            SegmentEntry {
                offset: U64::new(offset),
                used: U64::new(used),
                expires: U64::new(current.map_or(0, |segment| segment.expires)),
                kind: U32::new(current.map_or(KIND_NONE, |segment| segment.kind.number())),
                store: U32::new(current.map_or(0, |segment| segment.store.number())),
            }
        });
        entries
            .filter(|entry| !all || entry.kind.get() != KIND_NONE)
            .collect()
    }

    /// Encodes a whole catalog.
    fn encode(&self, segments: &Segments) -> Vec<u8> {
        let entries = self.entries(segments, true);
        let head = CatalogHead {
            segments: U64::new(entries.len() as u64),
            stores: U32::new(self.stores.len() as u32),
            next_store: U32::new(self.next_store),
        };
        let mut bytes = [head.as_bytes(), entries.as_bytes()].concat();
        for (id, store) in &self.stores {
            store.encode(*id, &mut bytes);
        }
        bytes
    }

    /// Encodes the differences from a catalog.
    fn encode_delta(&self, segments: &Segments, before: &Catalog) -> Vec<u8> {
        let entries = self.entries(segments, false);
        let changed: Vec<_> = self
            .stores
            .iter()
            .filter(|(id, store)| before.stores.get(id) != Some(store))
            .collect();
        let dropped: Vec<U32> = before
            .stores
            .keys()
            .filter(|id| !self.stores.contains_key(id))
            .map(|id| U32::new(*id))
            .collect();
        let head = CatalogDelta {
            segments: U64::new(entries.len() as u64),
            stores: U32::new(changed.len() as u32),
            dropped: U32::new(dropped.len() as u32),
            next_store: U32::new(self.next_store),
            reserved: U32::ZERO,
        };
        let mut bytes = [head.as_bytes(), entries.as_bytes(), dropped.as_bytes()].concat();
        for (id, store) in changed {
            store.encode(*id, &mut bytes);
        }
        bytes
    }
}

impl CatalogStore {
    fn encode(&self, id: u32, bytes: &mut Vec<u8>) {
        let entry = StoreEntry {
            id: U32::new(id),
            name_len: U16::new(self.name.len() as u16),
            levels: U16::new(self.levels),
            root: U64::new(self.root),
            keys: U64::new(self.keys),
            bytes: U64::new(self.bytes),
        };
        bytes.extend_from_slice(entry.as_bytes());
        bytes.extend_from_slice(self.name.as_bytes());
    }
}

impl StoresState {
    /// Stores a catalog, by what has changed since the one before if there is one. Returns it with the
    /// segments that it does not share with that.
    ///
    /// # Errors
    /// A full disk: the catalog before is what it was.
    pub(crate) fn write_catalog(
        &self,
        before: &Catalog,
        contents: CatalogContents<'_>,
    ) -> Result<Catalog, MergeError> {
        let is_new = before.is_renewed();
        let (bytes, mut catalog) = {
            let segments = self.segments();
            if is_new {
                (contents.encode(&segments), Catalog::default())
            } else {
                (contents.encode_delta(&segments, before), before.clone())
            }
        };
        self.append_to_catalog(&mut catalog, &bytes)?;
        if is_new {
            catalog.first_len = catalog.len;
        }
        catalog.stores = contents.stores;
        Ok(catalog)
    }

    /// Stores bytes after a catalog, in its last segment and in new ones.
    fn append_to_catalog(&self, catalog: &mut Catalog, bytes: &[u8]) -> Result<(), MergeError> {
        let medium = self.medium();
        let head = size_of::<CatalogSegment>() as u64;
        let before = catalog.segments.len();
        let needed = (catalog.len + bytes.len() as u64).div_ceil(CATALOG_ROOM) as usize;
        for _ in before..needed {
            match self.slab.alloc() {
                Ok(segment) => catalog.segments.push(segment),
                Err(error) => {
                    catalog
                        .segments
                        .drain(before..)
                        .for_each(|segment| self.slab.free(segment));
                    return Err(error.into());
                }
            }
        }
        for at in before..needed {
            let segment = catalog.segments[at];
            medium.store(segment, CatalogSegment::new_zeroed().as_bytes());
            medium.flush(segment, head);
            if let Some(last) = at.checked_sub(1) {
                // The checkpoint before does not need this word of its last segment.
                medium.store_u64(catalog.segments[last], segment);
                medium.flush(catalog.segments[last], 8);
            }
        }
        let (mut at, mut rest) = (catalog.len, bytes);
        if injected(StoreFault::OverwriteCatalog) {
            at = at.saturating_sub(bytes.len() as u64);
        }
        while !rest.is_empty() {
            let segment = catalog.segments[(at / CATALOG_ROOM) as usize];
            let room = (CATALOG_ROOM - at % CATALOG_ROOM) as usize;
            let (piece, after) = rest.split_at(room.min(rest.len()));
            let offset = segment + head + at % CATALOG_ROOM;
            medium.store(offset, piece);
            medium.flush(offset, piece.len() as u64);
            (at, rest) = (at + piece.len() as u64, after);
        }
        catalog.len += bytes.len() as u64;
        catalog.sum = xxh3_64_with_seed(bytes, catalog.sum);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment that the log goes on in during the checkpoint is one that it links to, and none of the
    /// catalog.
    #[test]
    fn log_segments_are_in_it_as_they_were_at_the_beginning() {
        let leaves = SegmentUse {
            kind: SegmentKind::Leaves,
            used: 1,
            ..SegmentUse::NEW_LOG
        };
        let [log, pages, next] = [1, 2, 3].map(|number| number * SEGMENT);
        let mut segments = Segments::default();
        segments.insert(log, SegmentUse::NEW_LOG);
        segments.insert(pages, leaves);
        segments.add_live(1, log + 64, 100, 0);
        // It was in use before, and is free.
        segments.insert(next, leaves);
        segments.remove(next);
        let changed = segments.take_changed();
        let logs = BTreeMap::from([(log, *segments.get(log).unwrap())]);
        segments.add_live(1, log + 164, 50, 0);
        segments.insert(next, SegmentUse::NEW_LOG);
        let none = Freed::default();
        let contents = CatalogContents {
            stores: BTreeMap::new(),
            next_store: 1,
            changed: &changed,
            logs: &logs,
            allocated: &none,
            freed: [&none, &none],
        };
        let of_log = (log, 100, SegmentKind::Log.number());
        let of_pages = (pages, 1, SegmentKind::Leaves.number());
        for all in [true, false] {
            let entries = contents.entries(&segments, all);
            let found: Vec<_> = entries
                .iter()
                .map(|entry| (entry.offset.get(), entry.used.get(), entry.kind.get()))
                .collect();
            let of_next = (!all).then_some((next, 0, KIND_NONE));
            let expected: Vec<_> = [of_log, of_pages].into_iter().chain(of_next).collect();
            assert_eq!(found, expected, "all: {all}");
        }
    }
}
