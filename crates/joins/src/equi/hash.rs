//! Hashes of keys, and how their bits are used.
//!
//! A hash `h` is read as a fraction of 2^64. Of `n` partitions it belongs to number `h n / 2^64`; the rest of
//! that division, `h n mod 2^64`, is the fraction for what is divided next: the partitions of a partition, or
//! the buckets of its hash table. So each level uses other bits, and `n` need not be a power of two.

use xxhash_rust::xxh3::xxh3_64;

/// Most bits of a hash that partitions use; the others are left to the buckets of hash tables.
const MAX_BITS: u32 = 30;

/// Returns the hash of a number; all of its bits depend on all bits of the number.
#[inline(always)]
pub(super) fn of_word(word: u64) -> u64 {
    let mixed = (word ^ word >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    mixed ^ mixed >> 32
}

/// Returns the hash of some numbers.
#[inline(always)]
pub(super) fn of_words(words: &[u64]) -> u64 {
    match words {
        [word] => of_word(*word),
        words => words.iter().fold(0, |hash: u64, word| {
            of_word(hash.rotate_left(29).wrapping_add(*word))
        }),
    }
}

/// Returns the hash of bytes.
#[inline]
pub(super) fn of_bytes(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// Returns the number of the part of `parts` that a fraction belongs to, and the rest.
#[inline(always)]
pub(super) fn split(fraction: u64, parts: usize) -> (usize, u64) {
    let product = u128::from(fraction) * parts as u128;
    ((product >> 64) as usize, product as u64)
}

/// The part of each hash that the partitions around this one have used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    multiplier: u64,
    bits: u32,
}

impl Level {
    /// The level at which nothing is partitioned.
    pub(super) const TOP: Level = Level {
        multiplier: 1,
        bits: 0,
    };

    /// Returns the unused part of a hash.
    #[inline(always)]
    pub(super) fn rest(self, hash: u64) -> u64 {
        hash.wrapping_mul(self.multiplier)
    }

    /// Returns the number of a hash's partition of `parts` at this level.
    #[inline(always)]
    pub(super) fn part(self, hash: u64, parts: usize) -> usize {
        split(self.rest(hash), parts).0
    }

    /// Returns the level of the contents of one of `parts` partitions; `None` if too few bits would remain.
    pub(super) fn below(self, parts: usize) -> Option<Level> {
        let bits = self.bits + usize::BITS - parts.saturating_sub(1).leading_zeros();
        (bits <= MAX_BITS).then_some(Level {
            multiplier: self.multiplier.wrapping_mul(parts as u64),
            bits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_agree_with_repeated_division() {
        let inner = Level::TOP.below(7).unwrap();
        let third = inner.below(64).unwrap();
        for word in 0..10_000 {
            let hash = of_word(word);
            let (part, rest) = split(hash, 7);
            assert_eq!((Level::TOP.part(hash, 7), inner.rest(hash)), (part, rest));
            let (part, rest) = split(rest, 64);
            assert_eq!((inner.part(hash, 64), third.rest(hash)), (part, rest));
        }
    }

    #[test]
    fn partitions_of_partitions_are_even() {
        let inner = Level::TOP.below(16).unwrap();
        let mut counts = [0_usize; 16 * 16];
        for word in 0..256_000 {
            let hash = of_words(&[word, 5]);
            counts[Level::TOP.part(hash, 16) * 16 + inner.part(hash, 16)] += 1;
        }
        assert!(
            counts.iter().all(|count| (800..1200).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn levels_end() {
        let mut level = Level::TOP;
        let mut levels = 0;
        while let Some(below) = level.below(1024) {
            (level, levels) = (below, levels + 1);
        }
        assert_eq!(levels, 3);
    }
}
