//! Blocks of bit-packed numbers: a codec by itself, and a part of others.

use super::stats::ChunkStats;
use super::{CodeMap, Codec};
use crate::codec::chunk_predicate::ChunkPredicate;
use crate::codec::reads::ChunkReads;
use crate::format::{BLOCK, BLOCK_BYTES_PER_BIT, CODEC_BIT_PACKED, FORMAT_PACKED};
use crate::kernel::{self, BlockMask, Code, Lane, Values, with_lane};
use crate::read::bitset::Bitset;
use std::ops::Range;
use zerocopy::{FromBytes, IntoBytes};

/// Blocks of numbers of one width.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BitPackedCodec<'a> {
    width: usize,
    bytes: &'a [u8],
}

/// Returns the size in bytes of `rows` values packed in `width` bits each, rounded up to whole blocks.
pub(crate) fn packed_len(width: usize, rows: usize) -> usize {
    rows.div_ceil(BLOCK) * width * BLOCK_BYTES_PER_BIT
}

impl<'a> BitPackedCodec<'a> {
    /// Creates a codec over packed `bytes`; `None` unless they have the length that [`packed_len`] returns
    /// and the alignment of words.
    pub(crate) fn new(width: usize, rows: usize, bytes: &'a [u8]) -> Option<Self> {
        let aligned = bytes.is_empty() || (bytes.as_ptr() as usize).is_multiple_of(align_of::<u64>());
        (width <= 64 && bytes.len() == packed_len(width, rows) && aligned).then_some(Self { width, bytes })
    }

    /// Returns the number of bits per value.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Returns the bytes of all blocks.
    pub(crate) fn all(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the bytes of a block.
    fn block(&self, block: usize) -> &'a [u8] {
        self.blocks(block..block + 1)
    }

    /// Returns the bytes of consecutive blocks.
    pub(crate) fn blocks(&self, blocks: Range<usize>) -> &'a [u8] {
        let len = self.width * BLOCK_BYTES_PER_BIT;
        &self.bytes[blocks.start * len..blocks.end * len]
    }

    /// Returns a block as lanes of type `L`, which must be the lane of the width.
    pub(crate) fn lanes<L: Lane>(&self, block: usize) -> &'a [L] {
        <[L]>::ref_from_bytes(self.block(block)).expect("alignment was checked")
    }

    /// Returns a block as packed values, for a filter.
    pub(crate) fn values<L: Lane>(&self, block: usize) -> Values<'a, L> {
        Values::Packed(self.width, self.lanes(block))
    }

    /// Reads the numbers of rows, counted from `block` on: each plus the first of `onto` (wrapping), at most
    /// the second.
    ///
    /// # Panics
    /// If a row is outside of the chunk.
    pub(crate) fn read_packed<L: Lane, C: Lane>(
        &self,
        block: usize,
        rows: &[u16],
        onto: (C, C),
        codes: &mut [C],
    ) {
        let bytes = &self.bytes[block * self.width * BLOCK_BYTES_PER_BIT..];
        let lanes = <[L]>::ref_from_bytes(bytes).expect("alignment was checked");
        kernel::unpack_rows(self.width, lanes, rows, onto, codes);
    }

    /// Returns the bytes at which the numbers of rows lie, counted from `block` on, relative to the start of
    /// that block.
    pub(crate) fn row_bytes(
        &self,
        rows: impl Iterator<Item = usize> + Clone,
    ) -> impl Iterator<Item = usize> + Clone {
        let width = self.width;
        rows.flat_map(move |row| {
            let (block, row) = (row / BLOCK, row % BLOCK);
            let places = with_lane!(width, L => kernel::places_of::<L>(width, row));
            places.map(|at| block * width * BLOCK_BYTES_PER_BIT + at)
        })
    }

    /// Unpacks a block to the lanes of the width.
    pub(crate) fn unpack_block<L: Lane>(&self, block: usize, out: &mut [L; BLOCK]) {
        kernel::unpack(self.width, self.lanes::<L>(block), out);
    }

    /// Returns the number of one row, widened.
    #[inline]
    pub(crate) fn number(&self, row: usize) -> u64 {
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

/// Returns the words of a chunk of offsets of this width.
pub(crate) fn encode(width: usize, offsets: &[u64]) -> Vec<u64> {
    let mut words = Vec::new();
    pack(width, offsets, &mut words);
    words
}

impl<'a> Codec<'a> for BitPackedCodec<'a> {
    const ID: u8 = CODEC_BIT_PACKED;
    const FORMAT: u32 = FORMAT_PACKED;
    const WHOLE_BLOCK_ROWS: usize = 48;

    fn estimate(stats: &ChunkStats<'_>) -> Option<usize> {
        Some(packed_len(stats.width(), stats.rows()))
    }

    fn encode(stats: &ChunkStats<'_>, _: usize) -> Option<Vec<u64>> {
        Some(encode(stats.width(), stats.offsets()))
    }

    fn open(width: usize, rows: usize, bytes: &'a [u8]) -> Option<Self> {
        Self::new(width, rows, bytes)
    }

    fn blocks_bytes<L: Lane>(&self, blocks: Range<usize>) -> [&'a [u8]; 2] {
        [self.blocks(blocks), &[]]
    }

    #[inline]
    fn unpack<L: Lane>(&self, block: usize, out: &mut [L; BLOCK]) {
        self.unpack_block(block, out);
    }

    #[inline]
    fn get<L: Lane>(&self, row: usize) -> L {
        kernel::unpack_one(self.width, self.lanes::<L>(row / BLOCK), row % BLOCK)
    }

    fn packed_rows(&self) -> Option<&BitPackedCodec<'a>> {
        Some(self)
    }

    fn evaluate<L: Lane>(&self, block: usize, predicate: &ChunkPredicate, scratch: &mut [u64]) -> BlockMask {
        predicate.matches(self.values::<L>(block), scratch)
    }

    fn read_codes<L: Lane, C: Code>(
        &self,
        block: usize,
        map: &CodeMap<C>,
        scratch: &mut [u64],
        codes: &mut [C; BLOCK],
    ) {
        let offsets = kernel::lanes::<L>(scratch);
        self.unpack_block(block, offsets);
        map.map_block(offsets, codes);
    }

    fn read_rows<L: Lane, C: Code>(
        &self,
        reads: ChunkReads<'_>,
        (block, _): (usize, usize),
        rows: &[u16],
        map: &CodeMap<C>,
        codes: &mut [C],
    ) -> bool {
        reads.report_rows(self, block, rows);
        if map.has_null() {
            // The kernel knows no NULL: it reads plain offsets, which are mapped afterwards.
            self.read_packed::<L, C>(block, rows, (C::default(), C::truncate(u64::MAX)), codes);
            codes.iter_mut().for_each(|code| *code = map.code(code.widen()));
        } else {
            self.read_packed::<L, C>(block, rows, map.linear(), codes);
        }
        true
    }

    fn probe<L: Lane>(&self, block: usize, shift: u32, slots: &Bitset) -> Option<BlockMask> {
        Some(kernel::lookup(self.values::<L>(block), shift, slots))
    }
}
