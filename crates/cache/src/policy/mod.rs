//! Replacement policies, which decide what stays in a full cache.
//!
//! A policy works on slots, small numbers that the cache assigns to its items, so that only the cache needs a
//! hash table. It does its own accounting of bytes and items: after every call, the resident items are within
//! its [`Capacity`]. All memory is allocated at creation and reported by [`Policy::metadata_bytes`].
//!
//! A policy is one file, whose header names the paper, and an entry of the list in `kind.rs`. Tests compare
//! each policy with a model.

mod chain;
mod clock;
mod ghost;
mod heap;
mod kind;
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

use std::fmt;

pub use kind::PolicyKind;

/// The capacity of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Maximum total size of the items in bytes.
    pub bytes: u64,
    /// Maximum number of items. Slots are `0..=items`; the additional one is for an item under
    /// consideration.
    pub items: u32,
}

impl Capacity {
    /// Returns true if the given amounts are within the capacity.
    fn has(self, bytes: u64, items: u32) -> bool {
        bytes <= self.bytes && items <= self.items
    }

    /// Returns true if an item of this size can be resident at all.
    fn holds(self, bytes: u32) -> bool {
        self.has(u64::from(bytes), 1)
    }

    /// Returns the number of slots.
    fn slots(self) -> usize {
        self.items as usize + 1
    }

    /// Returns `percent` of the capacity, but at least one item.
    fn percent(self, percent: u64) -> Self {
        Self {
            bytes: self.bytes * percent / 100,
            items: ((u64::from(self.items) * percent / 100) as u32).max(1),
        }
    }
}

/// An item to be admitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheItem {
    /// An unused slot. It belongs to the item, if that is admitted, until it is evicted or removed.
    pub slot: u32,
    /// Identity of the item, also while it is not resident.
    pub key: u64,
    /// Size of the item.
    pub bytes: u32,
    /// Access probability, not negative. Used only by [`PolicyKind::Lla`].
    pub probability: f32,
}

/// A replacement policy. See the module documentation for the rules.
pub trait Policy: fmt::Debug + Send {
    /// Records a use of the resident item in `slot`.
    fn hit(&mut self, slot: u32, key: u64);

    /// Handles the use of an item that is not resident. Returns true if it is admitted. The slots of
    /// evicted items, never that of `item`, are appended to `evicted`.
    fn admit(&mut self, item: CacheItem, evicted: &mut Vec<u32>) -> bool;

    /// Updates the access probability of the item in `slot`.
    fn reweigh(&mut self, _slot: u32, _probability: f32) {}

    /// Removes the resident item in `slot`.
    fn remove(&mut self, slot: u32);

    /// Returns the DRAM that the policy itself takes, in bytes.
    fn metadata_bytes(&self) -> usize;
}

/// Returns the allocated size of a vector in bytes.
fn bytes_of<T>(vec: &Vec<T>) -> usize {
    vec.capacity() * size_of::<T>()
}
