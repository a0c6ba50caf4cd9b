//! Lists of layout `published` through a hash table of copies: the paper's dynamic cache.
//!
//! DimensionLists are cached; MonoLists are always read from the index itself.

use crate::place::hashed::Hashed;
use crate::published::search::PublishedTree;
use crate::published::{ENTRY, LAST};
use crate::{ElfError, Result};
use halocline_media::Bytes;

/// Returns the values and links of a list's entries.
pub(crate) fn entries(list: &[u8]) -> impl Iterator<Item = (u32, u64)> {
    let (entries, _) = list.as_chunks::<ENTRY>();
    entries.iter().map(|&[a, b, c, d, ref link @ ..]| {
        let mut word = [0; 8];
        word.copy_from_slice(link);
        (u32::from_le_bytes([a, b, c, d]) & !LAST, u64::from_le_bytes(word))
    })
}

impl<'a, B: Bytes> PublishedTree<'a, B> {
    /// Returns true if an offset lies in the index itself, not in an image.
    pub(crate) fn is_slow(&self, at: usize) -> bool {
        (at as u64) < self.header.len
    }

    /// Returns all entries of the list at `at` in the index itself.
    fn slow_list(&self, at: usize) -> Result<&'a [u8]> {
        let mut len = ENTRY;
        while self.entry(at + len - ENTRY)?.0 & LAST == 0 {
            len += ENTRY;
        }
        let list = self.view.slice(at, len);
        list.ok_or_else(|| ElfError::damaged(at, "a list reaches beyond the nodes"))
    }

    /// Reads the list of dimension `depth` at `at` from the cache. On a miss it is read from the index and
    /// offered to the cache.
    pub(crate) fn cached<R>(
        &self,
        hashed: &Hashed,
        at: usize,
        depth: usize,
        mut read: impl FnMut(&[u8]) -> R,
    ) -> Result<R> {
        if let Some(found) = hashed.lists.read(at as u64, &mut read) {
            return Ok(found);
        }
        let list = self.slow_list(at)?;
        let probability = hashed.probabilities.get(depth).copied().unwrap_or_default();
        if !self.view.is_damaged() {
            hashed.lists.admit(at as u64, probability, list);
        }
        Ok(read(list))
    }
}
