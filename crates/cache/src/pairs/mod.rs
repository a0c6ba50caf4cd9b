//! A cache of pairs of 64-bit numbers in front of an ordered index, for any number of threads.
//!
//! The cache is set-associative: a key belongs to one [`bucket`], which is one cache line. A lookup reads
//! that line and, before it, a [mark](crate::write_marks) that stays in the core's caches. It stores at most
//! a use count. A [gate](crate::gate) keeps lookups away while they do not pay.
//!
//! # Why reads are linearizable
//! The index is linearizable by itself. A write of a key (1) marks the key, (2) changes the index, (3)
//! removes the copy of the key or, if no other write of the mark began since (1), replaces it, (4) takes the
//! mark back. A lookup (a) reads the mark and goes to the index if a write is in progress, (b) reads the
//! copy. After a miss it (c) searches the index and (d) stores the result as a copy only if, with the bucket
//! locked, the mark is the same as in (a).
//!
//! *A copy differs from the index only while a write of its key is marked.* A write changes the index after
//! (1) and has the copy removed or set to its own value before (4); (3) sets it only if no other write, which
//! could have changed the index later, has begun. In (d) a mark that is unchanged means that no write began
//! before that check. One that begins later finds in (3) either the lock of the bucket, and waits, or the
//! copy: lock and check, begin and search in the bucket are sequentially consistent.
//!
//! So if the copy read in (b) differs from the index at that moment, the write that is marked then began
//! after (a), as the mark was quiet there. Its copy was the value of the index at that beginning, or at the
//! end of another write after (a): at a moment of the lookup. A lookup that begins after another one, or a
//! scan, has returned the new value of the index sees the mark of (1), which precedes that value, or the copy
//! of (3).

mod bucket;
#[cfg(test)]
mod tests;

use crate::CacheError;
use crate::draw;
use crate::gate::{LookupGate, PairTimes};
use crate::hash_index::{mix, scale};
use crate::write_marks::{QuietMark, WriteMarks};
use crate::zeroed_array::ZeroedArray;
use bucket::{PAIRS, PairBucket};
use halocline_media::prefetch_value;
use std::time::Duration;

/// A concurrent cache of key-value pairs; see the module documentation for the protocol of its users.
#[derive(Debug)]
pub struct PairCache {
    buckets: ZeroedArray<PairBucket>,
    marks: WriteMarks,
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
pub struct PairTicket(QuietMark);

/// A write in progress. Dropping it removes the copy of the key.
#[derive(Debug)]
#[must_use = "a write ends when this is dropped"]
pub struct PairWrite<'a> {
    cache: &'a PairCache,
    key: u64,
    hash: u64,
    begun: Option<QuietMark>,
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
        let fixed = size_of::<Self>() + WriteMarks::bytes();
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
            marks: WriteMarks::new(),
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
        let Some(quiet) = self.marks.quiet(hash) else {
            return PairLookup::Busy;
        };
        let found = self.bucket(hash).get(key);
        found.map_or(PairLookup::Miss(PairTicket(quiet)), PairLookup::Hit)
    }

    /// Offers a value that was read from the index after the lookup that gave the ticket. The cache decides
    /// whether to keep it.
    #[inline]
    pub fn offer(&self, hash: u64, key: u64, value: u64, ticket: PairTicket) {
        let is_current = || self.marks.is_still(hash, ticket.0);
        let chance = draw::next() as usize;
        self.bucket(hash).offer(key, value, hash, chance, is_current);
    }

    /// Begins a write of a key, before the index is changed.
    #[inline]
    pub fn write(&self, hash: u64, key: u64) -> PairWrite<'_> {
        self.prefetch(hash);
        PairWrite {
            cache: self,
            key,
            hash,
            begun: self.marks.begin(hash),
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
        (size_of::<Self>() + WriteMarks::bytes() + self.buckets.bytes()) as u64
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
        let marks = &self.cache.marks;
        self.cache.bucket(self.hash).replace(self.key, || {
            let begun = self.begun?;
            self.value.filter(|_| marks.is_only(self.hash, begun))
        });
        marks.end(self.hash);
    }
}
