//! A cache of lists that are found through a hash table of their offsets, as in the paper
//! ([`Links::Hashed`](crate::Links)).
//!
//! All DRAM is allocated at creation and stays within the budget: the copies, the table and the metadata of
//! the policy. The cache is split into shards with a lock and a policy each. A list is read under its shard's
//! lock.

mod arena;
mod shard;
#[cfg(test)]
mod tests;

use crate::hash_index::mix;
use crate::{CacheError, PolicyKind};
use shard::Shard;
use std::ops::Add;

/// Approximate minimum size of a shard; each shard has some overhead.
const SHARD_BYTES: usize = 1 << 20;
const MAX_SHARDS: usize = 16;

/// Statistics of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Reads that found their list.
    pub hits: u64,
    /// Reads that did not find their list.
    pub misses: u64,
    /// Lists admitted.
    pub admissions: u64,
    /// Lists evicted.
    pub evictions: u64,
    /// Lists in the cache.
    pub items: u64,
    /// DRAM used by the copies, in bytes.
    pub bytes_used: u64,
}

impl Add for Statistics {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            admissions: self.admissions + other.admissions,
            evictions: self.evictions + other.evictions,
            items: self.items + other.items,
            bytes_used: self.bytes_used + other.bytes_used,
        }
    }
}

/// A sharded cache of lists; see the module documentation.
#[derive(Debug)]
pub struct ListCache {
    shards: Box<[Shard]>,
}

impl ListCache {
    /// Creates an empty cache that takes at most `budget_bytes` of DRAM. `average_bytes` is the average
    /// size of a list, from which the size of the table follows.
    ///
    /// # Errors
    /// [`CacheError::BudgetTooSmall`] if the budget is too small for a single list of that size.
    pub fn new(budget_bytes: usize, average_bytes: usize, policy: PolicyKind) -> Result<Self, CacheError> {
        let shards = (budget_bytes / SHARD_BYTES).clamp(1, MAX_SHARDS);
        // A power of two, so that the low bits of a hash select the shard.
        let shards = 1 << shards.ilog2();
        let each = budget_bytes.saturating_sub(size_of::<Self>()) / shards;
        let shard = |_| {
            Shard::new(each, average_bytes.max(1), policy).ok_or(CacheError::BudgetTooSmall {
                bytes: budget_bytes as u64,
                least: (shards * Shard::least_bytes(average_bytes, policy)) as u64,
            })
        };
        Ok(Self {
            shards: (0..shards).map(shard).collect::<Result<_, _>>()?,
        })
    }

    /// Calls `reader` with the list at offset `id` if it is cached. The shard is locked during the call.
    #[inline]
    pub fn read<R>(&self, id: u64, reader: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let hash = mix(id);
        self.shard(hash).read(hash, id, reader)
    }

    /// Offers a list that a read has missed. Returns true if it is in the cache now.
    pub fn admit(&self, id: u64, probability: f32, bytes: &[u8]) -> bool {
        let hash = mix(id);
        self.shard(hash).admit(hash, id, probability, bytes)
    }

    /// Updates the access probability of a list, if it is cached and the policy uses probabilities.
    pub fn reweigh(&self, id: u64, probability: f32) {
        let hash = mix(id);
        self.shard(hash).reweigh(hash, id, probability);
    }

    /// Selects the shard by the lowest bits of the hash, because the highest select the position in its
    /// table.
    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[hash as usize & (self.shards.len() - 1)]
    }

    /// Returns the statistics. No lock is taken, so the numbers may be of slightly different moments.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shards
            .iter()
            .map(Shard::statistics)
            .fold(Statistics::default(), Add::add)
    }

    /// Returns the DRAM of the cache in bytes, all of which is allocated at creation.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.shards.iter().map(Shard::bytes).sum::<usize>()
    }
}
