//! Checkpoints: the entries of the memtables move to the leaves, and the log before is not needed to open.
//!
//! Order of durability: (1) new entries of leaves, new pages and replaced values; (2) bitmaps and the
//! catalog; (3) the checkpoint, which names both. The log is durable before any of it. Commits go on
//! meanwhile, in memtables of their own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use halocline_pool::Slab;
use xxhash_rust::xxh3::xxh3_64;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::commit::Committer;
use crate::error::{Result, StoreError};
use crate::fault::{StoreFault, injected};
use crate::layout::{
    CHECKPOINT_COPY, CatalogHead, CatalogSegment, Checkpoint, MAGIC, SEGMENT, SegmentEntry, StoreEntry,
    VERSION,
};
use crate::leaf::EntrySlot;
use crate::log::LogPosition;
use crate::memtable::{MemEntry, MemTable};
use crate::merge::{Merge, MergeError, MergedTree};
use crate::record::RecordRef;
use crate::segments::{Freed, SegmentKind, SegmentUse, Segments};
use crate::snapshots::Snapshots;
use crate::state::{Located, StoreState, StoresState};
use crate::tree::Tree;

/// Writes the catalog of these trees, without what becomes free.
type WriteCatalog<'a> = dyn Fn(&[Tree], &Freed) -> Result<StoredCatalog, MergeError> + 'a;

/// A store at the beginning of a checkpoint.
struct FrozenStore {
    store: Arc<StoreState>,
    table: Arc<MemTable>,
    tree: Tree,
    keys: u64,
    bytes: u64,
}

/// The state at the beginning of a checkpoint.
struct Frozen {
    stores: Vec<FrozenStore>,
    position: LogPosition,
    secret: u64,
    commit: u64,
    number: u64,
    next_store: u32,
    dirty: Vec<EntrySlot>,
    freed: Freed,
    /// Space that waits for readers, and that no checkpoint needs.
    waiting: Freed,
    old_catalog: Vec<u64>,
    /// Log segments with the bytes that are needed after a crash.
    logs: BTreeMap<u64, SegmentUse>,
}

