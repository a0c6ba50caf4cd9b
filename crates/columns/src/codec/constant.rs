//! Chunks whose rows all have the same offset, 0: nothing is stored.

use super::stats::ChunkStats;
use super::{CodeMap, Codec};
use crate::codec::chunk_predicate::ChunkPredicate;
use crate::format::{BLOCK, CODEC_BIT_PACKED, FORMAT_PACKED};
use crate::kernel::{self, BlockMask, Code, Lane, Values};
use crate::read::bitset::Bitset;
use std::ops::Range;

/// A chunk without bytes. It has the number of bit-packed chunks, of which it is the one with zero bits a
/// row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConstantCodec;

/// Returns the mask of a block in which all rows are as the first one is in `mask`.
fn all_as_first(mask: BlockMask) -> BlockMask {
    [0u64.wrapping_sub(mask[0] & 1); BLOCK / 64]
}

impl Codec<'_> for ConstantCodec {
    const ID: u8 = CODEC_BIT_PACKED;
    const FORMAT: u32 = FORMAT_PACKED;
    const WHOLE_BLOCK_ROWS: usize = 48;

    fn estimate(stats: &ChunkStats<'_>) -> Option<usize> {
        (stats.width() == 0).then_some(0)
    }

    fn encode(_: &ChunkStats<'_>, _: usize) -> Option<Vec<u64>> {
        Some(Vec::new())
    }

    fn open(width: usize, _: usize, bytes: &[u8]) -> Option<Self> {
        (width == 0 && bytes.is_empty()).then_some(ConstantCodec)
    }

    fn blocks_bytes<L: Lane>(&self, _: Range<usize>) -> [&'static [u8]; 2] {
        [&[], &[]]
    }

    fn unpack<L: Lane>(&self, _: usize, out: &mut [L; BLOCK]) {
        out.fill(L::default());
    }

    fn get<L: Lane>(&self, _: usize) -> L {
        L::default()
    }

    fn evaluate<L: Lane>(&self, _: usize, predicate: &ChunkPredicate, scratch: &mut [u64]) -> BlockMask {
        all_as_first(predicate.matches(Values::Lanes(&[L::default()]), scratch))
    }

    fn read_codes<L: Lane, C: Code>(
        &self,
        _: usize,
        map: &CodeMap<C>,
        _: &mut [u64],
        codes: &mut [C; BLOCK],
    ) {
        codes.fill(map.code(0));
    }

    fn read_block_rows<L: Lane, C: Code>(
        &self,
        _: usize,
        _: &[u16],
        map: &CodeMap<C>,
        codes: &mut [C],
    ) -> bool {
        codes.fill(map.code(0));
        true
    }

    fn probe<L: Lane>(&self, _: usize, shift: u32, slots: &Bitset) -> Option<BlockMask> {
        Some(all_as_first(kernel::lookup(
            Values::Lanes(&[L::default()]),
            shift,
            slots,
        )))
    }
}
