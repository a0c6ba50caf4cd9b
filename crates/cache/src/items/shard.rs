//! A shard of a cache of items: a table of copies with a replacement policy.
//!
//! Invariant: a slot has an item in `entries` if and only if the index and the policy have it.

use std::sync::Arc;

use crate::PolicyKind;
use crate::hash_index::{HashIndex, mix};
use crate::policy::{CacheItem, Capacity, Policy};

/// Bytes of the budget for each slot: small items, with what they cost, take about as much.
const SLOT_SHARE: u64 = 384;
/// Bytes that the allocator and the counts of a copy take besides key and value.
const OVERHEAD: usize = 64;
/// Sizes are rounded up to multiples, so that a value may change a little in its slot.
const GRAIN: usize = 64;
/// Divisor: the largest item takes this part of a shard.
const MAX_ITEM_DIVISOR: u64 = 4;

/// A shard. It has room for a number of items that is fixed at its creation.
pub(super) struct ItemShard<V> {
    epoch: u64,
    kind: PolicyKind,
    capacity: Capacity,
    policy: Box<dyn Policy>,
    index: HashIndex,
    /// The slots that were used so far.
    entries: Vec<Option<CachedItem<V>>>,
    /// Those of them that have no item.
    free: Vec<u32>,
    items: u64,
    bytes: u64,
}

struct CachedItem<V> {
    hash: u64,
    key: Box<[u8]>,
    value: Arc<V>,
    bytes: u32,
}

impl<V> ItemShard<V> {
    /// Minimum size of a shard in bytes.
    pub(super) const MIN_BYTES: u64 = 16 * SLOT_SHARE;

    /// Returns the number of items for which a shard of this size in bytes has slots.
    pub(super) fn most_items(bytes: u64) -> u32 {
        u32::try_from(bytes / SLOT_SHARE).unwrap_or(u32::MAX - 1)
    }

    /// Creates an empty shard that takes at most `bytes`, or `None` if that is too little.
    pub(super) fn new(bytes: u64, kind: PolicyKind) -> Option<Self> {
        if bytes < Self::MIN_BYTES {
            return None;
        }
        let items = Self::most_items(bytes);
        let slots = items as usize + 1;
        let index = HashIndex::new(slots);
        // The policy takes the same for each capacity in bytes.
        let policy = kind.build(Capacity { bytes, items });
        let fixed = slots * (size_of::<Option<CachedItem<V>>>() + size_of::<u32>())
            + index.bytes()
            + policy.metadata_bytes();
        let capacity = Capacity {
            bytes: bytes.checked_sub(fixed as u64)?,
            items,
        };
        Some(Self {
            epoch: 0,
            kind,
            capacity,
            policy: kind.build(capacity),
            index,
            entries: Vec::with_capacity(slots),
            free: Vec::new(),
            items: 0,
            bytes: 0,
        })
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Drops all copies if they are of another epoch.
    pub(super) fn enter(&mut self, epoch: u64) {
        if self.epoch == epoch {
            return;
        }
        self.epoch = epoch;
        if self.items > 0 {
            self.policy = self.kind.build(self.capacity);
            self.index = HashIndex::new(self.capacity.items as usize + 1);
            self.entries.clear();
            self.free.clear();
            (self.items, self.bytes) = (0, 0);
        }
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        // The upper bits of the hash have chosen the shard.
        self.index.find(mix(hash), |slot| {
            let entry = self.entries[slot as usize].as_ref();
            entry.is_some_and(|entry| entry.hash == hash && *entry.key == *key)
        })
    }

    /// Returns the copy of a key, and notes its use.
    pub(super) fn get(&mut self, hash: u64, key: &[u8]) -> Option<Arc<V>> {
        let slot = self.find(hash, key)?;
        self.policy.hit(slot, hash);
        self.entries[slot as usize]
            .as_ref()
            .map(|entry| Arc::clone(&entry.value))
    }

    fn size(key: &[u8], bytes: usize) -> u32 {
        let bytes = key.len() + bytes + size_of::<V>() + OVERHEAD;
        u32::try_from(bytes.next_multiple_of(GRAIN)).unwrap_or(u32::MAX)
    }

    /// Keeps a copy of a key, unless there is one or the policy refuses it.
    pub(super) fn admit(&mut self, hash: u64, key: &[u8], value: &Arc<V>, bytes: usize) {
        let bytes = Self::size(key, bytes);
        if u64::from(bytes) * MAX_ITEM_DIVISOR > self.capacity.bytes || self.find(hash, key).is_some() {
            return;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.entries.len() > self.capacity.items as usize => return,
            None => {
                self.entries.push(None);
                self.entries.len() as u32 - 1
            }
        };
        let item = CacheItem {
            slot,
            key: hash,
            bytes,
            probability: 1.0,
        };
        let mut evicted = Vec::new();
        let is_admitted = self.policy.admit(item, &mut evicted);
        evicted.into_iter().for_each(|slot| self.vacate(slot));
        if !is_admitted {
            self.free.push(slot);
            return;
        }
        self.entries[slot as usize] = Some(CachedItem {
            hash,
            key: key.into(),
            value: Arc::clone(value),
            bytes,
        });
        self.index.insert(mix(hash), slot);
        self.items += 1;
        self.bytes += u64::from(bytes);
    }

    /// Forgets the item in a slot, which the policy does not have any more.
    fn vacate(&mut self, slot: u32) {
        let entries = &self.entries;
        let Some(entry) = &entries[slot as usize] else {
            return;
        };
        let hash_of = |slot: u32| entries[slot as usize].as_ref().map_or(0, |entry| mix(entry.hash));
        self.index.remove(mix(entry.hash), slot, hash_of);
        self.items -= 1;
        self.bytes -= u64::from(entry.bytes);
        self.entries[slot as usize] = None;
        self.free.push(slot);
    }

    /// Removes the copy of a key.
    pub(super) fn remove(&mut self, hash: u64, key: &[u8]) {
        if let Some(slot) = self.find(hash, key) {
            self.policy.remove(slot);
            self.vacate(slot);
        }
    }

    /// Replaces the copy of a key, if there is one.
    pub(super) fn replace(&mut self, hash: u64, key: &[u8], value: impl FnOnce() -> (Arc<V>, usize)) {
        let Some(slot) = self.find(hash, key) else {
            return;
        };
        let (value, bytes) = value();
        match &mut self.entries[slot as usize] {
            Some(entry) if entry.bytes == Self::size(key, bytes) => entry.value = value,
            _ => {
                self.policy.remove(slot);
                self.vacate(slot);
                self.admit(hash, key, &value, bytes);
            }
        }
    }

    /// Returns the number of copies and the bytes that they take.
    pub(super) fn amounts(&self) -> (u64, u64) {
        (self.items, self.bytes)
    }
}