impl StoresState {
    /// Makes a checkpoint.
    ///
    /// # Errors
    /// Damage, a full disk: the last checkpoint stays. Errors of the medium: all later writes fail.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.writable()?;
        self.settle()?;
        let frozen = self.freeze()?;
        let mut pages = Freed::default();
        let mut freed = frozen.freed;
        let freed_before = freed.pages.len();
        let made = self.make(
            &frozen.stores,
            &frozen.dirty,
            &mut freed,
            &mut pages,
            &|catalog, freed| {
                let freed = [freed, &frozen.waiting];
                self.write_catalog(&frozen.stores, catalog, freed, &frozen.logs, frozen.next_store)
            },
        );
        match made {
            Ok((trees, catalog)) => {
                let checkpoint = Checkpoint {
                    magic: MAGIC,
                    version: U32::new(VERSION),
                    number: U64::new(frozen.number),
                    log: U64::new(frozen.position.offset),
                    log_segment: U64::new(frozen.position.segment),
                    frame: U64::new(frozen.position.number),
                    chain: U64::new(frozen.position.chain),
                    secret: U64::new(frozen.secret),
                    commit: U64::new(frozen.commit),
                    catalog: U64::new(catalog.segments[0]),
                    catalog_len: U64::new(catalog.len),
                    catalog_sum: U64::new(catalog.sum),
                    ..Checkpoint::default()
                };
                let stored = self.store_checkpoint(checkpoint);
                if let Err(error) = &stored {
                    self.poison(error);
                }
                stored?;
                freed.segments.extend(frozen.old_catalog);
                self.finish(frozen.stores, trees, catalog.segments, frozen.number, freed);
                self.checkpoints.fetch_add(1, Ordering::Release);
                self.progress.notify_all();
                Ok(())
            }
            Err(error) => {
                if let MergeError::Media(error) = &error {
                    self.poison(error);
                }
                // The pages that the merge has freed are still needed.
                freed.pages.truncate(freed_before);
                self.thaw(frozen.stores, frozen.dirty, freed, frozen.old_catalog, &pages);
                self.progress.notify_all();
                Err(match error {
                    MergeError::Damage(damage) => self.damaged(damage),
                    MergeError::Pool(error) => StoreError::Pool(error),
                    MergeError::Media(error) => StoreError::Media(error),
                })
            }
        }
    }

    /// Takes the entries of all memtables; commits go to new ones.
    fn freeze(&self) -> Result<Frozen> {
        // Most of what waits for a fence is durable before commits have to wait for the rest.
        self.flush()?;
        let mut committer = self.committer();
        if !committer.log.is_fenced() {
            self.fence_log(&mut committer)?;
        }
        let mut snapshots = self.snapshots();
        self.look_for_readers(&mut committer, &mut snapshots);
        self.purge(&mut committer, &snapshots)?;
        let logs = self.needed_logs(&snapshots)?;
        drop(snapshots);
        committer.merging = true;
        self.frozen.store(committer.commit, Ordering::Release);
        let stores: Vec<_> = self.stores().values().cloned().collect();
        let stores = stores.into_iter().map(|store| {
            let mut trees = store.write();
            let table = Arc::new(std::mem::take(&mut trees.active));
            trees.frozen = Some(Arc::clone(&table));
            let tree = trees.tree.clone();
            drop(trees);
            FrozenStore {
                table,
                tree,
                keys: store.keys.load(Ordering::Relaxed),
                bytes: store.bytes.load(Ordering::Relaxed),
                store,
            }
        });
        let stores = stores.collect();
        let mut position = committer.log.position();
        if injected(StoreFault::SkipTail) {
            position.number += 1;
        }
        committer.pending_records = 0;
        committer.pending_bytes = 0;
        Ok(Frozen {
            stores,
            position,
            secret: committer.log.secret(),
            commit: committer.commit,
            number: committer.checkpoint + 1,
            next_store: committer.next_store,
            dirty: std::mem::take(&mut committer.dirty),
            freed: std::mem::take(&mut committer.freed),
            waiting: committer.waiting.clone(),
            old_catalog: std::mem::take(&mut committer.catalog),
            logs,
        })
    }

    /// Removes the keys whose deletion no snapshot needs any more.
    fn purge(&self, committer: &mut Committer, snapshots: &Snapshots) -> Result<()> {
        let oldest = snapshots.oldest();
        let deletions = std::mem::take(&mut committer.deletions);
        for (store, key, commit) in deletions {
            let is_needed = oldest.is_some_and(|oldest| oldest < commit);
            if is_needed && !injected(StoreFault::PurgeEarly) {
                committer.deletions.push((store, key, commit));
                continue;
            }
            let mut trees = store.write();
            let located = trees
                .locate(&self.pages(), &key)
                .map_err(|damage| self.damaged(damage))?;
            // The key may have been set, and deleted again, since.
            let is_it = |located: &Located| located.record.is_deleted() && located.record.commit() == commit;
            if let Some(located) = located.filter(is_it) {
                trees.active.set(&key, MemEntry::Purged);
                self.forget(&located.record)
                    .map_err(|damage| self.damaged(damage))?;
            }
        }
        Ok(())
    }

    /// Returns the log segments with the bytes that are needed after a crash, when there are no snapshots.
    fn needed_logs(&self, snapshots: &Snapshots) -> Result<BTreeMap<u64, SegmentUse>> {
        let is_log = |(_, segment): &(u64, &SegmentUse)| segment.kind == SegmentKind::Log;
        let mut logs: BTreeMap<u64, SegmentUse> = self
            .segments()
            .iter()
            .filter(is_log)
            .map(|(offset, segment)| (offset, *segment))
            .collect();
        let mut subtract = |record: u64, len: u64| {
            if let Some((_, segment)) = logs.range_mut(..=record).next_back() {
                segment.used = segment.used.saturating_sub(len);
            }
        };
        for offset in snapshots.kept() {
            let Some(record) = RecordRef::load(self.medium(), offset) else {
                continue;
            };
            subtract(offset, record.len());
            let chunks = self.extent_of(&record).map_err(|damage| self.damaged(damage))?.1;
            for chunk in chunks {
                if let Some(record) = RecordRef::load(self.medium(), chunk) {
                    subtract(chunk, record.len());
                }
            }
        }
        Ok(logs)
    }

    /// Merges the frozen entries and writes the catalog. Returns the new trees.
    fn make(
        &self,
        stores: &[FrozenStore],
        dirty: &[EntrySlot],
        freed: &mut Freed,
        pages: &mut Freed,
        write_catalog: &WriteCatalog<'_>,
    ) -> Result<(Vec<Tree>, StoredCatalog), MergeError> {
        let medium = self.medium();
        let end_step = || self.end_turn();
        let mut merge = Merge::new(&self.slab, self.segments_lock(), freed, pages, &end_step);
        let leaving = self.segments().leaving().clone();
        let mut trees = Vec::with_capacity(stores.len());
        for store in stores {
            let tree = match leaving.is_empty() {
                true => store.tree.clone(),
                false => merge.leave(&store.tree, &leaving)?,
            };
            trees.push(match merge.apply(&tree, &store.table)? {
                MergedTree::Unchanged => tree,
                MergedTree::Changed(tree) => tree,
            });
        }
        if !injected(StoreFault::ForgetDirty) {
            dirty.iter().for_each(|slot| medium.flush(slot.0, 8));
        }
        merge.publish_leaves()?;
        let catalog = write_catalog(&trees, freed)?;
        if !injected(StoreFault::CheckpointFirst) {
            medium.fence()?;
        }
        Ok((trees, catalog))
    }

    fn write_catalog(
        &self,
        stores: &[FrozenStore],
        trees: &[Tree],
        freed: [&Freed; 2],
        logs: &BTreeMap<u64, SegmentUse>,
        next_store: u32,
    ) -> Result<StoredCatalog, MergeError> {
        let segments = catalog_segments(&self.segments(), freed, logs);
        let mut bytes = Vec::new();
        let head = CatalogHead {
            segments: U64::new(segments.len() as u64),
            stores: U32::new(stores.len() as u32),
            next_store: U32::new(next_store),
        };
        bytes.extend_from_slice(head.as_bytes());
        for (offset, segment) in segments {
            let entry = SegmentEntry {
                offset: U64::new(offset),
                used: U64::new(segment.used),
                expires: U64::new(segment.expires),
                kind: U32::new(segment.kind.number()),
                store: U32::new(segment.store.number()),
            };
            bytes.extend_from_slice(entry.as_bytes());
        }
        for (frozen, tree) in stores.iter().zip(trees) {
            let entry = StoreEntry {
                id: U32::new(frozen.store.id),
                name_len: U16::new(frozen.store.name.len() as u16),
                levels: U16::new(tree.root_level().map_or(0, |level| level + 1)),
                root: U64::new(tree.root.as_ref().map_or(0, |root| root.page)),
                keys: U64::new(frozen.keys),
                bytes: U64::new(frozen.bytes),
            };
            bytes.extend_from_slice(entry.as_bytes());
            bytes.extend_from_slice(frozen.store.name.as_bytes());
        }
        self.store_blob(&bytes)
    }

    /// Stores the bytes of a catalog in segments of its own.
    fn store_blob(&self, bytes: &[u8]) -> Result<StoredCatalog, MergeError> {
        let medium = self.medium();
        let room = (SEGMENT as usize) - size_of::<CatalogSegment>();
        let pieces: Vec<&[u8]> = bytes.chunks(room).collect();
        let mut segments = Vec::with_capacity(pieces.len());
        for _ in &pieces {
            match self.slab.alloc() {
                Ok(segment) => segments.push(segment),
                Err(error) => {
                    segments.into_iter().for_each(|segment| self.slab.free(segment));
                    return Err(error.into());
                }
            }
        }
        for (at, piece) in pieces.iter().enumerate() {
            let head = CatalogSegment {
                next: U64::new(segments.get(at + 1).copied().unwrap_or(0)),
                len: U64::new(piece.len() as u64),
            };
            medium.store(segments[at], head.as_bytes());
            medium.store(segments[at] + size_of::<CatalogSegment>() as u64, piece);
            medium.flush(segments[at], (size_of::<CatalogSegment>() + piece.len()) as u64);
        }
        Ok(StoredCatalog {
            segments,
            len: bytes.len() as u64,
            sum: xxh3_64(bytes),
        })
    }

    /// Stores a checkpoint.
    fn store_checkpoint(&self, mut checkpoint: Checkpoint) -> Result<()> {
        checkpoint.checksum = U64::new(checkpoint_sum(&checkpoint));
        store_copies(&self.slab, &checkpoint)
    }

    /// Lets the stores use the new trees, and frees what the last checkpoint needed.
    fn finish(
        &self,
        stores: Vec<FrozenStore>,
        trees: Vec<Tree>,
        catalog: Vec<u64>,
        number: u64,
        freed: Freed,
    ) {
        let mut committer = self.committer();
        for (frozen, tree) in stores.into_iter().zip(trees) {
            let mut trees = frozen.store.write();
            trees.frozen = None;
            trees.tree = tree;
        }
        committer.merging = false;
        committer.catalog = catalog;
        committer.checkpoint = number;
        let unlinks = std::mem::take(&mut *self.unlinks());
        if let Err(damage) = self.unlink(unlinks) {
            self.poison(&self.damaged(damage));
        }
        self.release(&mut committer, freed);
    }

    /// Takes back a checkpoint that failed.
    fn thaw(
        &self,
        stores: Vec<FrozenStore>,
        dirty: Vec<EntrySlot>,
        freed: Freed,
        catalog: Vec<u64>,
        pages: &Freed,
    ) {
        let mut committer = self.committer();
        for FrozenStore { store, table, .. } in stores {
            let mut trees = store.write();
            trees.frozen = None;
            let newer = std::mem::take(&mut trees.active);
            for (key, entry) in table.iter().chain(newer.iter()) {
                trees.active.set(key, entry);
            }
            committer.pending_records += trees.active.len();
        }
        committer.merging = false;
        committer.catalog = catalog;
        committer.dirty.extend(dirty);
        committer.freed.append(freed);
        self.segments().release(&self.slab, pages);
    }
}

