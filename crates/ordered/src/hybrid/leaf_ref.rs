//! The words of a leaf, reached through its medium one by one, or as they are where the medium has them mapped.
//!
//! A leaf's code is written once for both: what the tracked medium finds out about it holds for a file too.

use halocline_media::{LINE, Mapped, MediaError, Medium, Words};

/// Words of a line.
pub(crate) const LINE_WORDS: usize = LINE as usize / 8;

/// A leaf, where it lies.
#[derive(Debug)]
pub(crate) struct LeafRef<'a> {
    pub(crate) medium: &'a Medium,
    pub(crate) offset: u64,
}

impl Clone for LeafRef<'_> {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for LeafRef<'_> {}

/// Words that can be read; little-endian, counted from the start of the leaf.
pub(crate) trait LoadWords: Copy {
    /// With acquire order.
    fn load(self, word: usize) -> u64;
}

/// Words that can be changed.
pub(crate) trait StoreWords: LoadWords {
    /// With release order.
    fn store(self, word: usize, value: u64);

    /// Sends the line that a word is in on its way.
    fn flush(self, word: usize);

    /// Waits until what was flushed is durable.
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
