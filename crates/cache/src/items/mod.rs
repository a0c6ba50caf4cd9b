//! A cache of whole items, values of any size with keys of bytes, in front of a map on the slow tier, for any
//! number of threads.
//!
//! The cache is divided into shards by the hashes of keys, each with a lock and a replacement policy. A
//! [`gate`](crate::gate) keeps lookups away while they do not pay; its sample is one shard.
//!
//! # Why reads are linearizable
//! The map is linearizable by itself. A write of a key (1) [marks](crate::write_marks) the key, (2) changes
//! the map, (3) removes the copy of the key or, if no other write of the mark began since (1), replaces it,
//! (4) takes the mark back. A lookup (a) reads the mark and goes to the map if a write is in progress, (b)
//! reads the copy. After a miss it (c) reads the map and (d) stores the result as a copy only if, with the
//! shard locked, the mark is the same as in (a).
//!
//! *A copy differs from the map only while a write of its key is marked.* A write changes the map after (1)
//! and has the copy removed or set to its own value before (4); (3) sets it only if no other write, which
//! could have changed the map later, has begun. In (d) a mark that is unchanged means that no write began
//! before that check. One that begins later finds in (3) either the lock of the shard, and waits, or the
//! copy: lock and check, begin and search in the shard are sequentially consistent.
//!
//! So if the copy read in (b) differs from the map at that moment, the write that is marked then began after
//! (a), as the mark was quiet there. Its copy was the value of the map at that beginning, or at the end of
//! another write after (a): at a moment of the lookup. A lookup that begins after another one, or a scan, has
//! returned the new value of the map sees the mark of (1), which precedes that value, or the copy of (3).
//!
//! Clearing takes constant time: a shard drops its copies when it is used next.

mod shard;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::gate::{LookupGate, PairTimes, SAMPLE};
use crate::hash_index::scale;
use crate::write_marks::{QuietMark, WriteMarks};
use crate::{CacheError, PolicyKind};
use shard::ItemShard;

/// Number of shards, of which one is the sample of the gate.
const SHARDS: usize = SAMPLE as usize;

/// A concurrent cache of items; see the module documentation for the protocol of its users.
///
/// ```
/// use std::sync::Arc;
///
/// use halocline_cache::{ItemCache, ItemLookup};
/// # fn main() -> Result<(), halocline_cache::CacheError> {
/// let cache: ItemCache<String> = ItemCache::new(1 << 20)?.always_on();
/// let (hash, key) = (0x9e37_79b9_7f4a_7c15, b"key");
/// if let ItemLookup::Miss(ticket) = cache.get(hash, key) {
///     let found = Arc::new("read from the map".to_owned());
///     cache.offer(hash, key, &found, found.len(), ticket);
/// }
/// let write = cache.write(hash, key);
/// // The map is changed here.
/// write.replace(|| (Arc::new("changed".to_owned()), 7));
/// assert!(matches!(cache.get(hash, key), ItemLookup::Hit(value) if *value == "changed"));
/// # Ok(())
/// # }
/// ```
pub struct ItemCache<V> {
    shards: Box<[Mutex<ItemShard<V>>]>,
    marks: WriteMarks,
    gate: LookupGate,
    /// Number of times that the cache was cleared.
    epoch: AtomicU64,
}

/// The result of [`ItemCache::get`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemLookup<V> {
    /// The value of the key.
    Hit(Arc<V>),
    /// The key is not cached. A value that is then read from the map may be offered to the cache.
    Miss(ItemTicket),
    /// A write is in progress; the value must be read from the map.
    Busy,
}

/// Permission to [offer](ItemCache::offer) a value that is read after the lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemTicket {
    quiet: QuietMark,
    epoch: u64,
}

/// A write in progress. Dropping it removes the copy of the key.
#[must_use = "a write ends when this is dropped"]
pub struct ItemWrite<'a, V> {
    cache: &'a ItemCache<V>,
    key: &'a [u8],
    hash: u64,
    begun: Option<QuietMark>,
    is_settled: bool,
}

/// Statistics of an [`ItemCache`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ItemCacheStats {
    /// Cached items.
    pub items: u64,
    /// Bytes of DRAM that they take.
    pub bytes: u64,
    /// True if all lookups use the cache; else only a sample does.
    pub is_on: bool,
    /// Recent share of lookups that hit, if measured.
    pub hit_rate: Option<f64>,
    /// Share from which on lookups are expected to pay.
    pub break_even: f64,
}

impl<V> ItemCache<V> {
    /// Creates an empty cache that takes at most `budget_bytes` of DRAM.
    ///
    /// # Errors
    /// [`CacheError::BudgetTooSmall`] if not even an item of some hundred bytes fits in each part.
    pub fn new(budget_bytes: u64) -> Result<Self, CacheError> {
        let of_shard = budget_bytes / SHARDS as u64;
        let shards = (0..SHARDS).map(|_| ItemShard::new(of_shard, PolicyKind::S3Fifo).map(Mutex::new));
        let shards: Option<Box<[_]>> = shards.collect();
        let Some(shards) = shards else {
            return Err(CacheError::BudgetTooSmall {
                bytes: budget_bytes,
                least: ItemShard::<V>::MIN_BYTES * SHARDS as u64,
            });
        };
        let items = ItemShard::<V>::most_items(of_shard) as u64 * SHARDS as u64;
        Ok(Self {
            shards,
            marks: WriteMarks::new(),
            gate: LookupGate::new(items),
            epoch: AtomicU64::new(0),
        })
    }

