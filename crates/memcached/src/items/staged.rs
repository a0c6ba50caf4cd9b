//! Changes of items that wait for their commit.
//!
//! A commit is one call of the storage: with an item go those that leave for it, and the items that a client
//! has sent together with it.
//!
//! Invariant: each key is marked as being changed in the [hot items](super::hot) from before the commit until
//! after it, when its copy is replaced or removed. The caller holds the locks of all keys but those that
//! leave.

use super::Items;
use crate::error::Result;
use crate::expiry::has_passed;
use crate::fault::{MemcachedFault, injected};
use crate::item::Item;
use crate::storage::{ItemChange, ItemGeneration};

/// Changes in the order in which they are made.
#[derive(Debug, Default)]
pub(super) struct StagedChanges<'a>(Vec<StagedChange<'a>>);

#[derive(Debug)]
enum StagedChange<'a> {
    Put {
        key: &'a [u8],
        /// The item, which was encoded.
        item: &'a Item,
    },
    Delete {
        key: &'a [u8],
    },
    /// Leaves for another item.
    Evict {
        key: Box<[u8]>,
    },
}

impl StagedChange<'_> {
    fn key(&self) -> &[u8] {
        match self {
            StagedChange::Put { key, .. } | StagedChange::Delete { key } => key,
            StagedChange::Evict { key } => key,
        }
    }

    fn in_storage(&self) -> ItemChange<'_> {
        match self {
            StagedChange::Put { key, item } => ItemChange::Put {
                key,
                value: item.encoded(),
                expires: item.expires,
            },
            _ => ItemChange::Delete { key: self.key() },
        }
    }
}

impl Items {
    /// Stores an item, or removes it if it has expired. The caller holds the lock of the key.
    pub(super) fn save(&self, generation: &dyn ItemGeneration, key: &[u8], item: &mut Item) -> Result<()> {
        let mut staged = StagedChanges::default();
        self.stage(key, item, &mut staged);
        self.commit(generation, &staged)
    }

    /// Removes an item. The caller holds the lock of the key.
    pub(super) fn delete(&self, generation: &dyn ItemGeneration, key: &[u8]) -> Result<()> {
        let mut staged = StagedChanges::default();
        self.stage_delete(key, &mut staged);
        self.commit(generation, &staged)
    }

    /// Adds what [`save`](Self::save) changes. The caller holds the lock of the key until the commit.
    pub(super) fn stage<'a>(&self, key: &'a [u8], item: &'a mut Item, staged: &mut StagedChanges<'a>) {
        if has_passed(item.expires, self.now()) {
            return self.stage_delete(key, staged);
        }
        item.encode();
        staged.0.push(StagedChange::Put { key, item });
        if let Some(evictor) = &self.evictor {
            let bytes = self.storage.footprint(key.len(), item.bytes());
            let evicted = evictor.stored(key, bytes, item.expires, self.now());
            self.counters.evictions.add(evicted.len() as u64);
            let leaving = evicted.into_iter().map(|key| StagedChange::Evict { key });
            staged.0.extend(leaving);
        }
    }

    fn stage_delete<'a>(&self, key: &'a [u8], staged: &mut StagedChanges<'a>) {
        if let Some(evictor) = &self.evictor {
            evictor.removed(key);
        }
        self.accesses.forget(key);
        staged.0.push(StagedChange::Delete { key });
    }

    /// Removes items that the eviction policy has chosen apart from a store.
    pub(super) fn evict(&self, generation: &dyn ItemGeneration, evicted: Vec<Box<[u8]>>) -> Result<()> {
        self.counters.evictions.add(evicted.len() as u64);
        let leaving = evicted.into_iter().map(|key| StagedChange::Evict { key });
        self.commit(generation, &StagedChanges(leaving.collect()))
    }

    /// Makes the changes in one call of the storage. Copies of hot items follow.
    ///
    /// # Errors
    /// That of the storage. Copies of the keys are gone then.
    pub(super) fn commit(&self, generation: &dyn ItemGeneration, staged: &StagedChanges<'_>) -> Result<()> {
        let StagedChanges(changes) = staged;
        if changes.is_empty() {
            return Ok(());
        }
        let marks: Vec<_> = changes
            .iter()
            .map(|change| self.begin_change(change.key()))
            .collect();
        let write = |changes: &mut dyn Iterator<Item = &StagedChange<'_>>| {
            generation.write(&changes.map(StagedChange::in_storage).collect::<Vec<_>>())
        };
        if injected(MemcachedFault::EvictApart) {
            let leaves = |change: &&StagedChange<'_>| matches!(change, StagedChange::Evict { .. });
            write(&mut changes.iter().filter(leaves))?;
            write(&mut changes.iter().filter(|change| !leaves(change)))?;
        } else {
            write(&mut changes.iter())?;
        }
        for (change, mark) in changes.iter().zip(marks) {
            if let StagedChange::Put { item, .. } = change {
                Items::end_change(mark, item);
            }
        }
        Ok(())
    }
}
