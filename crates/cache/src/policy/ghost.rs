//! A queue of keys without their items: the last so many that were noted, less those that were taken back.

use super::bytes_of;
use crate::hash_index::{HashIndex, mix};

#[derive(Debug)]
pub(super) struct GhostQueue {
    /// In the order of their notes, a ring.
    keys: Vec<u64>,
    /// Which places of the ring hold keys that count.
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

    /// Notes a key that is not there; the note that is `len` notes old is lost.
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

    /// Whether `key` was there; it no longer is.
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
