//! A range of a file that is accessed directly, word by word: [`Mapped`].
//!
//! Code that changes several words of a range asks its medium once for the address and the permission to
//! write, instead of once per word.
//!
//! Files in strict mode and files opened for reading only do not offer such ranges.
#![allow(unsafe_code, reason = "flushes lines it has borrowed")]

use std::sync::atomic::{AtomicU64, Ordering};

use crate::flush::{self, FlushInstruction};
use crate::{FileMedium, LINE, MediaError};

/// Words per line.
const WORDS: usize = LINE as usize / 8;

/// Little-endian words of a writable file, indexed from the start of the range, which is aligned to a line.
/// The methods behave like those of [`Medium`](crate::Medium) with the same names.
#[derive(Debug, Clone, Copy)]
pub struct Mapped<'a> {
    words: &'a [AtomicU64],
    file: &'a FileMedium,
    /// The flush instruction; [`FlushInstruction::None`] if a fence only orders stores.
    flush: FlushInstruction,
}

impl<'a> Mapped<'a> {
    /// Wraps words that are mapped for writing, start at a line, and belong to a file without dirty-page
    /// tracking.
    #[inline(always)]
    pub(crate) fn new(words: &'a [AtomicU64], file: &'a FileMedium, flush: FlushInstruction) -> Mapped<'a> {
        Mapped { words, file, flush }
    }

    /// Loads a word with acquire order.
    ///
    /// # Panics
    /// If `word` is out of range.
    #[inline(always)]
    pub fn load(self, word: usize) -> u64 {
        u64::from_le(self.words[word].load(Ordering::Acquire))
    }

    /// Stores a word with release order: visible, not durable.
    ///
    /// # Panics
    /// If `word` is out of range.
    #[inline(always)]
    pub fn store(self, word: usize, value: u64) {
        self.words[word].store(value.to_le(), Ordering::Release);
    }

    /// Starts to write back the line of a word. It is not durable before the next fence.
    ///
    /// # Panics
    /// If `word` is out of range.
    #[inline(always)]
    pub fn flush(self, word: usize) {
        let line = std::ptr::from_ref(&self.words[word / WORDS * WORDS]);
        // SAFETY: the line starts with a word that is borrowed, and so is mapped, as mappings end with a
        // page.
        unsafe { flush::flush_by(self.flush, line.cast()) };
    }

    /// Prefetches the line of a word.
    ///
    /// # Panics
    /// If `word` is out of range.
    #[inline(always)]
    pub fn prefetch(self, word: usize) {
        flush::prefetch(std::ptr::from_ref(&self.words[word]).cast());
    }

    /// Fences like [`Medium::fence`](crate::Medium::fence).
    ///
    /// # Errors
    /// [`MediaError::Poisoned`].
    #[inline(always)]
    pub fn fence(self) -> Result<(), MediaError> {
        self.file.fence_mapped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileOptions, MediumAccess, MediumBackend, PAGE};

    fn file(folder: &std::path::Path, options: FileOptions) -> FileMedium {
        FileMedium::open(folder.join("medium"), &options).unwrap()
    }

    #[test]
    fn words_are_those_of_the_medium() {
        let folder = tempfile::tempdir().unwrap();
        let create = FileOptions {
            create: true,
            ..FileOptions::default()
        };
        for assume_dax in [false, true] {
            let options = FileOptions {
                assume_dax,
                ..create.clone()
            };
            let medium = file(folder.path(), options);
            medium.grow(PAGE).unwrap();
            let mapped = medium.mapped(2 * LINE, 16).unwrap();
            mapped.store(9, 77 + u64::from(assume_dax));
            mapped.prefetch(9);
            mapped.flush(9);
            mapped.fence().unwrap();
            assert_eq!(medium.load_u64(2 * LINE + 72), 77 + u64::from(assume_dax));
            medium.store_u64(2 * LINE, 5);
            assert_eq!(mapped.load(0), 5);
            for (offset, words) in [(PAGE - LINE, 9), (PAGE, 1), (8, 1), (u64::MAX, 1)] {
                assert!(
                    medium.mapped(offset, words).is_none(),
                    "{words} words from {offset} on"
                );
            }
        }
    }

    #[test]
    fn none_where_stores_are_refused_or_kept_account_of() {
        let folder = tempfile::tempdir().unwrap();
        let strict = FileOptions {
            create: true,
            strict: true,
            ..FileOptions::default()
        };
        let medium = file(folder.path(), strict);
        medium.grow(PAGE).unwrap();
        medium.store_u64(56, 77);
        if medium.kind() == (crate::MediumKind::PageCache { strict: true }) {
            assert!(medium.mapped(0, 8).is_none());
        }
        let read_only = FileOptions {
            read_only: true,
            ..FileOptions::default()
        };
        let medium = file(folder.path(), read_only);
        assert!(medium.mapped(0, 8).is_none());
        assert_eq!(medium.words(0, 8).unwrap().load(7), 77);
    }
}
