//! The items of a generation: a tree that leads from the hash of a key to the record of its item.
//!
//! Keys with the same hash are linked, newest first. A change writes a record, makes it durable, and then
//! makes one link lead to it by a durable store of 8 bytes, in the tree or in the record before it; the nodes
//! of the old record are free afterwards.
//!
//! Invariants: who follows the link of a hash holds the lock of its stripe. Who changes it or frees a record
//! behind it holds that lock alone. Nodes are allocated without it, because the walk over the nodes in use
//! takes it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use halocline_ordered::OrderedIndex;

use super::record::{self, RecordHead, RecordSize};
use super::slabs::RecordSlabs;
use super::usage::UsageWalk;
use super::{ItemChange, ItemGeneration, ScannedItem, StoredItem};
use crate::error::{MemcachedError, Result};
use crate::fault::{MemcachedFault, injected};

/// Number of locks of hashes.
const STRIPES: usize = 1024;
/// Entries of the tree that are read at a time.
pub(super) const STEP: usize = 256;

/// State that all generations share.
pub(super) struct Shared {
    pub(super) pool: halocline_pool::Pool,
    pub(super) slabs: RecordSlabs,
    pub(super) hash: fn(&[u8]) -> u64,
    pub(super) walk: UsageWalk,
    stripes: Box<[RwLock<()>]>,
}

/// A generation of items.
pub(crate) struct TreeGeneration {
    pub(super) shared: Arc<Shared>,
    /// Name of the tree.
    pub(super) name: String,
    pub(super) tree: Box<dyn OrderedIndex>,
    /// Items and bytes of keys and values: those that were stored or found since the start.
    items: AtomicU64,
    bytes: AtomicU64,
    /// Bytes of their nodes.
    footprint: AtomicU64,
    /// A flush has replaced it, and its records are being freed.
    retired: AtomicBool,
    /// An item with a time of expiry may be there.
    pub(super) may_expire: AtomicBool,
}

/// The place of a key behind its hash.
struct Place {
    /// The first record with this hash.
    head: Option<u64>,
    /// The record before that of the key.
    before: Option<u64>,
    found: Option<RecordHead>,
}

impl Shared {
    pub(super) fn new(pool: halocline_pool::Pool, slabs: RecordSlabs, hash: fn(&[u8]) -> u64) -> Shared {
        Shared {
            pool,
            slabs,
            hash,
            walk: UsageWalk::default(),
            stripes: (0..STRIPES).map(|_| RwLock::new(())).collect(),
        }
    }

    fn stripe(&self, hash: u64) -> &RwLock<()> {
        &self.stripes[hash as usize % STRIPES]
    }

    fn read(&self, hash: u64) -> RwLockReadGuard<'_, ()> {
        self.stripe(hash).read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self, hash: u64) -> RwLockWriteGuard<'_, ()> {
        self.stripe(hash).write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the head of the record of a hash.
    pub(super) fn head(&self, hash: u64, offset: u64) -> std::result::Result<RecordHead, &'static str> {
        let head = record::load_head(self.slabs.medium(), offset)?;
        match (self.hash)(&head.key) == hash {
            true => Ok(head),
            false => Err("its key has another hash"),
        }
    }

    pub(super) fn damaged(&self, offset: u64, reason: &'static str) -> MemcachedError {
        MemcachedError::DamagedRecord {
            path: self.pool.path().to_path_buf(),
            offset,
            reason,
        }
    }
}

impl TreeGeneration {
    pub(super) fn new(shared: &Arc<Shared>, name: String, tree: Box<dyn OrderedIndex>) -> TreeGeneration {
        TreeGeneration {
            shared: Arc::clone(shared),
            name,
            tree,
            items: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            footprint: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            may_expire: AtomicBool::new(false),
        }
    }

    /// Declares that nobody but scans uses the generation any more.
    pub(super) fn retire(&self) {
        self.retired.store(true, Release);
    }

    /// Counts an item that is there.
    pub(super) fn count(&self, record: &RecordHead) {
        self.items.fetch_add(1, Relaxed);
        self.bytes.fetch_add(record.bytes(), Relaxed);
        self.footprint.fetch_add(record.size().bytes(), Relaxed);
        if record.expires.is_some() {
            self.may_expire.store(true, Relaxed);
        }
    }

