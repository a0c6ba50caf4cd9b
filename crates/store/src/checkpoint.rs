//! Checkpoints: the entries of the memtables move to the leaves, and the log before is not needed to open.
//!
//! Order of durability: (1) new entries of leaves, new pages and replaced values; (2) bitmaps and the
//! catalog; (3) the checkpoint, which names both. The log is durable before any of it. Commits go on
//! meanwhile, in memtables of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use halocline_pool::Slab;
use xxhash_rust::xxh3::xxh3_64;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use crate::catalog::{Catalog, CatalogContents, CatalogStore};
use crate::committer::{Deletion, MergeRoom};
use crate::error::{Result, StoreError};
use crate::fault::{StoreFault, injected};
use crate::layout::{CHECKPOINT_COPY, Checkpoint, MAGIC, VERSION};
use crate::leaf::EntrySlot;
use crate::log::LogPosition;
use crate::memtable::{MemEntry, MemTable};
use crate::merge::{Merge, MergeError, MergedTree};
use crate::segments::{Freed, SegmentKind, SegmentUse};
use crate::state::{Located, StoreState, StoresState};
use crate::tree::Tree;

/// Writes the catalog of these trees, without what becomes free, and with what was allocated.
type WriteCatalog<'a> = dyn Fn(&[Tree], &Freed, &Freed) -> Result<Catalog, MergeError> + 'a;

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
    /// The commit of the checkpoint before.
    before: u64,
    number: u64,
    next_store: u32,
    dirty: Vec<EntrySlot>,
    freed: Freed,
    /// Space that waits for readers, and that no checkpoint needs.
    waiting: Freed,
    old_catalog: Catalog,
    /// Bytes of log since the checkpoint before.
    pending_bytes: u64,
    /// Segments that have changed since the old catalog.
    changed: BTreeSet<u64>,
    /// The log segments among them, or all if there is going to be a new catalog, as they are after a crash.
    logs: BTreeMap<u64, SegmentUse>,
}

/// Number of keys that are purged while commits wait.
const PURGED_AT_ONCE: usize = 256;