    /// Lets all lookups use the cache at all times, whether they pay or not.
    #[must_use]
    pub fn always_on(mut self) -> Self {
        self.gate.keep_open();
        self
    }

    /// Returns the shard of a hash, which has dropped its copies if the cache was cleared since its last use.
    fn shard(&self, hash: u64) -> MutexGuard<'_, ItemShard<V>> {
        let shard = &self.shards[scale(hash, SHARDS)];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        shard.enter(self.epoch.load(SeqCst));
        shard
    }

    /// Returns true if the key with this hash should be looked up here. It need not be if that does not pay.
    #[inline]
    #[must_use]
    pub fn admits(&self, hash: u64) -> bool {
        self.gate.admits(hash)
    }

    /// Looks a key up. The hash must be the same for the same key in all methods, and its bits well mixed.
    #[must_use]
    pub fn get(&self, hash: u64, key: &[u8]) -> ItemLookup<V> {
        let found = self.get_timed(hash, key);
        match found {
            ItemLookup::Hit(_) => self.gate.count(true),
            ItemLookup::Miss(_) => self.gate.count(false),
            ItemLookup::Busy => {}
        }
        found
    }

    /// Looks a key up, and leaves it to [`record`](Self::record) to count this.
    #[must_use]
    pub fn get_timed(&self, hash: u64, key: &[u8]) -> ItemLookup<V> {
        let Some(quiet) = self.marks.quiet(hash) else {
            return ItemLookup::Busy;
        };
        let mut shard = self.shard(hash);
        match shard.get(hash, key) {
            Some(value) => ItemLookup::Hit(value),
            None => ItemLookup::Miss(ItemTicket {
                quiet,
                epoch: shard.epoch(),
            }),
        }
    }

    /// Offers a value that was read from the map after the lookup that gave the ticket, with the bytes that
    /// it takes in addition to its own. The cache decides whether to keep it.
    pub fn offer(&self, hash: u64, key: &[u8], value: &Arc<V>, bytes: usize, ticket: ItemTicket) {
        let mut shard = self.shard(hash);
        if shard.epoch() == ticket.epoch && self.marks.is_still(hash, ticket.quiet) {
            shard.admit(hash, key, value, bytes);
        }
    }

    /// Begins a write of a key, before the map is changed.
    pub fn write<'a>(&'a self, hash: u64, key: &'a [u8]) -> ItemWrite<'a, V> {
        ItemWrite {
            cache: self,
            key,
            hash,
            begun: self.marks.begin(hash),
            is_settled: false,
        }
    }

    /// Drops all copies, in constant time. Lookups that are under way may still return one.
    pub fn clear(&self) {
        self.epoch.fetch_add(1, SeqCst);
    }

    /// Returns true if the lookup that follows should be timed for [`record`](Self::record).
    #[inline]
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.gate.is_timed()
    }

    /// Records the times of a lookup, also of one that went round the cache.
    pub fn record(&self, times: PairTimes) {
        self.gate.record(times);
    }

    /// Returns statistics.
    #[must_use]
    pub fn stats(&self) -> ItemCacheStats {
        let epoch = self.epoch.load(Acquire);
        let amounts = self.shards.iter().map(|shard| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            if shard.epoch() == epoch {
                shard.amounts()
            } else {
                (0, 0)
            }
        });
        let (items, bytes) = amounts.fold((0, 0), |sum, shard| (sum.0 + shard.0, sum.1 + shard.1));
        ItemCacheStats {
            items,
            bytes,
            is_on: self.gate.is_open(),
            hit_rate: self.gate.hit_rate(),
            break_even: self.gate.break_even(),
        }
    }
}

impl<V> ItemWrite<'_, V> {
    /// Ends the write after the map was changed: a copy of the key gets the new value, which is made only
    /// then, with the bytes that it takes in addition to its own.
    pub fn replace(mut self, value: impl FnOnce() -> (Arc<V>, usize)) {
        let mut shard = self.cache.shard(self.hash);
        let is_only = |begun| self.cache.marks.is_only(self.hash, begun);
        if self.begun.is_some_and(is_only) {
            shard.replace(self.hash, self.key, value)
        } else {
            shard.remove(self.hash, self.key)
        }
        drop(shard);
        self.is_settled = true;
    }
}

impl<V> Drop for ItemWrite<'_, V> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.cache.shard(self.hash).remove(self.hash, self.key);
        }
        self.cache.marks.end(self.hash);
    }
}

impl<V> fmt::Debug for ItemCache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemCache")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl<V> fmt::Debug for ItemWrite<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemWrite")
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}
