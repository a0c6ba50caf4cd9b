//! Encoding of tuples as keys of a [`TupleCache`](crate::TupleCache) in the fewest words that identify them.
//!
//! A short tuple is a number of up to 127 bits. If the bucket determines the other bits, one word is
//! enough as its key: the lowest `slot_bits` bits of the number, offset by a hash of the others, select
//! the bucket, and the key holds the other bits. As a bucket may overlap two adjacent slots, the key
//! also holds the lowest bit of its slot. Longer tuples are stored as whole words.

use crate::TupleCache;
use crate::hash_index::mix;

/// Position of a dimension's code in the key.
#[derive(Debug, Clone, Copy, Default)]
struct FieldPosition {
    word: u8,
    shift: u8,
    max: u64,
}

/// An encoding of tuples as keys.
#[derive(Debug)]
pub struct Packing {
    positions: Vec<FieldPosition>,
    words: usize,
    /// Number of bits that the bucket determines; 0 if keys are whole tuples.
    slot_bits: u32,
}

/// The key of a tuple in a [`TupleCache`](crate::TupleCache).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Hash with well-mixed bits.
    pub hash: u64,
    words: [u64; 3],
    len: usize,
}

impl Key {
    /// Returns the words of the key.
    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.words[..self.len]
    }
}

impl Packing {
    /// Creates a cache of about `budget_bytes` for tuples whose dimensions have these maximum codes, and the
    /// encoding of its keys. Returns `None` if a key takes more than three words or not even one bucket
    /// fits.
    #[must_use]
    pub fn with_cache(budget_bytes: usize, max_codes: &[u64]) -> Option<(Self, TupleCache)> {
        let packing = Self::new(budget_bytes, max_codes)?;
        let cache = TupleCache::new(budget_bytes, packing.words).ok()?;
        Some((packing, cache))
    }

    /// Creates the encoding of [`with_cache`](Self::with_cache) without allocating the cache.
    #[must_use]
    pub fn new(budget_bytes: usize, max_codes: &[u64]) -> Option<Self> {
        let widths = max_codes.iter().map(|max| 64 - max.leading_zeros());
        let bits: u32 = widths.clone().sum();
        let slot_bits = TupleCache::buckets_for(budget_bytes, 1).ok()?.ilog2();
        if bits <= 63 + slot_bits && bits < 128 {
            let mut shift = 0;
            let positions = widths.zip(max_codes).map(|(width, &max)| {
                let position = FieldPosition { word: 0, shift, max };
                shift += width as u8;
                position
            });
            return Some(Self {
                positions: positions.collect(),
                words: 1,
                slot_bits,
            });
        }
        let (mut word, mut shift) = (0_u8, 0);
        let mut positions = vec![];
        for (width, &max) in widths.zip(max_codes) {
            if shift + width > 64 {
                (word, shift) = (word + 1, 0);
            }
            positions.push(FieldPosition {
                word,
                shift: shift.min(63) as u8,
                max,
            });
            shift += width;
        }
        let words = usize::from(word) + 1;
        TupleCache::buckets_for(budget_bytes, words).ok()?;
        Some(Self {
            positions,
            words,
            slot_bits: 0,
        })
    }

    /// Returns the number of words of a key: 1, 2 or 3.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words
    }

    /// Returns the key of a tuple, or `None` if a code exceeds its maximum, so that no such tuple exists.
    #[inline]
    #[must_use]
    pub fn key(&self, tuple: &[u64]) -> Option<Key> {
        if self.slot_bits == 0 {
            return self.long_key(tuple);
        }
        let (mut number, mut beyond) = (0_u128, false);
        for (&code, position) in tuple.iter().zip(&self.positions) {
            number |= u128::from(code) << position.shift;
            beyond |= code > position.max;
        }
        if beyond {
            return None;
        }
        let (upper, lower) = ((number >> self.slot_bits) as u64, number as u64);
        let spread = mix(upper);
        let slot = lower.wrapping_add(spread) & ((1 << self.slot_bits) - 1);
        Some(Key {
            // The slot is in the highest bits, which determine the bucket.
            hash: slot << (64 - self.slot_bits) | spread >> self.slot_bits,
            words: [upper << 1 | slot & 1, 0, 0],
            len: 1,
        })
    }

    #[inline(never)]
    fn long_key(&self, tuple: &[u64]) -> Option<Key> {
        let mut words = [0; 3];
        for (&code, position) in tuple.iter().zip(&self.positions) {
            if code > position.max {
                return None;
            }
            words[usize::from(position.word)] |= code << position.shift;
        }
        let hash = words.iter().fold(0, |hash, &word| mix(hash ^ word));
        Some(Key {
            hash,
            words,
            len: self.words,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_index::scale;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::collections::HashMap;

    #[test]
    fn bucket_and_key_tell_a_tuple() {
        for seed in 0..20 {
            let mut rng = StdRng::seed_from_u64(seed);
            let dims = rng.random_range(1..12);
            let max: Vec<u64> = (0..dims).map(|_| u64::MAX >> rng.random_range(40..64)).collect();
            let budget = 1 << rng.random_range(10..18);
            let Some((packing, cache)) = Packing::with_cache(budget, &max) else {
                continue;
            };
            assert!(cache.bytes() <= budget);
            let buckets = TupleCache::buckets_for(budget, packing.words).unwrap();
            let mut seen: HashMap<(usize, Vec<u64>), Vec<u64>> = HashMap::new();
            // Includes neighbours, which differ in the bits that the bucket determines.
            for _ in 0..20_000 {
                let tuple: Vec<u64> = max
                    .iter()
                    .map(|&max| {
                        let most = rng.random_range(1..9);
                        rng.random_range(0..=max.min(most))
                    })
                    .collect();
                let key = packing.key(&tuple).unwrap();
                let bucket = scale(key.hash, buckets);
                let first = seen
                    .entry((bucket, key.words().to_vec()))
                    .or_insert_with(|| tuple.clone());
                assert_eq!(*first, tuple, "seed {seed}");
            }
        }
    }

    #[test]
    fn what_is_put_is_found_and_nothing_else() {
        let (packing, cache) = Packing::with_cache(1 << 16, &[99; 10]).unwrap();
        assert_eq!((packing.words, packing.slot_bits > 0), (1, true));
        let mut rng = StdRng::seed_from_u64(4);
        let mut hits = 0;
        for _ in 0..50_000 {
            let mut tuple = [0; 10];
            tuple
                .iter_mut()
                .for_each(|code| *code = rng.random_range(0..2) * 9);
            tuple[9] = rng.random_range(0..4);
            let tid = tuple.iter().fold(0, |tid, &code| tid * 5 + code as u32);
            let key = packing.key(&tuple).unwrap();
            match cache.get(key.hash, key.words()) {
                Some(found) => {
                    assert_eq!(found, tid);
                    hits += 1;
                }
                None => cache.put(key.hash, key.words(), tid),
            }
        }
        assert!(hits > 10_000, "{hits}");
        assert_eq!(packing.key(&[100, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert!(Packing::with_cache(1 << 16, &[u64::MAX; 3]).is_some());
        assert!(Packing::with_cache(1 << 16, &[u64::MAX; 4]).is_none());
    }
}
