//! 2Q: an LRU queue AM of items, and a queue A1 of keys only. The first miss adds the key to A1; a miss while
//! it is there admits the item to AM (Johnson and Shasha, VLDB 1994, the simplified 2Q of section 2, with
//! items in AM only as in Jibril et al. 2022, section 4). A1 holds as many keys as there may be items.

use super::ghost::GhostQueue;
use super::lru::Lru;
use super::{CacheItem, Capacity, Policy};

#[derive(Debug)]
pub(super) struct TwoQ {
    capacity: Capacity,
    am: Lru,
    a1: GhostQueue,
}

impl TwoQ {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            am: Lru::new(capacity),
            a1: GhostQueue::new(capacity.items),
        }
    }
}

impl Policy for TwoQ {
    fn hit(&mut self, slot: u32, key: u64) {
        self.am.hit(slot, key);
    }

    fn admit(&mut self, item: CacheItem, evicted: &mut Vec<u32>) -> bool {
        if !self.capacity.holds(item.bytes) {
            return false;
        }
        if self.a1.take(item.key) {
            return self.am.admit(item, evicted);
        }
        self.a1.note(item.key);
        false
    }

    fn remove(&mut self, slot: u32) {
        self.am.remove(slot);
    }

    fn metadata_bytes(&self) -> usize {
        self.am.metadata_bytes() + self.a1.metadata_bytes()
    }
}
