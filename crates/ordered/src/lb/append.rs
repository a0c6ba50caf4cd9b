//! Reading all entries of a leaf in the order of their keys, for scans.
//!
//! The function for mapped words is not generic, so it is always compiled and optimized within this crate.

use halocline_media::Words;

use crate::hybrid::{LeafRef, LoadWords};
use crate::kernel::{UnsortedEntries, append_sorted};

use super::layout::{BLOCK, SLOTS};
use super::leaf::{LbLeafRef, WORDS};

/// Appends all entries of the leaf at `at`, in ascending order of their keys.
#[inline(always)]
pub(super) fn append<const B: usize>(at: LeafRef<'_>, vectors: bool, into: &mut Vec<(u64, u64)>) {
    const { assert!(matches!(B, 1 | 2 | 4)) };
    if let Some(words) = at.medium.words(at.offset, B * WORDS) {
        return append_mapped(words, B, vectors, into);
    }
    if B == 1 {
        // One access for the whole block, as each access through the medium has a cost.
        let mut bytes = [0; BLOCK as usize];
        at.medium.load(at.offset, &mut bytes);
        return append_block(LbLeafRef(BlockCopy(&bytes)), vectors, into);
    }
    append_blocks(LbLeafRef::<_, B>(at), vectors, into);
}

#[inline(never)]
fn append_mapped(words: Words<'_>, blocks: usize, vectors: bool, into: &mut Vec<(u64, u64)>) {
    match blocks {
        1 => append_block(LbLeafRef(words), vectors, into),
        2 => append_blocks::<_, 2>(LbLeafRef(words), vectors, into),
        _ => append_blocks::<_, 4>(LbLeafRef(words), vectors, into),
    }
}

#[inline(always)]
fn append_block<W: LoadWords>(leaf: LbLeafRef<W, 1>, vectors: bool, into: &mut Vec<(u64, u64)>) {
    // Reads all slots, as branches on the bitmap would be unpredictable.
    let entries: [(u64, u64); SLOTS] =
        std::array::from_fn(|slot| (leaf.key((0, slot)), leaf.value((0, slot))));
    append_sorted(&entries, leaf.header(0).used(), vectors, into);
}

#[inline(always)]
fn append_blocks<W: LoadWords, const B: usize>(
    leaf: LbLeafRef<W, B>,
    vectors: bool,
    into: &mut Vec<(u64, u64)>,
) {
    let mut unsorted = UnsortedEntries::<B>::new();
    leaf.each(&leaf.headers(), |entry| unsorted.push(entry.key, entry.value));
    unsorted.append_to(into, vectors);
}

/// A private copy of a block.
#[derive(Clone, Copy)]
struct BlockCopy<'a>(&'a [u8; BLOCK as usize]);

impl LoadWords for BlockCopy<'_> {
    #[inline(always)]
    fn load(self, word: usize) -> u64 {
        u64::from_le_bytes(self.0.as_chunks().0[word])
    }
}
