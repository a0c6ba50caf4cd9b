//! Offsets in lanes, in the order of the rows: what fills its lane needs no unpacking.

use super::bit_packed::packed_len;
use super::sections::typed;
use super::stats::ChunkStats;
use super::{CodeMap, Codec};
use crate::codec::chunk_predicate::ChunkPredicate;
use crate::format::{BLOCK, CODEC_PLAIN, FORMAT_ENCODED};
use crate::kernel::{self, BlockMask, Code, Lane, Values, with_lane};
use crate::read::bitset::Bitset;
use std::ops::Range;
use zerocopy::IntoBytes;

/// A chunk whose width is that of a lane. The last block is padded with zeros.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainCodec<'a> {
    bytes: &'a [u8],
}

/// Returns true if offsets of this width fill a lane.
pub(crate) fn fills_lane(width: usize) -> bool {
    matches!(width, 8 | 16 | 32 | 64)
}

impl<'a> PlainCodec<'a> {
    /// Returns the offsets of a block.
    fn block<L: Lane>(&self, block: usize) -> &'a [L; BLOCK] {
        let offsets = &typed::<L>(self.bytes)[block * BLOCK..(block + 1) * BLOCK];
        offsets.try_into().expect("the length is that of a block")
    }
}

/// Returns the words of a chunk.
pub(crate) fn encode(width: usize, values: &[u64]) -> Vec<u64> {
    let mut words = vec![0u64; packed_len(width, values.len()) / 8];
    with_lane!(width, L => {
        let lanes: Vec<L> = values.iter().map(|&value| L::truncate(value)).collect();
        words.as_mut_bytes()[..size_of_val(&lanes[..])].copy_from_slice(lanes.as_bytes());
    });
    words
}

impl<'a> Codec<'a> for PlainCodec<'a> {
    const ID: u8 = CODEC_PLAIN;
    const FORMAT: u32 = FORMAT_ENCODED;
    const WHOLE_BLOCK_ROWS: usize = usize::MAX;

    fn estimate(stats: &ChunkStats<'_>) -> Option<usize> {
        // One byte less than bit-packed offsets of the same size, which it is quicker to read than.
        fills_lane(stats.width()).then(|| packed_len(stats.width(), stats.rows()).saturating_sub(1))
    }

    fn encode(stats: &ChunkStats<'_>, _: usize) -> Option<Vec<u64>> {
        fills_lane(stats.width()).then(|| encode(stats.width(), stats.offsets()))
    }

    fn open(width: usize, rows: usize, bytes: &'a [u8]) -> Option<Self> {
        let aligned = (bytes.as_ptr() as usize).is_multiple_of(align_of::<u64>());
        (fills_lane(width) && bytes.len() == packed_len(width, rows) && aligned).then_some(Self { bytes })
    }

    fn blocks_bytes<L: Lane>(&self, blocks: Range<usize>) -> [&'a [u8]; 2] {
        let len = BLOCK * size_of::<L>();
        [&self.bytes[blocks.start * len..blocks.end * len], &[]]
    }

    #[inline]
    fn unpack<L: Lane>(&self, block: usize, out: &mut [L; BLOCK]) {
        out.copy_from_slice(self.block(block));
    }

    #[inline]
    fn stored_block<L: Lane>(&self, block: usize) -> Option<&'a [L; BLOCK]> {
        Some(self.block(block))
    }

    #[inline]
    fn get<L: Lane>(&self, row: usize) -> L {
        self.block(row / BLOCK)[row % BLOCK]
    }

    fn evaluate<L: Lane>(&self, block: usize, predicate: &ChunkPredicate, scratch: &mut [u64]) -> BlockMask {
        predicate.matches(Values::Lanes(self.block::<L>(block)), scratch)
    }

    fn read_codes<L: Lane, C: Code>(
        &self,
        block: usize,
        map: &CodeMap<C>,
        _: &mut [u64],
        codes: &mut [C; BLOCK],
    ) {
        map.map_block(self.block::<L>(block), codes);
    }

    fn read_block_rows<L: Lane, C: Code>(
        &self,
        block: usize,
        rows: &[u16],
        map: &CodeMap<C>,
        codes: &mut [C],
    ) -> bool {
        let offsets = self.block::<L>(block);
        for (code, row) in codes.iter_mut().zip(rows) {
            *code = map.code(offsets[usize::from(*row) % BLOCK].widen());
        }
        true
    }

    fn probe<L: Lane>(&self, block: usize, shift: u32, slots: &Bitset) -> Option<BlockMask> {
        Some(kernel::lookup(
            Values::Lanes(self.block::<L>(block)),
            shift,
            slots,
        ))
    }
}
