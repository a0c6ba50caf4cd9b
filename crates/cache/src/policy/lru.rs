//! LRU: evicts the least recently used item (Jibril et al. 2022, section 4; the textbook policy).

use super::chain::{Chain, Queue};
use super::{CacheItem, Capacity, Policy};

#[derive(Debug)]
pub(super) struct Lru {
    capacity: Capacity,
    chain: Chain,
    queue: Queue,
}

impl Lru {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            chain: Chain::new(capacity.slots()),
            queue: Queue::new(),
        }
    }
}

impl Policy for Lru {
    fn hit(&mut self, slot: u32, _key: u64) {
        self.chain.renew(&mut self.queue, slot);
    }

    fn admit(&mut self, item: CacheItem, evicted: &mut Vec<u32>) -> bool {
        if !self.capacity.holds(item.bytes) {
            return false;
        }
        while !self.queue.fits(&item, self.capacity) {
            let oldest = self.queue.tail();
            self.chain.remove(&mut self.queue, oldest);
            evicted.push(oldest);
        }
        self.chain.insert(&mut self.queue, &item);
        true
    }

    fn remove(&mut self, slot: u32) {
        self.chain.remove(&mut self.queue, slot);
    }

    fn metadata_bytes(&self) -> usize {
        self.chain.metadata_bytes()
    }
}
