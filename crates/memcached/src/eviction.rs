//! Eviction: which items leave when `-m` bounds the pool.
//!
//! A policy of the crate `halocline-cache` chooses. It knows items by slots; this module keeps the keys of
//! the slots in DRAM, about 100 bytes for each item. Items that have expired leave first. After a start the
//! policy is told of the items that are there step by step, while commands are served.
//!
//! An item leaves without the lock of its key: a command that has read it by then may store it again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use halocline_cache::{CacheItem, Capacity, Policy, PolicyKind};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of the pool for each byte of items: superseded records and free space of the log.
const POOL_PER_ITEM: f64 = 1.5;
/// Least size that items are expected to have on average; sets the number of slots.
const MIN_ITEM: u64 = 128;
/// Expired items that leave with each item that is stored, and items that could not leave before.
const AT_ONCE: usize = 16;

/// The items that a bounded server has.
pub(crate) struct Evictor {
    kind: PolicyKind,
    capacity: Capacity,
    state: Mutex<State>,
}

struct State {
    policy: Box<dyn Policy>,
    slots: HashMap<Box<[u8]>, u32>,
    /// The slots that were used so far: they take memory as there are items.
    items: Vec<Slot>,
    /// Most slots.
    most: usize,
    /// Slots that are used no more.
    free: Vec<u32>,
    /// Times of expiry with slots.
    expiring: BTreeSet<(u64, u32)>,
    bytes: u64,
    /// Keys of items that were to leave in a commit that has failed.
    late: HashSet<Box<[u8]>>,
}

/// An item that leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeavingItem {
    pub(crate) key: Box<[u8]>,
    /// It had expired, so nobody misses it.
    pub(crate) has_expired: bool,
}

