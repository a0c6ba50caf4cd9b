//! Reading of a stored catalog: [`load_catalog`].
//!
//! Invariant: parts are verified as a whole. An earlier part may name segments that later ones do not: they
//! may be parts of the catalog since, or not even be in the slab any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use halocline_pool::Slab;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::catalog::{CATALOG_ROOM, Catalog, CatalogStore};
use crate::layout::{
    CatalogDelta, CatalogHead, CatalogSegment, Checkpoint, KIND_NONE, SegmentEntry, StoreEntry,
};
use crate::page_source::is_segment;
use crate::segments::{RecordsOf, SegmentKind, SegmentUse, Segments};
use crate::state::{Opening, StoreState};
use crate::tree::{Damage, Tree};

/// A catalog in DRAM.
pub(crate) struct LoadedCatalog {
    /// All segments in use but those of the catalog.
    pub(crate) segments: Segments,
    pub(crate) stores: BTreeMap<String, Arc<StoreState>>,
    pub(crate) next_store: u32,
    pub(crate) catalog: Catalog,
}

/// Loads and verifies the catalog that a checkpoint names.
pub(crate) fn load_catalog(
    slab: &Slab,
    checkpoint: &Checkpoint,
    opening: Opening,
) -> Result<LoadedCatalog, Damage> {
    let (bytes, own) = load_bytes(slab, checkpoint)?;
    let start = damage(checkpoint.catalog.get());
    let parts = CatalogParts::read(&bytes).ok_or(start)?;
    if parts.sum != checkpoint.catalog_sum.get() || !parts.are_stores_plausible() {
        return Err(start);
    }
    for (&offset, segment) in &parts.segments {
        if !is_segment(slab, offset) || !segment.is_plausible() || own.contains(&offset) {
            return Err(damage(offset));
        }
    }
    let log = checkpoint.log_segment.get();
    let is_log = |segment: &SegmentUse| segment.kind == SegmentKind::Log;
    if !parts.segments.get(&log).is_some_and(is_log) {
        return Err(damage(log));
    }
    let mut stores = BTreeMap::new();
    for (&id, store) in &parts.stores {
        let tree = match store.root {
            0 => Tree::new(id, None),
            root => Tree::of_page(id, root, store.levels.checked_sub(1)),
        };
        let state = StoreState::new(opening, id, &store.name, tree, store.keys, store.bytes);
        state.durable.store(true, Ordering::Release);
        stores.insert(store.name.clone(), state);
    }
    Ok(LoadedCatalog {
        segments: Segments::of_catalog(parts.segments.into_iter().collect()),
        stores,
        next_store: parts.next_store,
        catalog: Catalog {
            segments: own,
            len: bytes.len() as u64,
            sum: parts.sum,
            first_len: parts.first_len as u64,
            stores: parts.stores,
            must_renew: false,
        },
    })
}

fn damage(offset: u64) -> Damage {
    Damage {
        offset,
        what: "the catalog is not what the checkpoint names",
    }
}

/// Loads the bytes of the catalog that a checkpoint names. Returns them with its segments.
fn load_bytes(slab: &Slab, checkpoint: &Checkpoint) -> Result<(Vec<u8>, Vec<u64>), Damage> {
    let (medium, len) = (slab.medium(), checkpoint.catalog_len.get());
    let (mut bytes, mut own) = (Vec::new(), Vec::new());
    let mut at = checkpoint.catalog.get();
    while (bytes.len() as u64) < len {
        if !is_segment(slab, at) || own.contains(&at) {
            return Err(damage(at));
        }
        own.push(at);
        let mut head = CatalogSegment::new_zeroed();
        medium.load(at, head.as_mut_bytes());
        let start = bytes.len();
        let here = CATALOG_ROOM.min(len - start as u64);
        bytes.resize(start + here as usize, 0);
        medium.load(at + size_of::<CatalogSegment>() as u64, &mut bytes[start..]);
        at = head.next.get();
    }
    Ok((bytes, own))
}

