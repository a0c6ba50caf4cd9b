//! A cache of tuples: keys of a few words, and the TID of each. For MonoLists, whose cached copy would be found by a probe
//! just as long as the one that answers the query here.
//!
//! Set-associative: a key belongs to one [`bucket`], which is one line, so a lookup touches one line. Readers take no
//! lock; a lookup that hits writes nothing but, now and then, a counter, and one that misses writes nothing here.
//! Within a bucket the least used entry is replaced, and only for a key that was [seen](sightings) before. A [`gate`]
//! closes the cache where it hits too rarely to pay.

mod bucket;
mod gate;
mod packing;
mod sightings;
#[cfg(test)]
mod tests;

use crate::CacheError;
use crate::draw;
use crate::index::scale;
use bucket::{Bucket, entries};
use gate::Gate;
pub use packing::{Key, Packing};
use sightings::Sightings;

/// See the module. A hash must have all its 64 bits well mixed, and be the same for equal keys.
#[derive(Debug)]
pub struct TupleCache {
    words: usize,
    buckets: Box<[Bucket]>,
    sightings: Sightings,
    gate: Gate,
}

impl TupleCache {
    /// An empty cache of keys of `words` words (1, 2 or 3), which takes at most `budget_bytes` of DRAM.
    ///
    /// # Errors
    /// [`CacheError::TupleWords`] for other numbers of words, [`CacheError::BudgetTooSmall`] if there is no room for
    /// one bucket.
    pub fn new(budget_bytes: usize, words: usize) -> Result<Self, CacheError> {
        let entries = match words {
            1..=3 => entries(words),
            _ => return Err(CacheError::TupleWords { words }),
        };
        let least = size_of::<Self>() + size_of::<Bucket>() + Sightings::bytes_for(entries);
        let room = budget_bytes.saturating_sub(size_of::<Self>());
        // A first guess by shares, then down to what fits with its rounding.
        let mut buckets = room / size_of::<Bucket>();
        while buckets * size_of::<Bucket>() + Sightings::bytes_for(buckets * entries) > room {
            let over = buckets * size_of::<Bucket>() + Sightings::bytes_for(buckets * entries) - room;
            buckets -= over.div_ceil(2 * size_of::<Bucket>()).min(buckets);
        }
        if buckets == 0 {
            return Err(CacheError::BudgetTooSmall {
                bytes: budget_bytes as u64,
                least: least as u64,
            });
        }
        Ok(Self {
            words,
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            sightings: Sightings::new(buckets * entries),
            gate: Gate::new(buckets * entries),
        })
    }

    /// Sets the share of lookups that must hit for the cache to pay, of which [`Self::worth`] is the judge; 0, as at
    /// first, is always paid.
    #[must_use]
    pub fn with_break_even(mut self, rate: f64) -> Self {
        self.gate.set_break_even(rate);
        self
    }

    /// Whether to look something up at all. While the cache pays, or has not had the time to fill, always; else for
    /// one query in 64, by which it finds out that it would pay again.
    #[inline]
    pub fn worth(&self) -> bool {
        self.gate.open() || self.gate.try_anyway()
    }

    /// The TID of `key`, if it is here.
    ///
    /// # Panics
    /// If `key` has not the number of words the cache is for.
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
        found
    }

    /// Offers what a lookup that missed has found out. Whether it gets in is the cache's to decide; a bucket that
    /// another thread writes to is passed over.
    ///
    /// # Panics
    /// If `key` has not the number of words the cache is for.
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
        if bucket.full::<W>() && !self.sightings.again(hash) {
            return;
        }
        bucket.put(key, tid, draw::next() as usize);
    }

    #[inline]
    fn bucket(&self, hash: u64) -> &Bucket {
        &self.buckets[scale(hash, self.buckets.len())]
    }

    /// The DRAM it takes, all of which is allocated from the start.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.buckets) + self.sightings.bytes()
    }

    /// Its buckets: a hash belongs to the one at `hash / 2^64` of all.
    #[must_use]
    pub(crate) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// How many tuples there is room for.
    #[must_use]
    pub fn room(&self) -> usize {
        self.buckets.len() * entries(self.words)
    }

    /// The share of lookups that hit lately, by samples; `None` before there were enough.
    #[must_use]
    pub fn hit_rate(&self) -> Option<f64> {
        self.gate.rate()
    }
}

#[cold]
fn wrong_words(words: usize, key: &[u64]) -> ! {
    panic!("a key of {} words in a cache of keys of {words}", key.len())
}
