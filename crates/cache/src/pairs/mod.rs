//! A cache of pairs of 64-bit numbers in front of an ordered index, for any number of threads.
//!
//! The cache is set-associative: a key belongs to one [`bucket`], which is one cache line. A lookup reads
//! that line, and stores at most a use bit. A [gate](crate::gate) keeps lookups away while they do not pay.
//!
//! # Why reads are linearizable
//! The index is linearizable by itself. A write of a key (1) locks the bucket, (2) changes the index, (3)
//! replaces or removes the copy of the key and unlocks the bucket with another version. A lookup (a) goes to
//! the index if the bucket is locked, else reads the copy, which counts if the bucket has not changed
//! meanwhile. After a miss it (b) searches the index and (c) stores the result as a copy only if it can lock
//! the bucket in the version of (a).
//!
//! *A copy differs from the index only while its bucket is locked.* Only a write changes the index, within
//! the lock, and at its end the copy is removed or has the new value. In (c) the version is that of (a), so
//! no write of the bucket was in progress at any time between, and the index has not changed.
//!
//! A hit returns a copy at a moment when the bucket was not locked, so the value was that of the index. A
//! lookup that begins after another one, or a scan, has returned the new value of the index finds the bucket
//! still locked, or the copy of (3).
//!
//! A writer keeps no lock of another bucket, so writers do not wait in a circle. They wait while another one
//! writes a key of the same bucket, lookups never do.

mod bucket;
#[cfg(test)]
mod tests;

use crate::CacheError;
use crate::draw;
use crate::gate::{LookupGate, PairTimes};
use crate::hash_index::{mix, scale};
use crate::zeroed_array::ZeroedArray;
use bucket::{BucketVersion, Found, LockedBucket, PAIRS, PairBucket};
use halocline_media::prefetch_value;
use std::time::Duration;

/// A concurrent cache of key-value pairs; see the module documentation for the protocol of its users.
#[derive(Debug)]
pub struct PairCache {
    buckets: ZeroedArray<PairBucket>,
    gate: LookupGate,
}

/// The result of [`PairCache::get`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairLookup {
    /// The value of the key.
    Hit(u64),
    /// The key is not cached. A value that is then read from the index may be offered to the cache.
    Miss(PairTicket),
    /// A write is in progress; the value must be read from the index.
    Busy,
}

/// Permission to [offer](PairCache::offer) a value that is read after the lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairTicket(BucketVersion);

/// A write in progress. Dropping it removes the copy of the key.
#[derive(Debug)]
#[must_use = "a write ends when this is dropped"]
pub struct PairWrite<'a> {
    bucket: LockedBucket<'a>,
    key: u64,
    value: Option<u64>,
}

/// Statistics of a [`PairCache`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct PairStats {
    /// Cached pairs.
    pub pairs: u64,
    /// Most pairs that can be cached.
    pub capacity: u64,
    /// DRAM in bytes.
    pub bytes: u64,
    /// True if all lookups use the cache; else only a sample does.
    pub is_on: bool,
    /// Recent share of lookups that hit, if measured.
    pub hit_rate: Option<f64>,
    /// Share from which on lookups are expected to pay.
    pub break_even: f64,
}

impl PairCache {
    /// Creates an empty cache that takes at most `budget_bytes` of DRAM.
    ///
    /// # Errors
    /// [`CacheError::BudgetTooSmall`] if not even one bucket fits, [`CacheError::OutOfMemory`] if the
    /// allocation fails.
    pub fn new(budget_bytes: usize) -> Result<Self, CacheError> {
        let fixed = size_of::<Self>();
        let mut buckets = budget_bytes.saturating_sub(fixed) / size_of::<PairBucket>();
        while fixed + ZeroedArray::<PairBucket>::bytes_for(buckets) > budget_bytes && buckets > 0 {
            buckets -= 1;
        }
        if buckets == 0 {
            return Err(CacheError::BudgetTooSmall {
                bytes: budget_bytes as u64,
                least: (fixed + size_of::<PairBucket>()) as u64,
            });
        }
        Ok(Self {
            buckets: ZeroedArray::zeroed(buckets)?,
            gate: LookupGate::new((buckets * PAIRS) as u64),
        })
    }

