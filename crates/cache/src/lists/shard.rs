//! A shard of a list cache: a lock, a table of slots, an arena of copies, and a policy.

use super::Statistics;
use super::arena::{Arena, copy_bytes, live_bytes};
use crate::hash_index::{HashIndex, mix};
use crate::{CacheItem, Capacity, Policy, PolicyKind};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A cached list: its offset and its copy in the arena.
#[derive(Debug, Clone, Copy, Default)]
struct CachedList {
    id: u64,
    place: u32,
    len: u32,
}

#[derive(Debug)]
struct ShardState {
    index: HashIndex,
    slots: Vec<CachedList>,
    free: Vec<u32>,
    arena: Arena,
    policy: Box<dyn Policy>,
    /// Output buffer for evicted slots; empty between calls.
    evicted: Vec<u32>,
}

/// Counters that are written under the lock and read without it.
#[derive(Debug, Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    admissions: AtomicU64,
    evictions: AtomicU64,
    items: AtomicU64,
    bytes_used: AtomicU64,
}

/// Adds to a counter. A plain store suffices under the lock. Wraps around, so that it can also subtract.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

/// A shard, aligned to avoid false sharing.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Shard {
    cached: Mutex<ShardState>,
    counters: Counters,
    bytes: usize,
}

/// Returns the DRAM of everything but the arena.
fn fixed_bytes(items: u32, policy: &dyn Policy) -> usize {
    let slots = items as usize + 1;
    let index = HashIndex::new(slots);
    size_of::<Shard>()
        + slots * (size_of::<CachedList>() + 2 * size_of::<u32>())
        + index.bytes()
        + size_of_val(policy)
        + policy.metadata_bytes()
}

impl Shard {
    /// Creates a shard within a number of bytes, or returns `None` if a single list does not fit.
    pub(super) fn new(bytes: usize, average: usize, kind: PolicyKind) -> Option<Self> {
        let fixed = |items| fixed_bytes(items, &*kind.build(Capacity { bytes: 0, items }));
        // The overhead per item, measured on a large shard, determines the number of items. The arena gets
        // the remaining bytes.
        let per_item = copy_bytes(average) + (fixed(1024) - fixed(0)).div_ceil(1024);
        let items = u32::try_from(bytes.saturating_sub(fixed(0)) / per_item).unwrap_or(u32::MAX - 2);
        let arena = bytes.checked_sub(fixed(items))?.min(u32::MAX as usize * 8) / 8 * 8;
        let live = live_bytes(arena);
        if items == 0 || live < copy_bytes(average) {
            return None;
        }
        let capacity = Capacity {
            bytes: live as u64,
            items,
        };
        let slots = items as usize + 1;
        let cached = ShardState {
            index: HashIndex::new(slots),
            slots: vec![CachedList::default(); slots],
            free: (0..=items).collect(),
            arena: Arena::new(arena),
            policy: kind.build(capacity),
            evicted: Vec::with_capacity(slots),
        };
        Some(Self {
            bytes: fixed_bytes(items, &*cached.policy) + cached.arena.len(),
            cached: Mutex::new(cached),
            counters: Counters::default(),
        })
    }

    /// Returns the approximate minimum size of a shard.
    pub(super) fn least_bytes(average: usize, kind: PolicyKind) -> usize {
        let capacity = Capacity { bytes: 0, items: 4 };
        fixed_bytes(4, &*kind.build(capacity)) + 4 * copy_bytes(average)
    }

    /// Ignores poisoning: a reader that panicked has changed nothing.
    fn lock(&self) -> MutexGuard<'_, ShardState> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn read<R>(&self, hash: u64, id: u64, reader: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let cached = &mut *self.lock();
        let Some(slot) = cached.find(hash, id) else {
            add(&self.counters.misses, 1);
            return None;
        };
        add(&self.counters.hits, 1);
        cached.policy.hit(slot, id);
        let CachedList { place, len, .. } = cached.slots[slot as usize];
        Some(reader(cached.arena.get(place, len)))
    }

    pub(super) fn admit(&self, hash: u64, id: u64, probability: f32, bytes: &[u8]) -> bool {
        let Ok(size) = u32::try_from(copy_bytes(bytes.len())) else {
            return false;
        };
        let cached = &mut *self.lock();
        // Another thread may have missed the same list and admitted it first.
        if cached.find(hash, id).is_some() {
            return true;
        }
        let slot = *cached.free.last().expect("there is a slot more than items");
        let item = CacheItem {
            slot,
            key: id,
            bytes: size,
            probability,
        };
        let admitted = cached.policy.admit(item, &mut cached.evicted);
        let free = cached.free.len() - usize::from(admitted);
        cached.free.truncate(free);
        let gone = cached.evict();
        if admitted {
            cached.insert(hash, id, slot, bytes);
        }
        let counters = &self.counters;
        add(&counters.admissions, u64::from(admitted));
        add(&counters.evictions, gone.0);
        add(&counters.items, u64::from(admitted).wrapping_sub(gone.0));
        let come = if admitted { u64::from(size) } else { 0 };
        add(&counters.bytes_used, come.wrapping_sub(gone.1));
        admitted
    }

    pub(super) fn reweigh(&self, hash: u64, id: u64, probability: f32) {
        let cached = &mut *self.lock();
        if let Some(slot) = cached.find(hash, id) {
            cached.policy.reweigh(slot, probability);
        }
    }

    pub(super) fn statistics(&self) -> Statistics {
        let counters = &self.counters;
        Statistics {
            hits: counters.hits.load(Relaxed),
            misses: counters.misses.load(Relaxed),
            admissions: counters.admissions.load(Relaxed),
            evictions: counters.evictions.load(Relaxed),
            items: counters.items.load(Relaxed),
            bytes_used: counters.bytes_used.load(Relaxed),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl ShardState {
    fn find(&self, hash: u64, id: u64) -> Option<u32> {
        self.index.find(hash, |slot| self.slots[slot as usize].id == id)
    }

    /// Removes the lists that the policy has evicted. Returns their number and size in bytes.
    fn evict(&mut self) -> (u64, u64) {
        let (mut lists, mut bytes) = (0, 0);
        for slot in self.evicted.drain(..) {
            let CachedList { id, place, len } = self.slots[slot as usize];
            let slots = &self.slots;
            self.index
                .remove(mix(id), slot, |slot| mix(slots[slot as usize].id));
            self.arena.remove(place);
            self.free.push(slot);
            lists += 1;
            bytes += copy_bytes(len as usize) as u64;
        }
        (lists, bytes)
    }

    fn insert(&mut self, hash: u64, id: u64, slot: u32, bytes: &[u8]) {
        let slots = &mut self.slots;
        let moved = |owner: u32, place| slots[owner as usize].place = place;
        let place = self.arena.add(slot, bytes, moved);
        let len = bytes.len() as u32;
        slots[slot as usize] = CachedList { id, place, len };
        self.index.insert(hash, slot);
    }
}
