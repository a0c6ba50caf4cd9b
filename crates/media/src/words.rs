//! Words of a medium that are loaded directly: [`Words`].
//!
//! They are read-only, because the memory may be mapped for reading only, where a store would end the
//! process.
//!
//! A caller that loads several words of one range asks its medium once, instead of paying for the bounds
//! check and the dispatch on every word. Fewer instructions let the core reach the next lookup while it waits
//! for memory. Media that record or charge loads do not offer such words.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::flush;

/// The little-endian words of a range, as returned by [`Medium::words`](crate::Medium::words), indexed from
/// its start.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a>(&'a [AtomicU64]);

impl<'a> Words<'a> {
    #[inline(always)]
    pub(crate) fn new(words: &'a [AtomicU64]) -> Words<'a> {
        Words(words)
    }

    /// Loads a word with acquire order.
    ///
    /// # Panics
    /// If `word` is out of range.
    #[inline(always)]
    pub fn load(self, word: usize) -> u64 {
        u64::from_le(self.0[word].load(Ordering::Acquire))
    }

    /// Prefetches the line of a word, which may be out of range.
    #[inline(always)]
    pub fn prefetch(self, word: usize) {
        flush::prefetch(self.0.as_ptr().wrapping_add(word).cast());
    }

    /// Returns the wrapping sum of all words, loaded with relaxed order. Four sums are independent, so that
    /// the loads do not wait for the additions.
    pub fn sum(self) -> u64 {
        let (groups, rest) = self.0.as_chunks::<4>();
        let mut sums = [0_u64; 4];
        for group in groups {
            for (sum, word) in sums.iter_mut().zip(group) {
                *sum = sum.wrapping_add(u64::from_le(word.load(Ordering::Relaxed)));
            }
        }
        let rest = rest.iter().map(|word| u64::from_le(word.load(Ordering::Relaxed)));
        sums.into_iter().chain(rest).fold(0, u64::wrapping_add)
    }

    /// Returns the wrapping sum of the 4-byte halves of all words, loaded with relaxed order.
    pub fn sum_halves(self) -> u32 {
        let halves = |word: &AtomicU64| {
            let word = u64::from_le(word.load(Ordering::Relaxed));
            (word as u32).wrapping_add((word >> 32) as u32)
        };
        self.0
            .iter()
            .fold(0, |sum: u32, word| sum.wrapping_add(halves(word)))
    }

    /// Returns the wrapping sum of the lower halves of every `step`-th word, loaded with relaxed order.
    ///
    /// # Panics
    /// If `step` is 0.
    pub fn sum_low_halves(self, step: usize) -> u32 {
        let low = |word: &AtomicU64| u64::from_le(word.load(Ordering::Relaxed)) as u32;
        let words = self.0.iter().step_by(step);
        words.fold(0, |sum: u32, word| sum.wrapping_add(low(word)))
    }
}