impl LeavingItem {
    fn new(key: Box<[u8]>) -> LeavingItem {
        LeavingItem {
            key,
            has_expired: false,
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Slot {
    key: Box<[u8]>,
    bytes: u32,
    expires: Option<u64>,
}

impl fmt::Debug for Evictor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evictor")
            .field("kind", &self.kind)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

impl State {
    fn new(kind: PolicyKind, capacity: Capacity) -> State {
        State {
            policy: kind.build(capacity),
            slots: HashMap::new(),
            items: Vec::new(),
            most: capacity.items as usize + 1,
            free: Vec::new(),
            expiring: BTreeSet::new(),
            bytes: 0,
            late: HashSet::new(),
        }
    }

    /// Takes keys of items that are late. Those that are known again stay.
    fn take_late(&mut self) -> Vec<LeavingItem> {
        if self.late.is_empty() {
            return Vec::new();
        }
        let (slots, late) = (&self.slots, &mut self.late);
        late.retain(|key| !slots.contains_key(key));
        let mut taken = 0;
        let few = late.extract_if(|_| {
            taken += 1;
            taken <= AT_ONCE
        });
        few.map(LeavingItem::new).collect()
    }

    /// Takes a slot that is not used.
    fn take_slot(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        let next = self.items.len();
        (next < self.most).then(|| {
            self.items.push(Slot::default());
            next as u32
        })
    }

    /// Forgets the item in a slot, and returns its key.
    fn release(&mut self, slot: u32) -> Box<[u8]> {
        let item = std::mem::take(&mut self.items[slot as usize]);
        self.bytes -= u64::from(item.bytes);
        if let Some(expires) = item.expires {
            self.expiring.remove(&(expires, slot));
        }
        self.slots.remove(&item.key);
        self.free.push(slot);
        item.key
    }

    /// Lets items that have expired leave.
    fn expire(&mut self, now: u64, evicted: &mut Vec<LeavingItem>) {
        for _ in 0..AT_ONCE {
            let Some(&(_, slot)) = self.expiring.first().filter(|(expires, _)| *expires <= now) else {
                return;
            };
            self.policy.remove(slot);
            evicted.push(LeavingItem {
                key: self.release(slot),
                has_expired: true,
            });
        }
    }
}

/// Returns the bytes of items for which a pool of `bytes` has room.
pub(crate) fn items_within(bytes: u64) -> u64 {
    (bytes as f64 / POOL_PER_ITEM) as u64
}

impl Evictor {
    /// Returns an evictor for a pool of at most `bytes`.
    pub(crate) fn new(kind: PolicyKind, bytes: u64) -> Evictor {
        let bytes = items_within(bytes);
        let capacity = Capacity {
            bytes,
            items: u32::try_from(bytes / MIN_ITEM).unwrap_or(u32::MAX - 1).max(1),
        };
        Evictor {
            kind,
            capacity,
            state: Mutex::new(State::new(kind, capacity)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes of items that are kept at most.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity.bytes
    }

    /// Notes a use of an item. Uses may be lost while other threads change the state.
    pub(crate) fn used(&self, key: &[u8]) {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if let Some(&slot) = state.slots.get(key) {
            state.policy.hit(slot, xxh3_64(key));
        }
    }

    /// Notes that an item was stored. Returns the items that leave for it, of which it may be one.
    pub(crate) fn stored(&self, key: &[u8], bytes: u64, expires: Option<u64>, now: u64) -> Vec<LeavingItem> {
        let mut state = self.state();
        let mut evicted = Vec::new();
        if let Some(&slot) = state.slots.get(key) {
            state.policy.remove(slot);
            state.release(slot);
        }
        state.late.remove(key);
        evicted.append(&mut state.take_late());
        state.expire(now, &mut evicted);
        let Some(slot) = state.take_slot() else {
            return evicted;
        };
        let item = CacheItem {
            slot,
            key: xxh3_64(key),
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            probability: 1.0,
        };
        let mut leaving = Vec::new();
        if !state.policy.admit(item, &mut leaving) {
            state.free.push(slot);
            evicted.push(LeavingItem::new(key.into()));
            return evicted;
        }
        state.slots.insert(key.into(), slot);
        state.items[slot as usize] = Slot {
            key: key.into(),
            bytes: item.bytes,
            expires,
        };
        state.bytes += u64::from(item.bytes);
        if let Some(expires) = expires {
            state.expiring.insert((expires, slot));
        }
        evicted.extend(
            leaving
                .into_iter()
                .map(|slot| LeavingItem::new(state.release(slot))),
        );
        evicted
    }

    /// Returns true if the item is known.
    pub(crate) fn knows(&self, key: &[u8]) -> bool {
        self.state().slots.contains_key(key)
    }

    /// Notes that an item was removed.
    pub(crate) fn removed(&self, key: &[u8]) {
        let mut state = self.state();
        state.late.remove(key);
        if let Some(&slot) = state.slots.get(key) {
            state.policy.remove(slot);
            state.release(slot);
        }
    }

    /// Notes that items which the policy has let leave are still there. They leave with an item that is
    /// stored later, unless they are known again by then.
    pub(crate) fn leave_later(&self, keys: impl IntoIterator<Item = Box<[u8]>>) {
        let mut state = self.state();
        for key in keys {
            if !state.slots.contains_key(&key) {
                state.late.insert(key);
            }
        }
    }

    /// Takes some of the items that were to leave before.
    pub(crate) fn late(&self) -> Vec<LeavingItem> {
        self.state().take_late()
    }

    /// Returns true if there are items that were to leave before.
    pub(crate) fn has_late(&self) -> bool {
        !self.state().late.is_empty()
    }

    /// Forgets all items.
    pub(crate) fn clear(&self) {
        *self.state() = State::new(self.kind, self.capacity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evictor(bytes: u64) -> Evictor {
        Evictor::new(PolicyKind::S3Fifo, bytes)
    }

    #[test]
    fn items_leave_when_they_take_too_much() {
        let evictor = evictor(150_000);
        let mut present = BTreeSet::new();
        for number in 0..10_000_u32 {
            let key = number.to_string().into_bytes();
            present.insert(key.clone());
            for gone in evictor.stored(&key, 1000, None, 0) {
                assert!(present.remove(&gone.key[..]), "only an item that is there leaves");
            }
            assert!(present.len() <= 100, "{} items", present.len());
        }
        assert!(present.len() > 90 && present.iter().all(|key| evictor.knows(key)));
        assert!(evictor.state().bytes <= evictor.capacity());
    }

    #[test]
    fn expired_items_leave_first() {
        let evictor = evictor(15_000);
        for number in 0..9_u8 {
            let expires = (number == 4).then_some(100);
            assert!(evictor.stored(&[number], 1000, expires, 0).is_empty());
        }
        let gone = evictor.stored(&[9], 1000, None, 100);
        let expired = LeavingItem {
            key: Box::from(&[4][..]),
            has_expired: true,
        };
        assert_eq!(gone, [expired]);
        assert!(evictor.stored(&[10], 1000, None, 100).is_empty());
    }

    #[test]
    fn items_that_could_not_leave_do_so_later() {
        let evictor = evictor(15_000);
        let key = |number: u8| Box::from(&[number][..]);
        evictor.leave_later([key(1), key(2), key(3), key(4)]);
        // It is known again, and so is the next one before it is asked for.
        assert_eq!(evictor.stored(&[1], 100, None, 0).len(), 3);
        evictor.leave_later([key(1), key(2), key(3)]);
        evictor.stored(&[2], 100, None, 0);
        assert!(!evictor.has_late());
        evictor.leave_later((100..=u8::MAX).map(key));
        assert_eq!(evictor.late().len(), AT_ONCE);
        assert!(evictor.has_late());
        evictor.clear();
        assert!(!evictor.has_late() && evictor.late().is_empty());
    }

    #[test]
    fn an_item_that_is_stored_again_counts_once() {
        let evictor = evictor(15_000);
        for size in [1000, 3000, 2000] {
            assert!(evictor.stored(b"k", size, Some(5), 0).is_empty());
        }
        assert_eq!(evictor.state().bytes, 2000);
        evictor.removed(b"k");
        assert_eq!(evictor.state().bytes, 0);
        assert!(!evictor.knows(b"k"));
    }
}