    /// Frees the nodes of a record that nothing leads to any more. It no longer counts.
    fn free(&self, record: &RecordHead) {
        let slabs = &self.shared.slabs;
        match slabs.confirm(record) {
            Ok(was_in_doubt) => {
                // A record in doubt was not counted.
                if !was_in_doubt {
                    self.items.fetch_sub(1, Relaxed);
                    self.bytes.fetch_sub(record.bytes(), Relaxed);
                    self.footprint.fetch_sub(record.size().bytes(), Relaxed);
                }
                slabs.free_nodes(record.size().class, record.nodes());
            }
            Err(reason) => {
                tracing::warn!(error = %self.shared.damaged(record.offset, reason), "its space is not freed");
            }
        }
    }

    /// Finds the place of a key. The caller holds the lock of its stripe.
    ///
    /// # Errors
    /// `Err(Ok(..))` are the offset and the damage of a record on the way.
    fn find(&self, hash: u64, key: &[u8]) -> Result<std::result::Result<Place, (u64, &'static str)>> {
        let head = self.tree.get(hash)?;
        let mut place = Place {
            head,
            before: None,
            found: None,
        };
        let mut next = head;
        while let Some(offset) = next {
            let record = match self.shared.head(hash, offset) {
                Ok(record) => record,
                Err(reason) => return Ok(Err((offset, reason))),
            };
            if record.key == key {
                place.found = Some(record);
                break;
            }
            place.before = Some(offset);
            next = record.next;
        }
        Ok(Ok(place))
    }

    /// Like [`find`](Self::find) for a change, which replaces all records of a hash if one of them is
    /// damaged: they are lost anyway.
    fn find_to_change(&self, hash: u64, key: &[u8]) -> Result<Place> {
        Ok(self.find(hash, key)?.unwrap_or_else(|(offset, reason)| {
            tracing::warn!(error = %self.shared.damaged(offset, reason), "items are replaced");
            Place {
                head: None,
                before: None,
                found: None,
            }
        }))
    }

    fn put(&self, key: &[u8], value: &[u8], expires: Option<u64>) -> Result<()> {
        let shared = &*self.shared;
        let hash = (shared.hash)(key);
        let size = RecordSize::of(key.len(), value.len());
        let nodes = shared.slabs.alloc(size, &|| shared.walk.complete())?;
        let medium = shared.slabs.medium();
        record::store(medium, &nodes, key, value, expires);
        if !injected(MemcachedFault::LinkUnfenced) {
            medium.fence()?;
        }
        let lock = shared.write(hash);
        let place = self.find_to_change(hash, key)?;
        if injected(MemcachedFault::FreeBeforeLink)
            && let Some(old) = &place.found
        {
            self.reuse_early(old)?;
        }
        if let Err(error) = self.link(hash, nodes[0], &place) {
            // Where the medium has failed, a link may lead there; the pool refuses before anything is
            // changed.
            if matches!(error, MemcachedError::Pool(_)) {
                shared.slabs.free_nodes(size.class, nodes);
            }
            return Err(error);
        }
        self.items.fetch_add(1, Relaxed);
        self.bytes.fetch_add((key.len() + value.len()) as u64, Relaxed);
        self.footprint.fetch_add(size.bytes(), Relaxed);
        if expires.is_some() {
            self.may_expire.store(true, Relaxed);
        }
        drop(lock);
        if let Some(old) = &place.found {
            self.free(old);
        }
        Ok(())
    }

    /// Makes a link lead to a record that is durable, instead of to that of its key. The caller holds the
    /// lock of its stripe.
    fn link(&self, hash: u64, new: u64, place: &Place) -> Result<()> {
        let medium = self.shared.slabs.medium();
        let next = match &place.found {
            Some(old) => old.next,
            None => place.head,
        };
        if next.is_some() {
            record::store_next(medium, new, next);
            medium.fence()?;
        }
        match place.before.filter(|_| place.found.is_some()) {
            Some(before) => {
                record::store_next(medium, before, Some(new));
                medium.fence()?;
            }
            None => _ = self.tree.upsert(hash, new)?,
        }
        Ok(())
    }

