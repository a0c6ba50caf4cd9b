//! A cache of lists found by a hash table from their offsets: the way of the paper ([`Links::Hashed`](crate::Links)).
//!
//! All DRAM is allocated at the start and stays within the budget: the copies, the table, and what the policy takes. The
//! cache is split into shards, a lock and a policy each; a list that is read is read under its shard's lock.

mod arena;
mod shard;
#[cfg(test)]
mod tests;

use crate::hash_index::mix;
use crate::{CacheError, PolicyKind};
use shard::Shard;
use std::ops::Add;

/// A shard has about this much at least, as small ones each waste some.
const SHARD_BYTES: usize = 1 << 20;
const MOST_SHARDS: usize = 16;

/// What a cache did so far, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Reads that found their list.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Lists brought in.
    pub admissions: u64,
    /// Lists that had to go for others.
    pub evictions: u64,
    /// Lists held.
    pub items: u64,
    /// The DRAM of their copies.
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

/// See the module.
#[derive(Debug)]
pub struct ListCache {
    shards: Box<[Shard]>,
}

impl ListCache {
    /// An empty cache that takes at most `budget_bytes` of DRAM. `average_bytes` is what a list takes about: it
    /// decides for how many the table has room.
    ///
    /// # Errors
    /// [`CacheError::BudgetTooSmall`] if there is no room for a single list of that size.
    pub fn new(budget_bytes: usize, average_bytes: usize, policy: PolicyKind) -> Result<Self, CacheError> {
        let shards = (budget_bytes / SHARD_BYTES).clamp(1, MOST_SHARDS);
        // A power of two, so that the low bits of a hash tell the shard.
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

    /// Calls `reader` with the list at offset `id`, if it is here. That shard waits until it returns.
    #[inline]
    pub fn read<R>(&self, id: u64, reader: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let hash = mix(id);
        self.shard(hash).read(hash, id, reader)
    }

    /// Offers a list that a read missed; the policy decides. Answers whether it is here now.
    pub fn admit(&self, id: u64, probability: f32, bytes: &[u8]) -> bool {
        let hash = mix(id);
        self.shard(hash).admit(hash, id, probability, bytes)
    }

    /// The list has another probability, if it is here and its policy asks for that.
    pub fn reweigh(&self, id: u64, probability: f32) {
        let hash = mix(id);
        self.shard(hash).reweigh(hash, id, probability);
    }

    /// The bits that tell the shard are the lowest, as the highest tell the place in its table.
    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[hash as usize & (self.shards.len() - 1)]
    }

    /// What it did and holds; takes no lock, so numbers of the same moment may differ by what goes on.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shards
            .iter()
            .map(Shard::statistics)
            .fold(Statistics::default(), Add::add)
    }

    /// The DRAM it takes, all of which is allocated from the start.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.shards.iter().map(Shard::bytes).sum::<usize>()
    }
}