    /// Lets all lookups use the cache at all times, whether they pay or not.
    #[must_use]
    pub fn always_on(mut self) -> Self {
        self.gate.keep_open();
        self
    }

    /// Returns the hash of a key, which all methods take.
    #[inline]
    #[must_use]
    pub fn hash(key: u64) -> u64 {
        mix(key)
    }

    #[inline]
    fn bucket(&self, hash: u64) -> &PairBucket {
        &self.buckets[scale(hash, self.buckets.len())]
    }

    /// Returns true if the key should be looked up here. It need not be if that does not pay.
    #[inline]
    #[must_use]
    pub fn admits(&self, hash: u64) -> bool {
        self.gate.admits(hash)
    }

    /// Prefetches the line that a lookup or a write of the key reads.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch_value(self.bucket(hash));
    }

    /// Looks a key up.
    #[inline]
    #[must_use]
    pub fn get(&self, hash: u64, key: u64) -> PairLookup {
        let found = self.get_timed(hash, key);
        match found {
            PairLookup::Hit(_) => self.gate.count(true),
            PairLookup::Miss(_) => self.gate.count(false),
            PairLookup::Busy => {}
        }
        found
    }

    /// Looks a key up, and leaves it to [`record`](Self::record) to count this.
    #[inline]
    #[must_use]
    pub fn get_timed(&self, hash: u64, key: u64) -> PairLookup {
        match self.bucket(hash).get(key) {
            Found::Value(value) => PairLookup::Hit(value),
            Found::Absent(version) => PairLookup::Miss(PairTicket(version)),
            Found::Busy => PairLookup::Busy,
        }
    }

    /// Offers a value that was read from the index after the lookup that gave the ticket. The cache decides
    /// whether to keep it.
    #[inline]
    pub fn offer(&self, hash: u64, key: u64, value: u64, ticket: PairTicket) {
        let chance = draw::next() as usize;
        self.bucket(hash).offer(key, value, hash, chance, ticket.0);
    }

    /// Begins a write of a key, before the index is changed. Waits while another thread writes a key of the
    /// same bucket, so a thread must end one write before it begins another.
    #[inline]
    pub fn write(&self, hash: u64, key: u64) -> PairWrite<'_> {
        PairWrite {
            bucket: self.bucket(hash).lock(),
            key,
            value: None,
        }
    }

    /// Returns true if the lookup, or the batch of lookups, that follows should be timed for
    /// [`record`](Self::record) or [`record_batch`](Self::record_batch).
    #[inline]
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.gate.is_timed()
    }

    /// Records the times of a lookup, also of one that went round the cache.
    pub fn record(&self, times: PairTimes) {
        self.gate.record(times);
    }

    /// Records the time of a batch of lookups, whether they used the cache or not, and how many of them hit.
    pub fn record_batch(&self, time: Duration, lookups: usize, hits: usize) {
        self.gate.record_batch(time, lookups as u64, hits as u64);
    }

    /// Returns statistics. `O(capacity)`.
    #[must_use]
    pub fn stats(&self) -> PairStats {
        PairStats {
            pairs: self.buckets.iter().map(|bucket| bucket.len() as u64).sum(),
            capacity: (self.buckets.len() * PAIRS) as u64,
            bytes: self.bytes(),
            is_on: self.gate.is_open(),
            hit_rate: self.gate.hit_rate(),
            break_even: self.gate.break_even(),
        }
    }

    /// Returns the DRAM of the cache in bytes, all of which is allocated at creation.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.buckets.bytes()) as u64
    }
}

impl PairWrite<'_> {
    /// Ends the write after the index was changed: a copy of the key gets the new value.
    #[inline]
    pub fn replace(mut self, value: u64) {
        self.value = Some(value);
    }
}

impl Drop for PairWrite<'_> {
    #[inline]
    fn drop(&mut self) {
        self.bucket.replace(self.key, self.value);
    }
}
