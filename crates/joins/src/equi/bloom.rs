//! A blocked Bloom filter of the spilled build rows (Putze, Sanders, Singler: Cache-, Hash- and
//! Space-Efficient Bloom Filters, WEA 2007): both bits of a key lie in one word. The upper bits of the hash,
//! those that also choose a partition, choose the word, so that the rows of a partition are inserted close to
//! each other.

use std::sync::atomic::{AtomicU64, Ordering};

use super::budget::BudgetShare;
use super::hash::{self, Level};

/// Share of the bits that may be set, above which the filter does not pay.
const MAX_SET_SHARE: f64 = 0.75;

/// A set of hashes that may err on the side of "contained".
#[derive(Debug)]
pub(super) struct Bloom {
    level: Level,
    words: Vec<AtomicU64>,
    _memory: BudgetShare,
}

impl Bloom {
    /// Creates an empty filter of the unused parts of hashes, as large as the reservation.
    pub(super) fn new(level: Level, memory: BudgetShare) -> Bloom {
        let words = (memory.bytes() / size_of::<u64>()).max(1);
        Bloom {
            level,
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            _memory: memory,
        }
    }

    #[inline(always)]
    fn place(&self, hash: u64) -> (&AtomicU64, u64) {
        let (word, _) = hash::split(self.level.rest(hash), self.words.len());
        let bits = hash::of_word(hash);
        (&self.words[word], 1 << (bits >> 58) | 1 << (bits >> 52 & 63))
    }

    #[inline]
    pub(super) fn insert(&self, hash: u64) {
        let (word, bits) = self.place(hash);
        if word.load(Ordering::Relaxed) & bits != bits {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let (word, bits) = self.place(hash);
        word.load(Ordering::Relaxed) & bits == bits
    }

    /// Returns true if enough bits are free for the filter to pay. O(size).
    pub(super) fn pays(&self) -> bool {
        let set: u64 = self
            .words
            .iter()
            .map(|word| u64::from(word.load(Ordering::Relaxed).count_ones()))
            .sum();
        (set as f64) < MAX_SET_SHARE * (self.words.len() * 64) as f64
    }
}

/// Stops asking a filter that drops few rows. Each thread has its own.
#[derive(Debug, Default)]
pub(super) struct FilterTrial {
    asked: usize,
    dropped: usize,
}

impl FilterTrial {
    /// Rows after which the filter is judged.
    const ROWS: usize = 1 << 15;

    /// Counts the answers for some rows. Returns false if it drops less than a tenth.
    pub(super) fn count(&mut self, asked: usize, dropped: usize) -> bool {
        self.asked += asked;
        self.dropped += dropped;
        self.asked < Self::ROWS || self.dropped * 10 >= self.asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::equi::budget::JoinBudget;

    #[test]
    fn filters_that_drop_little_are_given_up() {
        let mut trial = FilterTrial::default();
        assert!(trial.count(FilterTrial::ROWS - 1, 0) && !trial.count(1, 0));
        let mut trial = FilterTrial::default();
        assert!(trial.count(FilterTrial::ROWS * 2, FilterTrial::ROWS));
    }

    #[test]
    fn nothing_that_was_inserted_is_missed() {
        let budget = JoinBudget::new(1 << 20);
        let bloom = Bloom::new(Level::TOP, budget.try_take(8 << 10).unwrap());
        for key in 0..8000 {
            bloom.insert(hash::of_word(key));
        }
        assert!(bloom.pays() && (0..8000).all(|key| bloom.may_contain(hash::of_word(key))));
        let wrong = (8000..16000).filter(|key| bloom.may_contain(hash::of_word(*key)));
        assert!(wrong.count() < 1600);
        for key in 0..200_000 {
            bloom.insert(hash::of_word(key));
        }
        assert!(!bloom.pays());
    }
}
