//! Blocks of bit-packed values: an encoding by itself, and a part of others.

use crate::format::{BLOCK, BLOCK_BYTES_PER_BIT};
use crate::kernel::{self, Lane, Values, with_lane};
use std::ops::Range;
use zerocopy::{FromBytes, IntoBytes};

/// Blocks of values of one width.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packed<'a> {
    width: usize,
    bytes: &'a [u8],
}

/// Bytes of packed values.
pub(crate) fn packed_len(width: usize, rows: usize) -> usize {
    rows.div_ceil(BLOCK) * width * BLOCK_BYTES_PER_BIT
}

impl<'a> Packed<'a> {
    /// `bytes` must have the length that [`packed_len`] gives, and the alignment of words.
    pub(crate) fn new(width: usize, rows: usize, bytes: &'a [u8]) -> Option<Self> {
        let aligned = bytes.is_empty() || (bytes.as_ptr() as usize).is_multiple_of(align_of::<u64>());
        (width <= 64 && bytes.len() == packed_len(width, rows) && aligned).then_some(Self { width, bytes })
    }

    /// Bits per value.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The bytes of a block.
    fn block(&self, block: usize) -> &'a [u8] {
        self.blocks(block..block + 1)
    }

    /// The bytes of blocks.
    pub(crate) fn blocks(&self, blocks: Range<usize>) -> &'a [u8] {
        let len = self.width * BLOCK_BYTES_PER_BIT;
        &self.bytes[blocks.start * len..blocks.end * len]
    }

    /// A block as lanes of type `L`, which must be the lane of the width.
    pub(crate) fn lanes<L: Lane>(&self, block: usize) -> &'a [L] {
        <[L]>::ref_from_bytes(self.block(block)).expect("alignment was checked")
    }

    /// A block for a filter.
    pub(crate) fn values<L: Lane>(&self, block: usize) -> Values<'a, L> {
        Values::Packed(self.width, self.lanes(block))
    }

    /// The values of rows that count from a block on: each plus the first of `onto` (wrapping), but the second at most.
    ///
    /// # Panics
    /// If a row is outside.
    pub(crate) fn rows<L: Lane, C: Lane>(&self, block: usize, rows: &[u16], onto: (C, C), codes: &mut [C]) {
        let bytes = &self.bytes[block * self.width * BLOCK_BYTES_PER_BIT..];
        let lanes = <[L]>::ref_from_bytes(bytes).expect("alignment was checked");
        kernel::unpack_rows(self.width, lanes, rows, onto, codes);
    }

    /// Where values of rows that count from a block on are read, in bytes from the first of that block.
    pub(crate) fn places(&self, rows: &[u16]) -> impl Iterator<Item = usize> {
        let width = self.width;
        rows.iter().flat_map(move |&row| {
            let (block, row) = (usize::from(row) / BLOCK, usize::from(row) % BLOCK);
            let places = with_lane!(width, L => kernel::places_of::<L>(width, row));
            places.map(|at| block * width * BLOCK_BYTES_PER_BIT + at)
        })
    }

    /// Unpacks a block into the lanes of the width.
    pub(crate) fn unpack<L: Lane>(&self, block: usize, out: &mut [L; BLOCK]) {
        kernel::unpack(self.width, self.lanes::<L>(block), out);
    }

    /// A single value, widened.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> u64 {
        with_lane!(self.width, L => kernel::unpack_one(self.width, self.lanes::<L>(row / BLOCK), row % BLOCK).widen())
    }
}

/// Appends `values` (up to a block, the rest zero) packed in `width` bits.
pub(crate) fn pack_block(width: usize, values: &[u64], words: &mut Vec<u64>) {
    fn lanes<L: Lane>(width: usize, values: &[u64], out: &mut [u8]) {
        let mut block = [L::default(); BLOCK];
        for (lane, value) in block.iter_mut().zip(values) {
            *lane = L::truncate(*value);
        }
        let out = <[L]>::mut_from_bytes(out).expect("words are aligned for every lane");
        kernel::pack(width, &block, out);
    }
    if width == 0 {
        return;
    }
    let start = words.len();
    words.resize(start + width * BLOCK_BYTES_PER_BIT / 8, 0);
    let out = words[start..].as_mut_bytes();
    with_lane!(width, L => lanes::<L>(width, values, out));
}

/// Packs all of `values`.
pub(crate) fn pack(width: usize, values: &[u64], words: &mut Vec<u64>) {
    words.reserve(packed_len(width, values.len()) / 8);
    values
        .chunks(BLOCK)
        .for_each(|block| pack_block(width, block, words));
}

/// The words of a chunk of values of this width.
pub(crate) fn encode(width: usize, values: &[u64]) -> Vec<u64> {
    let mut words = Vec::new();
    pack(width, values, &mut words);
    words
}
