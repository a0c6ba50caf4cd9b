//! Changes of items in a tree.
//!
//! A change writes a record, makes it durable, and then makes one link lead to it by a durable store of 8
//! bytes, in the tree or in the record before it. The nodes of the old record are free afterwards. Changes
//! that are made together share the fence that makes their records durable.

use super::ItemChange;
use super::generation::{RecordPlace, TreeGeneration};
use super::record::{self, ItemRecordHead, RecordSize};
use super::shared::LinkSteps;
use crate::error::{MemcachedError, Result};
use crate::fault::{MemcachedFault, injected};

/// Bytes of keys and values from which on further changes do not share the fence.
const GROUP_BYTES: usize = 1 << 20;

/// A record to which nothing leads yet.
struct UnlinkedRecord {
    nodes: Vec<u64>,
    size: RecordSize,
    /// Bytes of key and value.
    bytes: u64,
    expires: Option<u64>,
}

impl TreeGeneration {
    /// Frees the nodes of a record that nothing leads to any more. It no longer counts.
    fn free(&self, record: &ItemRecordHead) {
        let slabs = &self.shared.slabs;
        match slabs.confirm(record) {
            Ok(was_in_doubt) => {
                // A record in doubt was not counted.
                if !was_in_doubt {
                    self.discount(record);
                }
                slabs.free_nodes(record.size().class, record.nodes());
            }
            Err(reason) => {
                tracing::warn!(error = %self.shared.damaged(record.offset, reason), "its space is not freed");
            }
        }
    }

    /// Finds the place of a key like [`find`](Self::find), for a change. If a record of the hash is damaged,
    /// the change replaces all of its records: they are lost anyway. `new` is the record that the change will
    /// link: a damaged link may already lead to its node, which was free.
    fn find_to_change(&self, hash: u64, key: &[u8], new: Option<u64>) -> Result<RecordPlace> {
        let found = self.find(hash, key)?.and_then(|place| {
            let is_new = |record: &ItemRecordHead| Some(record.offset) == new;
            match place.found.as_ref().filter(|record| is_new(record)) {
                Some(record) => Err((record.offset, "a link led to a free node")),
                None => Ok(place),
            }
        });
        Ok(found.unwrap_or_else(|(offset, reason)| {
            tracing::warn!(error = %self.shared.damaged(offset, reason), "items are replaced");
            RecordPlace {
                head: None,
                before: None,
                found: None,
            }
        }))
    }

    /// Makes changes in their order: at least the first one, and as many after it as there are free nodes
    /// for. The new records are durable with one fence before the first change is made. Returns the number of
    /// changes that were made, and the error of the next one.
    pub(super) fn write_group(&self, changes: &[ItemChange<'_>]) -> (usize, Result<()>) {
        let mut records = match self.store_records(changes) {
            Ok(records) => records.into_iter(),
            Err(error) => return (0, Err(error)),
        };
        let mut made = 0;
        while let Some(record) = records.next() {
            let result = match (&changes[made], record) {
                (ItemChange::Put { key, .. }, Some(record)) => self.put(key, record),
                (change, _) => self.delete(change.key()),
            };
            if let Err(error) = result {
                // Nothing leads to the records of the later changes.
                for UnlinkedRecord { nodes, size, .. } in records.flatten() {
                    self.shared.slabs.free_nodes(size.class, nodes);
                }
                return (made, Err(error));
            }
            made += 1;
        }
        (made, Ok(()))
    }

    /// Stores the records of changes and makes them durable. Returns one for each change, `None` for those
    /// that need none. They end where there is no free node, because changes before that may free some, and
    /// after [`GROUP_BYTES`], so that records do not take the room of the tree that leads to them.
    ///
    /// # Errors
    /// There is no free node for the first change, or the medium has failed: nothing leads to the records.
    fn store_records(&self, changes: &[ItemChange<'_>]) -> Result<Vec<Option<UnlinkedRecord>>> {
        let shared = &*self.shared;
        let medium = shared.slabs.medium();
        let (mut records, mut is_fence_due) = (Vec::with_capacity(changes.len()), false);
        let mut stored = 0;
        for change in changes {
            if stored > GROUP_BYTES {
                break;
            }
            let ItemChange::Put { key, value, expires } = *change else {
                records.push(None);
                continue;
            };
            let size = RecordSize::for_lengths(key.len(), value.len());
            let nodes = match shared.slabs.alloc(size, &|| shared.walk.complete()) {
                Ok(nodes) => nodes,
                Err(error) if records.is_empty() => return Err(error),
                Err(_) => break,
            };
            record::store(medium, &nodes, key, value, expires);
            is_fence_due = true;
            stored += key.len() + value.len();
            records.push(Some(UnlinkedRecord {
                nodes,
                size,
                bytes: (key.len() + value.len()) as u64,
                expires,
            }));
        }
        if is_fence_due && !injected(MemcachedFault::LinkUnfenced) {
            medium.fence()?;
        }
        Ok(records)
    }

    /// Makes a record that is durable that of its key.
    fn put(&self, key: &[u8], record: UnlinkedRecord) -> Result<()> {
        let UnlinkedRecord {
            nodes,
            size,
            bytes,
            expires,
        } = record;
        let shared = &*self.shared;
        let hash = (shared.hash)(key);
        let lock = shared.write(hash);
        let place = self.find_to_change(hash, key, Some(nodes[0]))?;
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
        self.count(bytes, size, expires);
        drop(lock);
        if let Some(old) = &place.found {
            self.free(old);
        }
        Ok(())
    }

    /// Makes a link lead to a record that is durable, instead of to that of its key. The caller holds the
    /// lock of its stripe.
    fn link(&self, hash: u64, new: u64, place: &RecordPlace) -> Result<()> {
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
    fn reuse_early(&self, old: &ItemRecordHead) -> Result<()> {
        let slabs = &self.shared.slabs;
        slabs.free_nodes(old.size().class, old.nodes());
        let nodes = slabs.alloc(old.size(), &|| Ok(()))?;
        record::store(slabs.medium(), &nodes, b"other", b"", None);
        Ok(slabs.medium().fence()?)
    }

    /// Removes an item, if it is there.
    fn delete(&self, key: &[u8]) -> Result<()> {
        let hash = (self.shared.hash)(key);
        let lock = self.shared.write(hash);
        let place = self.find_to_change(hash, key, None)?;
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
    fn unlink(&self, hash: u64, before: Option<u64>, old: &ItemRecordHead) -> Result<()> {
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
        let mut steps = LinkSteps::default();
        while let Some(offset) = next {
            let Ok(record) = self.shared.head(&mut steps, hash, offset) else {
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
        let (mut steps, mut next) = (LinkSteps::default(), Some(first));
        while let Some(record) = next.and_then(|offset| self.shared.head(&mut steps, hash, offset).ok()) {
            next = record.next;
            self.free(&record);
        }
    }
}