/// The contents of a catalog as its parts together tell them.
#[derive(Default)]
pub(crate) struct CatalogParts {
    segments: BTreeMap<u64, SegmentUse>,
    stores: BTreeMap<u32, CatalogStore>,
    next_store: u32,
    /// Bytes of the first part.
    first_len: usize,
    /// xxh3-64 of the last part, seeded with that of the parts before.
    pub(crate) sum: u64,
}

impl CatalogParts {
    /// Reads all parts. `None` if one of them contradicts itself.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut parts = Self::default();
        let mut rest = parts.read_first(bytes)?;
        parts.first_len = bytes.len() - rest.len();
        parts.sum = xxh3_64(&bytes[..parts.first_len]);
        while !rest.is_empty() {
            let after = parts.read_delta(rest)?;
            parts.sum = xxh3_64_with_seed(&rest[..rest.len() - after.len()], parts.sum);
            rest = after;
        }
        Some(parts)
    }

    /// Reads the first part. Returns what follows it.
    fn read_first<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (head, rest) = CatalogHead::read_from_prefix(bytes).ok()?;
        self.next_store = head.next_store.get();
        let rest = self.read_segments(rest, head.segments.get())?;
        self.read_stores(rest, head.stores.get())
    }

    /// Reads a later part, as [`read_first`](Self::read_first).
    fn read_delta<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (head, rest) = CatalogDelta::read_from_prefix(bytes).ok()?;
        self.next_store = Some(head.next_store.get()).filter(|next| *next >= self.next_store)?;
        let rest = self.read_segments(rest, head.segments.get())?;
        let dropped = head.dropped.get() as usize;
        let (dropped, rest) = <[U32]>::ref_from_prefix_with_elems(rest, dropped).ok()?;
        for id in dropped {
            self.stores.remove(&id.get())?;
        }
        self.read_stores(rest, head.stores.get())
    }

    fn read_segments<'a>(&mut self, bytes: &'a [u8], count: u64) -> Option<&'a [u8]> {
        let count = usize::try_from(count).ok()?;
        let (entries, rest) = <[SegmentEntry]>::ref_from_prefix_with_elems(bytes, count).ok()?;
        let mut before = 0;
        for entry in entries {
            let offset = entry.offset.get();
            if std::mem::replace(&mut before, offset) >= offset {
                return None;
            }
            if entry.kind.get() == KIND_NONE {
                self.segments.remove(&offset);
                continue;
            }
            let segment = SegmentUse {
                kind: SegmentKind::from_number(entry.kind.get())?,
                used: entry.used.get(),
                expires: entry.expires.get(),
                store: RecordsOf::from_number(entry.store.get()),
            };
            self.segments.insert(offset, segment);
        }
        Some(rest)
    }

    fn read_stores<'a>(&mut self, bytes: &'a [u8], count: u32) -> Option<&'a [u8]> {
        let (mut rest, mut ids) = (bytes, BTreeSet::new());
        for _ in 0..count {
            let (entry, after) = StoreEntry::read_from_prefix(rest).ok()?;
            let (name, after) = after.split_at_checked(entry.name_len.get().into())?;
            let store = CatalogStore {
                name: str::from_utf8(name).ok()?.to_owned(),
                root: entry.root.get(),
                levels: entry.levels.get(),
                keys: entry.keys.get(),
                bytes: entry.bytes.get(),
            };
            if !ids.insert(entry.id.get()) {
                return None;
            }
            self.stores.insert(entry.id.get(), store);
            rest = after;
        }
        Some(rest)
    }

    /// Returns true if no two stores have one name, and the next new store gets a number of its own.
    fn are_stores_plausible(&self) -> bool {
        let names: BTreeSet<&str> = self.stores.values().map(|store| store.name.as_str()).collect();
        let last = self.stores.last_key_value();
        names.len() == self.stores.len() && last.is_none_or(|(id, _)| *id < self.next_store)
    }
}
