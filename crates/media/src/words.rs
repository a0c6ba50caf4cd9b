//! Words of a medium that are loaded as they are: [`Words`].
//!
//! They cannot be stored to: the memory behind them may be mapped for reading only, where a store would end the process.
//!
//! A caller that loads several words of one place asks its medium once, instead of paying for the bounds
//! check and the dispatch on its kind with each word. Fewer instructions let the core reach the next lookup
//! while it waits for memory. Media that record or charge loads return none.

use std::sync::atomic::{AtomicU64, Ordering};

/// The words of a range, little-endian, counted from where the range starts: what [`Medium::words`](crate::Medium::words) gives.
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
    /// Behind the last word.
    #[inline(always)]
    pub fn load(self, word: usize) -> u64 {
        u64::from_le(self.0[word].load(Ordering::Acquire))
    }
}
