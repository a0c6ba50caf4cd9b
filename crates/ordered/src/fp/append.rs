//! Reading all entries of a leaf in the order of their keys, for scans.
//!
//! The function for mapped words is not generic, so it is always compiled and optimized within this crate.

use halocline_media::Words;

use crate::hybrid::{LeafRef, LoadWords};
use crate::kernel::UnsortedEntries;

use super::layout::{ALL, LEAF, entry_offset};

/// Appends all entries of the leaf at `at`, in ascending order of their keys.
#[inline(always)]
pub(super) fn append(at: LeafRef<'_>, vectors: bool, into: &mut Vec<(u64, u64)>) {
    match at.medium.words(at.offset, LEAF as usize / 8) {
        Some(words) => append_mapped(words, vectors, into),
        None => append_entries(at, vectors, into),
    }
}

#[inline(never)]
fn append_mapped(words: Words<'_>, vectors: bool, into: &mut Vec<(u64, u64)>) {
    append_entries(words, vectors, into);
}

#[inline(always)]
fn append_entries<W: LoadWords>(words: W, vectors: bool, into: &mut Vec<(u64, u64)>) {
    let mut unsorted = UnsortedEntries::<4>::new();
    let mut used = words.load(0) & ALL;
    while used != 0 {
        let entry = entry_offset(used.trailing_zeros() as usize) as usize / 8;
        used &= used - 1;
        unsorted.push(words.load(entry), words.load(entry + 1));
    }
    unsorted.append_to(into, vectors);
}
