//! LLA, "least likely to be accessed": LFU with given probabilities. An item is admitted if all items to be
//! evicted for it are less probable (Jibril et al. 2022, section 4; there all items have the same size and
//! one is evicted).

use super::heap::RankHeap;
use super::{CacheItem, Capacity, Policy};

#[derive(Debug)]
pub(super) struct Lla {
    capacity: Capacity,
    heap: RankHeap,
    time: u32,
}

/// Returns the bits of a non-negative float, which have the same order as the value.
fn bits(probability: f32) -> u32 {
    probability.max(0.0).to_bits()
}

impl Lla {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            heap: RankHeap::new(capacity.slots()),
            time: 0,
        }
    }

    /// Returns a rank by probability and, among equals, time of admission.
    fn rank(&mut self, probability: f32) -> u64 {
        self.time = self.time.wrapping_add(1);
        u64::from(bits(probability)) << 32 | u64::from(self.time)
    }
}

impl Policy for Lla {
    fn hit(&mut self, _slot: u32, _key: u64) {}

    fn admit(&mut self, item: CacheItem, evicted: &mut Vec<u32>) -> bool {
        if !self.capacity.holds(item.bytes) {
            return false;
        }
        let before = evicted.len();
        while !self.heap.fits(&item, self.capacity) {
            let less = |slot: &u32| (self.heap.rank(*slot) >> 32) < u64::from(bits(item.probability));
            let Some(least) = self.heap.least().filter(less) else {
                for slot in evicted.drain(before..) {
                    self.heap.push(slot, self.heap.rank(slot));
                }
                return false;
            };
            self.heap.remove(least);
            evicted.push(least);
        }
        let rank = self.rank(item.probability);
        self.heap.insert(&item, rank);
        true
    }

    fn reweigh(&mut self, slot: u32, probability: f32) {
        let rank = self.rank(probability);
        self.heap.rerank(slot, rank);
    }

    fn remove(&mut self, slot: u32) {
        self.heap.remove(slot);
    }

    fn metadata_bytes(&self) -> usize {
        self.heap.metadata_bytes()
    }
}
