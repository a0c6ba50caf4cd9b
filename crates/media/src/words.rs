//! Words of a medium that are loaded directly: [`Words`].
//!
//! They are read-only, because the memory may be mapped for reading only, where a store would end the
//! process.
//!
//! A caller that loads several words of one range asks its medium once, instead of paying for the bounds
//! check and the dispatch on every word. Fewer instructions let the core reach the next lookup while it waits
//! for memory. Media that record or charge loads do not offer such words.

use std::sync::atomic::{AtomicU64, Ordering};

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
}
