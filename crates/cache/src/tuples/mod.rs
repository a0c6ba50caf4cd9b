//! A cache that maps tuples, as keys of a few words, to their TIDs. It is for MonoLists: finding a
//! cached copy of one would take as long a probe as the one that answers the query here.
//!
//! The cache is set-associative: a key belongs to one [`bucket`], which is one cache line, so a lookup
//! touches one line. Readers take no locks. A hit writes at most a use counter, and only now and then; a miss
//! writes nothing. Within a bucket the least used entry is replaced, and only for a key that the
//! [doorkeeper](doorkeeper) has seen before. A [`gate`] suspends the cache where it hits too rarely to pay.

mod bucket;
mod doorkeeper;
mod gate;
mod packing;
#[cfg(test)]
mod tests;

use crate::CacheError;
use crate::draw;
use crate::hash_index::scale;
use crate::zeroed_array::ZeroedArray;
use bucket::{Bucket, entries};
use doorkeeper::Doorkeeper;
use gate::AdmissionGate;
use halocline_media::prefetch_value;
pub use packing::{Key, Packing};

/// A cache of tuples; see the module documentation. All 64 bits of a hash must be well mixed, and equal
/// keys must have equal hashes.
#[derive(Debug)]
pub struct TupleCache {
    words: usize,
    buckets: ZeroedArray<Bucket>,
    doorkeeper: Doorkeeper,
    gate: AdmissionGate,
}

impl TupleCache {
    /// Creates an empty cache for keys of `words` words (1, 2 or 3) that takes at most `budget_bytes` of
    /// DRAM.
    ///
    /// # Errors
    /// [`CacheError::TupleWords`] for other numbers of words, [`CacheError::BudgetTooSmall`] if not even
    /// one bucket fits, [`CacheError::OutOfMemory`] if the allocation fails.
    pub fn new(budget_bytes: usize, words: usize) -> Result<Self, CacheError> {
        let buckets = Self::buckets_for(budget_bytes, words)?;
        let entries = buckets * entries(words);
        Ok(Self {
            words,
            buckets: ZeroedArray::zeroed(buckets)?,
            doorkeeper: Doorkeeper::new(entries)?,
            gate: AdmissionGate::new(entries),
        })
    }

    /// Returns the number of buckets of a cache with this budget, without allocating it.
    ///
    /// # Errors
    /// As [`new`](Self::new), but for memory.
    fn buckets_for(budget_bytes: usize, words: usize) -> Result<usize, CacheError> {
        let entries = match words {
            1..=3 => entries(words),
            _ => return Err(CacheError::TupleWords { words }),
        };
        let bytes_for =
            |buckets| ZeroedArray::<Bucket>::bytes_for(buckets) + Doorkeeper::bytes_for(buckets * entries);
        let least = size_of::<Self>() + bytes_for(1);
        let room = budget_bytes.saturating_sub(size_of::<Self>());
        // First a guess without the doorkeeper, then reduced until it fits.
        let mut buckets = room / size_of::<Bucket>();
        while bytes_for(buckets) > room {
            let over = bytes_for(buckets) - room;
            buckets -= over.div_ceil(2 * size_of::<Bucket>()).min(buckets);
        }
        if buckets == 0 {
            return Err(CacheError::BudgetTooSmall {
                bytes: budget_bytes as u64,
                least: least as u64,
            });
        }
        Ok(buckets)
    }

    /// Sets the hit rate above which lookups pay, which [`Self::worth`] uses. The default is 0: lookups
    /// always pay.
    #[must_use]
    pub fn with_break_even(mut self, rate: f64) -> Self {
        self.gate.set_break_even(rate);
        self
    }

    /// Returns true if a lookup should be done. This is always so while the cache pays or is filling;
    /// otherwise it is for one query in 64, which detects when it would pay again.
    #[inline]
    pub fn worth(&self) -> bool {
        self.gate.open() || self.gate.try_anyway()
    }

    /// Returns true if the cache has had time to fill, so that [`hit_rate`](Self::hit_rate) is stable while
    /// the workload is.
    #[inline]
    #[must_use]
    pub fn is_filled(&self) -> bool {
        self.gate.has_judged()
    }

    /// Returns true if the estimated hit rate is high enough for lookups to pay.
    #[inline]
    #[must_use]
    pub fn pays(&self) -> bool {
        self.gate.open()
    }

    /// Prefetches the line that a lookup reads.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch_value(self.bucket(hash));
    }

    /// Returns the TID of `key` if it is cached.
    ///
    /// # Panics
    /// Panics if `key` does not have the cache's number of words.
    #[inline]
    pub fn get(&self, hash: u64, key: &[u64]) -> Option<u32> {
        let bucket = self.bucket(hash);
        let found = match (self.words, key) {
            (1, &[a]) => bucket.get(&[a]),
            (2, &[a, b]) => bucket.get(&[a, b]),
            (3, &[a, b, c]) => bucket.get(&[a, b, c]),
            _ => wrong_words(self.words, key),
        };
        self.gate.note(found.is_some());
        if found.is_none() {
            // The caller will offer its result next.
            self.doorkeeper.prefetch(hash);
        }
        found
    }

    /// Offers the result of a lookup that missed. The cache decides whether to admit it. The result is
    /// dropped if another thread is writing to the bucket.
    ///
    /// # Panics
    /// Panics if `key` does not have the cache's number of words.
    pub fn put(&self, hash: u64, key: &[u64], tid: u32) {
        match (self.words, key) {
            (1, &[a]) => self.put_words(hash, &[a], tid),
            (2, &[a, b]) => self.put_words(hash, &[a, b], tid),
            (3, &[a, b, c]) => self.put_words(hash, &[a, b, c], tid),
            _ => wrong_words(self.words, key),
        }
    }

    fn put_words<const W: usize>(&self, hash: u64, key: &[u64; W], tid: u32) {
        let bucket = self.bucket(hash);
        if bucket.full::<W>() && !self.doorkeeper.again(hash) {
            return;
        }
        bucket.put(key, tid, draw::next() as usize);
    }

    #[inline]
    fn bucket(&self, hash: u64) -> &Bucket {
        &self.buckets[scale(hash, self.buckets.len())]
    }

    /// Returns the DRAM of the cache in bytes, all of which is allocated at creation.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.buckets.bytes() + self.doorkeeper.bytes()
    }

    /// Returns the capacity in tuples.
    #[must_use]
    pub fn room(&self) -> usize {
        self.buckets.len() * entries(self.words)
    }

    /// Returns the recent hit rate, estimated from samples, or `None` if there are too few.
    #[must_use]
    pub fn hit_rate(&self) -> Option<f64> {
        self.gate.rate()
    }
}

#[cold]
fn wrong_words(words: usize, key: &[u64]) -> ! {
    panic!("a key of {} words in a cache of keys of {words}", key.len())
}
