//! CLOCK: a rotating hand evicts items that were not used since it last passed (Corbató, "A paging
//! experiment with the Multics system", 1969). Implemented as a queue: an item that the hand skips
//! re-enters it, which gives the same order.

use super::chain::{Chain, Queue};
use super::{CacheItem, Capacity, Policy, bytes_of};

#[derive(Debug)]
pub(super) struct ClockPolicy {
    capacity: Capacity,
    chain: Chain,
    queue: Queue,
    used: Vec<bool>,
}

impl ClockPolicy {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            chain: Chain::new(capacity.slots()),
            queue: Queue::new(),
            used: vec![false; capacity.slots()],
        }
    }
}

impl Policy for ClockPolicy {
    fn hit(&mut self, slot: u32, _key: u64) {
        self.used[slot as usize] = true;
    }

    fn admit(&mut self, item: CacheItem, evicted: &mut Vec<u32>) -> bool {
        if !self.capacity.holds(item.bytes) {
            return false;
        }
        while !self.queue.fits(&item, self.capacity) {
            let oldest = self.queue.tail();
            self.chain.remove(&mut self.queue, oldest);
            if std::mem::take(&mut self.used[oldest as usize]) {
                self.chain.push(&mut self.queue, oldest);
            } else {
                evicted.push(oldest);
            }
        }
        self.used[item.slot as usize] = false;
        self.chain.insert(&mut self.queue, &item);
        true
    }

    fn remove(&mut self, slot: u32) {
        self.chain.remove(&mut self.queue, slot);
    }

    fn metadata_bytes(&self) -> usize {
        self.chain.metadata_bytes() + bytes_of(&self.used)
    }
}
