//! Naive: admits while there is room and never evicts (Jibril et al., Distrib. Parallel Databases 40,
//! 2022, section 4).

use super::chain::{Chain, Queue};
use super::{CacheItem, Capacity, Policy};

#[derive(Debug)]
pub(super) struct Naive {
    capacity: Capacity,
    chain: Chain,
    resident: Queue,
}

impl Naive {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            chain: Chain::new(capacity.slots()),
            resident: Queue::new(),
        }
    }
}

impl Policy for Naive {
    fn hit(&mut self, _slot: u32, _key: u64) {}

    fn admit(&mut self, item: CacheItem, _evicted: &mut Vec<u32>) -> bool {
        let fits = self.resident.fits(&item, self.capacity);
        if fits {
            self.chain.insert(&mut self.resident, &item);
        }
        fits
    }

    fn remove(&mut self, slot: u32) {
        self.chain.remove(&mut self.resident, slot);
    }

    fn metadata_bytes(&self) -> usize {
        self.chain.metadata_bytes()
    }
}
