//! Which chunks of a column have been verified: [`Verified`].
//!
//! Bits are those of the directory extent, in pieces of 64 bytes, which is one for each chunk entry; so all
//! readers of the segment share them for as long as the pool is open. The column's own header, of two pieces,
//! gives the first for its entries as a whole. Whoever copies rows has bits of its own instead: it verifies
//! what it reads even if that was found intact before.
//!
//! The first read of a row reads its whole chunk (at most 512 KiB for 65,536 keys) of each column it needs.
//! `for_copying` returns a table, segment or column whose reads are verified anew; merges, rankings and index
//! builds use it.

use crate::format::{ChunkEntry, ColumnHeader, SegmentHeader};
use halocline_pool::ExtentBytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const _: () = assert!(
    size_of::<ChunkEntry>() == 64 && size_of::<SegmentHeader>() == 64 && size_of::<ColumnHeader>() == 128
);

/// Where the bits of a column are.
#[derive(Debug, Clone)]
pub(crate) enum Verified {
    /// In what the pool knows of the directory: first the bit of the entries as a whole, then that of the
    /// first chunk.
    Shared { entries: usize, first_chunk: usize },
    /// Here: the first for the entries, then one for each chunk.
    Own(Arc<[AtomicU64]>),
}

/// A bit of something that is to be verified now.
pub(crate) struct Unverified<'a> {
    word: &'a AtomicU64,
    bit: u64,
}

impl Unverified<'_> {
    /// Takes note that it matches its checksum.
    pub(crate) fn note_sound(self) {
        // Relaxed order suffices: extents do not change, and a thread that does not see the bit verifies the
        // bytes once more.
        self.word.fetch_or(self.bit, Ordering::Relaxed);
    }
}

impl Verified {
    /// Refers to the bits that all readers share, of column `column`, whose entries start at byte `entries`
    /// of the directory.
    pub(crate) fn shared(column: usize, entries: usize) -> Self {
        Self::Shared {
            entries: (size_of::<SegmentHeader>() + column * size_of::<ColumnHeader>()) / 64,
            first_chunk: entries / 64,
        }
    }

    /// Creates a copy's own bits for `chunks` chunks, all unset.
    pub(crate) fn own(chunks: usize) -> Self {
        Self::Own(
            (0..(chunks + 1).div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
        )
    }

    /// Returns true if everything is verified again.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Self::Own(_))
    }

    /// Returns the bit of a chunk, if the chunk must be verified before it is read.
    #[inline]
    pub(crate) fn chunk<'a>(&'a self, directory: &'a ExtentBytes, chunk: usize) -> Option<Unverified<'a>> {
        match self {
            Self::Shared { first_chunk, .. } => shared(directory, first_chunk + chunk),
            Self::Own(bits) => unset(bits, 1 + chunk),
        }
    }

    /// Returns the bit of the entries as a whole, if they must be verified before one is read.
    #[inline]
    pub(crate) fn entries<'a>(&'a self, directory: &'a ExtentBytes) -> Option<Unverified<'a>> {
        match self {
            Self::Shared { entries, .. } => shared(directory, *entries),
            Self::Own(bits) => unset(bits, 0),
        }
    }
}

#[inline]
fn shared(directory: &ExtentBytes, number: usize) -> Option<Unverified<'_>> {
    let unset = unset(directory.notes()?, number)?;
    directory.is_to_be_verified().then_some(unset)
}

#[inline]
fn unset(bits: &[AtomicU64], number: usize) -> Option<Unverified<'_>> {
    let (word, bit) = (bits.get(number / 64)?, 1 << (number % 64));
    (word.load(Ordering::Relaxed) & bit == 0).then_some(Unverified { word, bit })
}
