//! A queue of keys without their items: the most recent ones, except for those that were taken out.

use super::bytes_of;
use crate::hash_index::{HashIndex, mix};

#[derive(Debug)]
pub(super) struct GhostQueue {
    /// Ring buffer of keys in insertion order.
    keys: Vec<u64>,
    /// The positions in the ring whose keys have not been taken out.
    index: HashIndex,
    next: usize,
    len: usize,
}

impl GhostQueue {
    pub(super) fn new(len: u32) -> Self {
        let len = len.max(1) as usize;
        Self {
            keys: Vec::with_capacity(len),
            index: HashIndex::new(len),
            next: 0,
            len,
        }
    }

    /// Adds a key, which must be absent. The oldest key is dropped if the queue is full.
    pub(super) fn note(&mut self, key: u64) {
        let place = self.next as u32;
        if self.keys.len() < self.len {
            self.keys.push(key);
        } else {
            let keys = &self.keys;
            let old = keys[self.next];
            self.index
                .remove(mix(old), place, |place| mix(keys[place as usize]));
            self.keys[self.next] = key;
        }
        self.index.insert(mix(key), place);
        self.next = (self.next + 1) % self.len;
    }

    /// Removes `key`; returns true if it was present.
    pub(super) fn take(&mut self, key: u64) -> bool {
        let keys = &self.keys;
        let hash = mix(key);
        let Some(place) = self.index.find(hash, |place| keys[place as usize] == key) else {
            return false;
        };
        self.index.remove(hash, place, |place| mix(keys[place as usize]));
        true
    }

    pub(super) fn metadata_bytes(&self) -> usize {
        bytes_of(&self.keys) + self.index.bytes()
    }
}