/// A stored catalog.
pub(crate) struct StoredCatalog {
    segments: Vec<u64>,
    len: u64,
    sum: u64,
}

/// Stores both copies of a checkpoint, one after the other.
///
/// # Errors
/// Those of the medium.
pub(crate) fn store_copies(slab: &Slab, checkpoint: &Checkpoint) -> Result<()> {
    let medium = slab.medium();
    let copies = [slab.root(), slab.root() + CHECKPOINT_COPY];
    for at in copies {
        medium.store(at, checkpoint.as_bytes());
        medium.flush(at, size_of::<Checkpoint>() as u64);
        if !injected(StoreFault::StoreCopiesTogether) || at != copies[0] {
            medium.fence()?;
        }
    }
    Ok(())
}

/// Returns the checksum of a checkpoint.
pub(crate) fn checkpoint_sum(checkpoint: &Checkpoint) -> u64 {
    let bytes = checkpoint.as_bytes();
    xxh3_64(&bytes[..bytes.len() - 8])
}

/// Returns the segments as they are once what is free with the checkpoint is.
fn catalog_segments(
    segments: &Segments,
    freed: [&Freed; 2],
    logs: &BTreeMap<u64, SegmentUse>,
) -> BTreeMap<u64, SegmentUse> {
    let pages = segments
        .iter()
        .filter(|(_, segment)| segment.kind != SegmentKind::Log);
    let mut all: BTreeMap<u64, SegmentUse> = pages.map(|(offset, segment)| (offset, *segment)).collect();
    for &(page, kind) in freed.iter().flat_map(|freed| &freed.pages) {
        if let Some((offset, segment)) = all.range_mut(..=page).next_back() {
            segment.used &= !kind.bit(page - offset);
        }
    }
    all.extend(logs.iter().map(|(offset, segment)| (*offset, *segment)));
    for offset in freed.iter().flat_map(|freed| &freed.segments) {
        all.remove(offset);
    }
    all.retain(|_, segment| segment.kind == SegmentKind::Log || segment.used != 0);
    all
}
