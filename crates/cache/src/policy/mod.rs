//! Replacement policies: what of a cache stays when its room is used up.
//!
//! A policy works on slots, small numbers that the cache gives its items, so that the only hash table is the cache's. It
//! keeps its own books of bytes and items: after every call what is resident is within the [`Capacity`] it was built
//! for. All its memory is allocated when it is built, and [`Policy::metadata_bytes`] says how much that is.

mod chain;
mod clock;
mod ghost;
mod heap;
mod lfu;
mod lla;
mod lru;
mod naive;
mod s3_fifo;
mod sieve;
mod sketch;
#[cfg(test)]
mod tests;
mod two_q;
mod w_tiny_lfu;

use crate::PolicyKind;
use std::fmt;

/// What a policy may keep resident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// The sum of the items' bytes.
    pub bytes: u64,
    /// Their number. Slots are `0..=items`: one more, for the item that asks to be admitted.
    pub items: u32,
}

impl Capacity {
    /// Whether so much is within it.
    fn has(self, bytes: u64, items: u32) -> bool {
        bytes <= self.bytes && items <= self.items
    }

    /// Whether an item can be resident at all.
    fn holds(self, bytes: u32) -> bool {
        self.has(u64::from(bytes), 1)
    }

    /// The number of slots.
    fn slots(self) -> usize {
        self.items as usize + 1
    }

    /// `percent` of it, at least one item.
    fn percent(self, percent: u64) -> Self {
        Self {
            bytes: self.bytes * percent / 100,
            items: ((u64::from(self.items) * percent / 100) as u32).max(1),
        }
    }
}

/// An item that asks to be admitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheItem {
    /// A slot of no resident item; the item's until it is evicted or removed, if it is admitted.
    pub slot: u32,
    /// What identifies it also while it is not resident.
    pub key: u64,
    /// What it takes of the capacity.
    pub bytes: u32,
    /// The probability of its use, not negative. Only [`PolicyKind::Lla`] asks.
    pub probability: f32,
}

/// Decides what is resident. See the module for the rules.
pub trait Policy: fmt::Debug + Send {
    /// The item in `slot` is used.
    fn hit(&mut self, slot: u32, key: u64);

    /// An item is used that is not resident. Answers whether it is resident from now on; the slots of those that no
    /// longer are get pushed to `evicted`, never the slot of `item`.
    fn admit(&mut self, item: CacheItem, evicted: &mut Vec<u32>) -> bool;

    /// The item in `slot` has another probability from now on.
    fn reweigh(&mut self, _slot: u32, _probability: f32) {}

    /// The resident item in `slot` is gone.
    fn remove(&mut self, slot: u32);

    /// The DRAM that the policy itself takes.
    fn metadata_bytes(&self) -> usize;
}

impl PolicyKind {
    /// A policy with nothing resident.
    #[must_use]
    pub fn build(self, capacity: Capacity) -> Box<dyn Policy> {
        match self {
            Self::Naive => Box::new(naive::Naive::new(capacity)),
            Self::Lru => Box::new(lru::Lru::new(capacity)),
            Self::Lfu => Box::new(lfu::Lfu::new(capacity)),
            Self::TwoQ => Box::new(two_q::TwoQ::new(capacity)),
            Self::Lla => Box::new(lla::Lla::new(capacity)),
            Self::Clock => Box::new(clock::ClockPolicy::new(capacity)),
            Self::Sieve => Box::new(sieve::Sieve::new(capacity)),
            Self::S3Fifo => Box::new(s3_fifo::S3Fifo::new(capacity)),
            Self::WTinyLfu => Box::new(w_tiny_lfu::WTinyLfu::new(capacity)),
        }
    }
}

/// The bytes a vector holds on to.
fn bytes_of<T>(vec: &Vec<T>) -> usize {
    vec.capacity() * size_of::<T>()
}
