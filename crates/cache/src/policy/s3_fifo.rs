//! S3-FIFO: a small queue S (a tenth of the capacity) in front of the main queue M, and a ghost queue G of
//! keys that left S. Items used more than once in S move to M; items that return while in G enter M directly
//! (Yang et al., SOSP 2023, section 4.1, algorithm 1). G holds as many keys as M may hold items.

use super::chain::{Chain, NONE, Queue};
use super::ghost::GhostQueue;
use super::{CacheItem, Capacity, Policy, bytes_of};

/// Masks of a slot's state: number of uses, at most 3, and membership in M.
const USES: u8 = 3;
const MAIN: u8 = 4;

#[derive(Debug)]
pub(super) struct S3Fifo {
    capacity: Capacity,
    chain: Chain,
    small: Queue,
    main: Queue,
    ghost: GhostQueue,
    states: Vec<u8>,
    keys: Vec<u64>,
}

impl S3Fifo {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            chain: Chain::new(capacity.slots()),
            small: Queue::new(),
            main: Queue::new(),
            ghost: GhostQueue::new(capacity.percent(90).items),
            states: vec![0; capacity.slots()],
            keys: vec![0; capacity.slots()],
        }
    }

    fn full(&self, item: &CacheItem) -> bool {
        let bytes = self.small.bytes + self.main.bytes + u64::from(item.bytes);
        !self.capacity.has(bytes, self.small.items + self.main.items + 1)
    }

    /// Returns true if S has reached its share, so that items are evicted from S.
    fn small_is_full(&self) -> bool {
        let target = self.capacity.percent(10);
        self.small.bytes >= target.bytes || self.small.items >= target.items
    }

    fn evict_small(&mut self, evicted: &mut Vec<u32>) {
        while self.small.tail() != NONE {
            let slot = self.small.tail();
            self.chain.remove(&mut self.small, slot);
            if self.states[slot as usize] & USES <= 1 {
                self.ghost.note(self.keys[slot as usize]);
                evicted.push(slot);
                return;
            }
            self.states[slot as usize] = MAIN;
            self.chain.push(&mut self.main, slot);
            if !self.main.within(self.capacity.percent(90)) {
                self.evict_main(evicted);
            }
        }
    }

    fn evict_main(&mut self, evicted: &mut Vec<u32>) {
        while self.main.tail() != NONE {
            let slot = self.main.tail();
            self.chain.remove(&mut self.main, slot);
            let state = &mut self.states[slot as usize];
            if *state & USES == 0 {
                evicted.push(slot);
                return;
            }
            *state -= 1;
            self.chain.push(&mut self.main, slot);
        }
    }
}

impl Policy for S3Fifo {
    fn hit(&mut self, slot: u32, _key: u64) {
        let state = &mut self.states[slot as usize];
        if *state & USES < USES {
            *state += 1;
        }
    }

    fn admit(&mut self, item: CacheItem, evicted: &mut Vec<u32>) -> bool {
        if !self.capacity.holds(item.bytes) {
            return false;
        }
        while self.full(&item) {
            if self.small.items > 0 && (self.small_is_full() || self.main.items == 0) {
                self.evict_small(evicted);
            } else {
                self.evict_main(evicted);
            }
        }
        self.keys[item.slot as usize] = item.key;
        if self.ghost.take(item.key) {
            self.states[item.slot as usize] = MAIN;
            self.chain.insert(&mut self.main, &item);
        } else {
            self.states[item.slot as usize] = 0;
            self.chain.insert(&mut self.small, &item);
        }
        true
    }

    fn remove(&mut self, slot: u32) {
        let main = self.states[slot as usize] & MAIN != 0;
        let queue = if main { &mut self.main } else { &mut self.small };
        self.chain.remove(queue, slot);
    }

    fn metadata_bytes(&self) -> usize {
        let arrays = bytes_of(&self.states) + bytes_of(&self.keys);
        self.chain.metadata_bytes() + self.ghost.metadata_bytes() + arrays
    }
}
