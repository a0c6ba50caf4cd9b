//! References to leaves, and access to their words through the medium or directly where it is mapped.
//!
//! The code of a leaf format is written once for both kinds of access, so tests on the tracked medium
//! also cover files.

use halocline_media::{LINE, Mapped, MediaError, Medium, Words};

/// Number of words in a line.
pub(crate) const LINE_WORDS: usize = LINE as usize / 8;

/// A reference to a leaf on the medium.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeafRef<'a> {
    pub(crate) medium: &'a Medium,
    pub(crate) offset: u64,
}

/// Read access to little-endian words, counted from the start of the leaf.
pub(crate) trait LoadWords: Copy {
    /// Loads a word with acquire ordering.
    fn load(self, word: usize) -> u64;
}

/// Write access to words.
pub(crate) trait StoreWords: LoadWords {
    /// Stores a word with release ordering.
    fn store(self, word: usize, value: u64);

    /// Starts writing back the line that contains a word.
    fn flush(self, word: usize);

    /// Waits until all flushed lines are durable.
    fn fence(self) -> Result<(), MediaError>;
}

impl LoadWords for Words<'_> {
    #[inline(always)]
    fn load(self, word: usize) -> u64 {
        Words::load(self, word)
    }
}

impl LoadWords for Mapped<'_> {
    #[inline(always)]
    fn load(self, word: usize) -> u64 {
        Mapped::load(self, word)
    }
}

impl StoreWords for Mapped<'_> {
    #[inline(always)]
    fn store(self, word: usize, value: u64) {
        Mapped::store(self, word, value);
    }

    #[inline(always)]
    fn flush(self, word: usize) {
        Mapped::flush(self, word);
    }

    #[inline(always)]
    fn fence(self) -> Result<(), MediaError> {
        Mapped::fence(self)
    }
}

impl LoadWords for LeafRef<'_> {
    #[inline(always)]
    fn load(self, word: usize) -> u64 {
        self.medium.load_u64(self.offset + word as u64 * 8)
    }
}

impl StoreWords for LeafRef<'_> {
    #[inline(always)]
    fn store(self, word: usize, value: u64) {
        self.medium.store_u64(self.offset + word as u64 * 8, value);
    }

    #[inline(always)]
    fn flush(self, word: usize) {
        let line = (word / LINE_WORDS * LINE_WORDS) as u64;
        self.medium.flush(self.offset + line * 8, LINE);
    }

    #[inline(always)]
    fn fence(self) -> Result<(), MediaError> {
        self.medium.fence()
    }
}
