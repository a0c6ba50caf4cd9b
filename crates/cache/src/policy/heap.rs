//! A binary min-heap of slots by rank, which supports changes of rank and removals. Each operation is O(log
//! n).

use super::{CacheItem, Capacity, bytes_of};

/// Heap position of a slot that is not in the heap.
const NOWHERE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct RankHeap {
    heap: Vec<u32>,
    ranks: Vec<u64>,
    places: Vec<u32>,
    sizes: Vec<u32>,
    bytes: u64,
}

impl RankHeap {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            heap: Vec::with_capacity(slots),
            ranks: vec![0; slots],
            places: vec![NOWHERE; slots],
            sizes: vec![0; slots],
            bytes: 0,
        }
    }

    /// Returns true if `item` also fits within `capacity`.
    pub(super) fn fits(&self, item: &CacheItem, capacity: Capacity) -> bool {
        capacity.has(self.bytes + u64::from(item.bytes), self.heap.len() as u32 + 1)
    }

    pub(super) fn rank(&self, slot: u32) -> u64 {
        self.ranks[slot as usize]
    }

    /// Returns the slot with the lowest rank.
    pub(super) fn least(&self) -> Option<u32> {
        self.heap.first().copied()
    }

    pub(super) fn insert(&mut self, item: &CacheItem, rank: u64) {
        self.sizes[item.slot as usize] = item.bytes;
        self.push(item.slot, rank);
    }

    /// Reinserts a removed slot with its previous size.
    pub(super) fn push(&mut self, slot: u32, rank: u64) {
        self.ranks[slot as usize] = rank;
        self.bytes += u64::from(self.sizes[slot as usize]);
        self.heap.push(slot);
        self.places[slot as usize] = self.heap.len() as u32 - 1;
        self.up(self.heap.len() - 1);
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let place = self.places[slot as usize] as usize;
        self.places[slot as usize] = NOWHERE;
        self.bytes -= u64::from(self.sizes[slot as usize]);
        let last = self.heap.len() - 1;
        self.heap.swap_remove(place);
        if place < last {
            self.places[self.heap[place] as usize] = place as u32;
            self.restore(place);
        }
    }

    pub(super) fn rerank(&mut self, slot: u32, rank: u64) {
        self.ranks[slot as usize] = rank;
        self.restore(self.places[slot as usize] as usize);
    }

    fn restore(&mut self, place: usize) {
        let place = self.up(place);
        self.down(place);
    }

    fn up(&mut self, mut place: usize) -> usize {
        while place > 0 {
            let parent = (place - 1) / 2;
            if !self.less(place, parent) {
                break;
            }
            self.swap(place, parent);
            place = parent;
        }
        place
    }

    fn down(&mut self, mut place: usize) {
        loop {
            let mut least = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.heap.len() && self.less(child, least) {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    fn less(&self, a: usize, b: usize) -> bool {
        self.ranks[self.heap[a] as usize] < self.ranks[self.heap[b] as usize]
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.places[self.heap[a] as usize] = a as u32;
        self.places[self.heap[b] as usize] = b as u32;
    }

    pub(super) fn metadata_bytes(&self) -> usize {
        bytes_of(&self.heap) + bytes_of(&self.ranks) + bytes_of(&self.places) + bytes_of(&self.sizes)
    }
}