    /// Breaks the rule that the nodes of a record are used again only when no durable link leads to it.
    #[cold]
    fn reuse_early(&self, old: &RecordHead) -> Result<()> {
        let slabs = &self.shared.slabs;
        slabs.free_nodes(old.size().class, old.nodes());
        let nodes = slabs.alloc(old.size(), &|| Ok(()))?;
        record::store(slabs.medium(), &nodes, b"other", b"", None);
        Ok(slabs.medium().fence()?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let hash = (self.shared.hash)(key);
        let lock = self.shared.write(hash);
        let place = self.find_to_change(hash, key)?;
        let Some(old) = place.found else {
            if place.head.is_none() {
                self.tree.remove(hash)?;
            }
            return Ok(());
        };
        self.unlink(hash, place.before, &old)?;
        drop(lock);
        self.free(&old);
        Ok(())
    }

    /// Removes the links to a record. The caller holds the lock of its stripe.
    fn unlink(&self, hash: u64, before: Option<u64>, old: &RecordHead) -> Result<()> {
        match (before, old.next) {
            (Some(before), next) => {
                let medium = self.shared.slabs.medium();
                record::store_next(medium, before, next);
                medium.fence()?;
            }
            (None, Some(next)) => _ = self.tree.upsert(hash, next)?,
            (None, None) => _ = self.tree.remove(hash)?,
        }
        Ok(())
    }

    /// Removes the items of a hash that have expired.
    pub(super) fn expire(&self, hash: u64, now: u64) -> Result<()> {
        let lock = self.shared.write(hash);
        let mut gone = Vec::new();
        let (mut before, mut next) = (None, self.tree.get(hash)?);
        while let Some(offset) = next {
            let Ok(record) = self.shared.head(hash, offset) else {
                break;
            };
            next = record.next;
            if record.expires.is_some_and(|expires| expires <= now) {
                self.unlink(hash, before, &record)?;
                gone.push(record);
            } else {
                before = Some(offset);
            }
        }
        drop(lock);
        gone.iter().for_each(|record| self.free(record));
        Ok(())
    }

    /// Frees the records of a hash of a generation that is retired.
    pub(super) fn free_all(&self, hash: u64, first: u64) {
        let _lock = self.shared.write(hash);
        let mut next = Some(first);
        while let Some(record) = next.and_then(|offset| self.shared.head(hash, offset).ok()) {
            next = record.next;
            self.free(&record);
        }
    }
}

impl ItemGeneration for TreeGeneration {
    fn get(&self, key: &[u8]) -> Result<Option<StoredItem>> {
        let hash = (self.shared.hash)(key);
        let _lock = self.shared.read(hash);
        let damaged = |(offset, reason)| self.shared.damaged(offset, reason);
        let Some(record) = self.find(hash, key)?.map_err(damaged)?.found else {
            return Ok(None);
        };
        let item = record.load(self.shared.slabs.medium());
        item.map(Some)
            .map_err(|reason| self.shared.damaged(record.offset, reason))
    }

    fn contains(&self, key: &[u8]) -> Result<bool> {
        let hash = (self.shared.hash)(key);
        let _lock = self.shared.read(hash);
        let damaged = |(offset, reason)| self.shared.damaged(offset, reason);
        Ok(self.find(hash, key)?.map_err(damaged)?.found.is_some())
    }

    fn write(&self, changes: &[ItemChange<'_>]) -> Result<()> {
        changes.iter().try_for_each(|change| match *change {
            ItemChange::Put { key, value, expires } => self.put(key, value, expires),
            ItemChange::Delete { key } => self.delete(key),
        })
    }

    fn scan(&self, visit: &mut dyn FnMut(ScannedItem<'_>) -> Result<bool>) -> Result<()> {
        let mut from = Some(0);
        while let Some(first) = from {
            let mut entries = Vec::new();
            self.tree.scan(first, STEP, &mut entries)?;
            from = entries.last().and_then(|(hash, _)| hash.checked_add(1));
            for (hash, _) in entries {
                for record in self.records(hash)? {
                    let item = ScannedItem {
                        key: &record.key,
                        value_bytes: record.value_len,
                        expires: record.expires,
                    };
                    if !visit(item)? {
                        return Ok(());
                    }
                }
                if self.retired.load(Acquire) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.items.load(Relaxed)
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn footprint(&self) -> u64 {
        self.footprint.load(Relaxed)
    }
}

impl TreeGeneration {
    /// Returns the records of a hash, or none if the generation is retired or one of them is damaged.
    fn records(&self, hash: u64) -> Result<Vec<RecordHead>> {
        let _lock = self.shared.read(hash);
        let mut records = Vec::new();
        if self.retired.load(Acquire) {
            return Ok(records);
        }
        let mut next = self.tree.get(hash)?;
        while let Some(record) = next.and_then(|offset| self.shared.head(hash, offset).ok()) {
            next = record.next;
            records.push(record);
        }
        Ok(records)
    }
}
