//! A cache of tuples: keys of a few words, and the TID of each. For MonoLists, whose cached copy would be found by a probe
//! just as long as the one that answers the query here.
//!
//! Set-associative: a key belongs to one [`bucket`], which is one line, so a lookup touches one line. Readers take no
//! lock; a lookup that hits writes nothing but, now and then, a counter, and one that misses writes nothing here.
//! Within a bucket the least used entry is replaced, and only for a key that was [seen](doorkeeper) before. A [`gate`]
//! closes the cache where it hits too rarely to pay.

mod bucket;
mod doorkeeper;
mod gate;
mod memory;
mod packing;
#[cfg(test)]
mod tests;

use crate::CacheError;
use crate::draw;
use crate::hash_index::scale;
use bucket::{Bucket, entries};
use doorkeeper::Doorkeeper;
use gate::AdmissionGate;
use halocline_media::prefetch_value;
use memory::ZeroedArray;
pub use packing::{Key, Packing};

/// See the module. A hash must have all its 64 bits well mixed, and be the same for equal keys.
#[derive(Debug)]
pub struct TupleCache {
    words: usize,
    buckets: ZeroedArray<Bucket>,
    doorkeeper: Doorkeeper,
    gate: AdmissionGate,
}

impl TupleCache {
    /// An empty cache of keys of `words` words (1, 2 or 3), which takes at most `budget_bytes` of DRAM.
    ///
    /// # Errors
    /// [`CacheError::TupleWords`] for other numbers of words, [`CacheError::BudgetTooSmall`] if there is no room for
    /// one bucket, [`CacheError::OutOfMemory`] if the system has not so much.
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

    /// How many buckets a cache of that budget has; allocates nothing.
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
        // A first guess without the sightings, then down to what fits.
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

    /// Whether it has had the time to fill, so that [`hit_rate`](Self::hit_rate) will stay as it is while queries do.
    #[inline]
    #[must_use]
    pub fn is_filled(&self) -> bool {
        self.gate.has_judged()
    }

    /// Whether what is looked up hits often enough for it to pay, as far as one can tell.
    #[inline]
    #[must_use]
    pub fn pays(&self) -> bool {
        self.gate.open()
    }

    /// Asks the CPU to fetch the line in which a lookup will look.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch_value(self.bucket(hash));
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
        if found.is_none() {
            // What is found out elsewhere is offered next.
            self.doorkeeper.prefetch(hash);
        }
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
        if bucket.full::<W>() && !self.doorkeeper.again(hash) {
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
        size_of::<Self>() + self.buckets.bytes() + self.doorkeeper.bytes()
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