impl StoresState {
    /// Makes a checkpoint.
    ///
    /// # Errors
    /// Damage, a full disk: the last checkpoint stays. Errors of the medium: all later writes fail.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.writable()?;
        self.settle()?;
        self.purge()?;
        let mut frozen = self.freeze()?;
        let mut pages = Freed::default();
        let mut freed = std::mem::take(&mut frozen.freed);
        let freed_before = freed.pages.len();
        let write_catalog = |trees: &[Tree], freed: &Freed, allocated: &Freed| {
            let contents = CatalogContents {
                stores: catalog_stores(&frozen.stores, trees),
                next_store: frozen.next_store,
                changed: &frozen.changed,
                logs: &frozen.logs,
                allocated,
                freed: [freed, &frozen.waiting],
            };
            self.write_catalog(&frozen.old_catalog, contents)
        };
        let make = |freed: &mut Freed, pages: &mut Freed, copies_leaves: bool| {
            let (stores, dirty) = (&frozen.stores, &frozen.dirty);
            self.make(stores, dirty, freed, pages, &write_catalog, copies_leaves)
        };
        let mut made = make(&mut freed, &mut pages, !injected(StoreFault::PurgeInPlace));
        let has_removed = frozen.stores.iter().any(|store| store.table.has_removed());
        if has_removed && made.as_ref().is_err_and(MergeError::lacks_room) {
            // Expired keys must leave a full disk, whose space the next checkpoint frees.
            freed.pages.truncate(freed_before);
            self.segments().release(&self.slab, &std::mem::take(&mut pages));
            made = make(&mut freed, &mut pages, false);
        }
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
                let old = frozen.old_catalog.segments;
                if old.first() != catalog.segments.first() {
                    freed.segments.extend(old);
                }
                self.finish(frozen.stores, trees, catalog, frozen.number, freed);
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
                frozen.freed = freed;
                self.thaw(frozen, &pages);
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
        let (changed, logs) = self.changed_segments(&committer.catalog);
        drop(snapshots);
        // Taken before the ranges are carried on, so that their records are after the checkpoint and are
        // replayed.
        let mut position = committer.log.position();
        if let Err(error) = self.carry_deleted_ranges(&mut committer) {
            self.segments().set_changed(changed);
            return Err(error);
        }
        committer.merging = Some(MergeRoom {
            needed: self.for_checkpoint(&committer),
            with_pages: self.segments().with_pages(),
        });
        let before = self.frozen.swap(committer.commit, Ordering::AcqRel);
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
        if injected(StoreFault::SkipTail) {
            position.number += 1;
        }
        committer.pending_records = 0;
        Ok(Frozen {
            stores,
            position,
            secret: committer.log.secret(),
            commit: committer.commit,
            before,
            number: committer.checkpoint + 1,
            next_store: committer.next_store,
            dirty: std::mem::take(&mut committer.dirty),
            freed: std::mem::take(&mut committer.freed),
            waiting: committer.waiting.clone(),
            old_catalog: std::mem::take(&mut committer.catalog),
            pending_bytes: std::mem::take(&mut committer.pending_bytes),
            changed,
            logs,
        })
    }

    /// Removes the keys whose deletion no snapshot needs any more, in steps between which others commit.
    fn purge(&self) -> Result<()> {
        let mut left = {
            let committer = self.committer();
            committer.deletions.values().map(Vec::len).sum::<usize>()
        };
        while left > 0 {
            let mut committer = self.committer();
            let mut snapshots = self.snapshots();
            self.look_for_readers(&mut committer, &mut snapshots);
            let oldest = snapshots.oldest().filter(|_| !injected(StoreFault::PurgeEarly));
            let deletions = committer.take_deletions(oldest, PURGED_AT_ONCE.min(left));
            if deletions.is_empty() {
                return Ok(());
            }
            left -= deletions.len();
            self.purge_some(deletions)?;
            drop((snapshots, committer));
            self.end_turn();
        }
        Ok(())
    }

    fn purge_some(&self, deletions: Vec<Deletion>) -> Result<()> {
        for Deletion { store, key, commit } in deletions {
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

    /// Takes the segments that have changed since the newest catalog, and returns the log segments among
    /// them, or all if there is going to be a new catalog, as they are after a crash.
    fn changed_segments(&self, newest: &Catalog) -> (BTreeSet<u64>, BTreeMap<u64, SegmentUse>) {
        let mut segments = self.segments();
        let changed = segments.take_changed();
        let log = |offset: u64| {
            let segment = segments.without_kept(offset);
            let segment = segment.filter(|segment| segment.kind == SegmentKind::Log);
            Some((offset, segment?))
        };
        let logs = if newest.is_renewed() {
            segments.iter().filter_map(|(offset, _)| log(offset)).collect()
        } else {
            changed.iter().copied().filter_map(log).collect()
        };
        (changed, logs)
    }

    /// Merges the frozen entries and writes the catalog. Leaves with removed keys are copied, or changed
    /// where they are. Returns the new trees.
    fn make(
        &self,
        stores: &[FrozenStore],
        dirty: &[EntrySlot],
        freed: &mut Freed,
        pages: &mut Freed,
        write_catalog: &WriteCatalog<'_>,
        copies_leaves: bool,
    ) -> Result<(Vec<Tree>, Catalog), MergeError> {
        let medium = self.medium();
        let end_step = || self.end_turn();
        let segments = self.segments_lock();
        let mut merge = Merge::new(&self.slab, segments, freed, pages, &end_step, copies_leaves);
        let leaving = self.segments().leaving().clone();
        let mut trees = Vec::with_capacity(stores.len());
        for store in stores {
            let tree = if leaving.is_empty() {
                store.tree.clone()
            } else {
                merge.vacate(&store.tree, &leaving)?
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
        let catalog = write_catalog(&trees, freed, pages);
        // Also if there is no room for the catalog: the next checkpoint uses slots again that the words of
        // leaves have freed, and a crash must not leave the words before with these slots.
        if !injected(StoreFault::CheckpointFirst) {
            medium.fence()?;
        }
        Ok((trees, catalog?))
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
        catalog: Catalog,
        number: u64,
        freed: Freed,
    ) {
        let mut committer = self.committer();
        for (frozen, tree) in stores.into_iter().zip(trees) {
            let mut trees = frozen.store.write();
            trees.frozen = None;
            trees.tree = tree;
        }
        committer.merging = None;
        committer.catalog = catalog;
        committer.checkpoint = number;
        let unlinks = std::mem::take(&mut *self.unlinks());
        if let Err(damage) = self.unlink(unlinks) {
            self.poison(&self.damaged(damage));
        }
        self.release(&mut committer, freed);
    }

    /// Takes back a checkpoint that failed, with the pages that it has allocated.
    fn thaw(&self, frozen: Frozen, pages: &Freed) {
        self.segments().set_changed(frozen.changed);
        let mut committer = self.committer();
        // Replay begins at the checkpoint that stays.
        self.frozen.store(frozen.before, Ordering::Release);
        for FrozenStore { store, table, .. } in frozen.stores {
            let mut trees = store.write();
            trees.frozen = None;
            let newer = std::mem::take(&mut trees.active);
            trees.active.extend(&table);
            trees.active.extend(&newer);
            committer.pending_records += trees.active.len();
        }
        committer.pending_bytes += frozen.pending_bytes;
        committer.merging = None;
        committer.catalog = frozen.old_catalog;
        committer.dirty.extend(frozen.dirty);
        committer.freed.append(frozen.freed);
        self.segments().release(&self.slab, pages);
    }
}

/// Returns the stores as a catalog has them.
fn catalog_stores(stores: &[FrozenStore], trees: &[Tree]) -> BTreeMap<u32, CatalogStore> {
    let stores = stores.iter().zip(trees).map(|(frozen, tree)| {
        let store = CatalogStore {
            name: frozen.store.name.clone(),
            root: tree.root.as_ref().map_or(0, |root| root.page),
            levels: tree.root_level().map_or(0, |level| level + 1),
            keys: frozen.keys,
            bytes: frozen.bytes,
        };
        (frozen.store.id, store)
    });
    stores.collect()
}

/// Stores both copies of a checkpoint, one after the other.
///
/// # Errors
/// Those of the medium.
pub(crate) fn store_copies(slab: &Slab, checkpoint: &Checkpoint) -> Result<()> {
    let medium = slab.medium();
    let copies = [slab.root(), slab.root() + CHECKPOINT_COPY];
    // One fence for each copy: a crash damages only the copy that is being stored, and the other one is read.
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
