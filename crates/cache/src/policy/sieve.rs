//! SIEVE: one queue, whose hand moves from tail to head and evicts items that were not used since it last
//! passed; items that it skips keep their position (Zhang et al., NSDI 2024, section 3, algorithm 1).

use super::chain::{Chain, NONE, Queue};
use super::{CacheItem, Capacity, Policy, bytes_of};

#[derive(Debug)]
pub(super) struct Sieve {
    capacity: Capacity,
    chain: Chain,
    queue: Queue,
    used: Vec<bool>,
    /// The slot to be examined next, or [`NONE`] for the tail.
    hand: u32,
}

impl Sieve {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            chain: Chain::new(capacity.slots()),
            queue: Queue::new(),
            used: vec![false; capacity.slots()],
            hand: NONE,
        }
    }

    fn evict(&mut self) -> u32 {
        loop {
            let slot = match self.hand {
                NONE => self.queue.tail(),
                hand => hand,
            };
            self.hand = self.chain.newer(slot);
            if !std::mem::take(&mut self.used[slot as usize]) {
                self.chain.remove(&mut self.queue, slot);
                return slot;
            }
        }
    }
}

impl Policy for Sieve {
    fn hit(&mut self, slot: u32, _key: u64) {
        self.used[slot as usize] = true;
    }

    fn admit(&mut self, item: CacheItem, evicted: &mut Vec<u32>) -> bool {
        if !self.capacity.holds(item.bytes) {
            return false;
        }
        while !self.queue.fits(&item, self.capacity) {
            let slot = self.evict();
            evicted.push(slot);
        }
        self.used[item.slot as usize] = false;
        self.chain.insert(&mut self.queue, &item);
        true
    }

    fn remove(&mut self, slot: u32) {
        if self.hand == slot {
            self.hand = self.chain.newer(slot);
        }
        self.chain.remove(&mut self.queue, slot);
    }

    fn metadata_bytes(&self) -> usize {
        self.chain.metadata_bytes() + bytes_of(&self.used)
    }
}
