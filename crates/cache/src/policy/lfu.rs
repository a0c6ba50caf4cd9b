//! LFU: evicts the item used least often since its admission, and among equals the least recently used
//! one (Jibril et al. 2022, section 4; the textbook policy without history of evicted items).

use super::heap::RankHeap;
use super::{CacheItem, Capacity, Policy};

/// A rank has the number of uses in the upper bits and the time of the last use in the lower ones.
const TIME_BITS: u32 = 40;
const MAX_USES: u64 = (1 << (64 - TIME_BITS)) - 1;

#[derive(Debug)]
pub(super) struct Lfu {
    capacity: Capacity,
    heap: RankHeap,
    time: u64,
}

impl Lfu {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            heap: RankHeap::new(capacity.slots()),
            time: 0,
        }
    }

    fn rank(&mut self, uses: u64) -> u64 {
        self.time += 1;
        uses.min(MAX_USES) << TIME_BITS | self.time & ((1 << TIME_BITS) - 1)
    }
}

impl Policy for Lfu {
    fn hit(&mut self, slot: u32, _key: u64) {
        let uses = self.heap.rank(slot) >> TIME_BITS;
        let rank = self.rank(uses + 1);
        self.heap.rerank(slot, rank);
    }

    fn admit(&mut self, item: CacheItem, evicted: &mut Vec<u32>) -> bool {
        if !self.capacity.holds(item.bytes) {
            return false;
        }
        while !self.heap.fits(&item, self.capacity) {
            let Some(least) = self.heap.least() else { break };
            self.heap.remove(least);
            evicted.push(least);
        }
        let rank = self.rank(1);
        self.heap.insert(&item, rank);
        true
    }

    fn remove(&mut self, slot: u32) {
        self.heap.remove(slot);
    }

    fn metadata_bytes(&self) -> usize {
        self.heap.metadata_bytes()
    }
}
