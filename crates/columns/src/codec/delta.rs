//! Differences between offsets that ascend (or stay) within every block: keys in the order they were given,
//! times of events.
//!
//! Sections: the first offset of each block, in lanes of the chunk's width; packed differences, less the
//! smallest of them, which is in the header. The first difference of a block is 0 and has no meaning.

use super::bit_packed::{BitPackedCodec, pack_block, packed_len};
use super::sections::{SectionsReader, SectionsWriter, typed};
use super::stats::{ChunkStats, decode_penalty};
use super::{CodeMap, Codec};
use crate::codec::chunk_predicate::ChunkPredicate;
use crate::format::{BLOCK, CODEC_DELTA, FORMAT_ENCODED, KeysHeader, align_up};
use crate::kernel::{self, BlockMask, Code, Lane, Values, width_of, with_lane};
use std::ops::Range;

/// Bits a row that differences must save to be chosen.
const PENALTY: f64 = 1.0;

/// A chunk of differences.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeltaCodec<'a> {
    firsts: &'a [u8],
    smallest: u64,
    deltas: BitPackedCodec<'a>,
}

impl DeltaCodec<'_> {
    /// Returns the first offset of a block, which is its smallest.
    fn first<L: Lane>(&self, block: usize) -> L {
        typed::<L>(self.firsts)[block]
    }
}

/// Adds up differences to offsets. Four parts of a block are summed side by side, since each sum depends on
/// the one before.
fn prefix_sums<L: Lane, S: Lane>(first: L, smallest: L, deltas: &[S; BLOCK], out: &mut [L; BLOCK]) {
    const PART_LEN: usize = BLOCK / 4;
    let (a, rest) = out.split_at_mut(PART_LEN);
    let (b, rest) = rest.split_at_mut(PART_LEN);
    let (c, d) = rest.split_at_mut(PART_LEN);
    let mut sums = [first.minus(smallest), L::default(), L::default(), L::default()];
    for i in 0..PART_LEN {
        for (part, out) in [&mut *a, &mut *b, &mut *c, &mut *d].into_iter().enumerate() {
            sums[part] = sums[part]
                .plus(smallest)
                .plus(L::truncate(deltas[part * PART_LEN + i].widen()));
            out[i] = sums[part];
        }
    }
    let mut before = sums[0];
    for (part, out) in [b, c, d].into_iter().enumerate() {
        out.iter_mut().for_each(|value| *value = value.plus(before));
        before = before.plus(sums[part + 1]);
    }
}

impl<'a> Codec<'a> for DeltaCodec<'a> {
    const ID: u8 = CODEC_DELTA;
    const FORMAT: u32 = FORMAT_ENCODED;
    const WHOLE_BLOCK_ROWS: usize = 2;

    fn estimate(stats: &ChunkStats<'_>) -> Option<usize> {
        let (smallest, largest) = stats.deltas()?;
        let deltas = packed_len(width_of(largest - smallest), stats.rows());
        let firsts = align_up(stats.rows().div_ceil(BLOCK) * stats.lane_bytes());
        Some(size_of::<KeysHeader>() + firsts + deltas + decode_penalty(PENALTY, stats.rows()))
    }

    fn encode(stats: &ChunkStats<'_>, _: usize) -> Option<Vec<u64>> {
        let (smallest, largest) = stats.deltas()?;
        let (width, delta_width) = (stats.width(), width_of(largest - smallest));
        let header = KeysHeader {
            width: delta_width as u32,
            step: smallest,
            ..Default::default()
        };
        let blocks = stats.offsets().chunks(BLOCK);
        let mut sections = SectionsWriter::new(&header);
        with_lane!(width, L => sections.push_lanes::<L>(blocks.clone().map(|block| block[0])));
        Some(sections.finish(|words| {
            let mut deltas = Vec::with_capacity(BLOCK);
            for block in blocks {
                deltas.clear();
                deltas.push(0);
                deltas.extend(block.windows(2).map(|pair| pair[1] - pair[0] - smallest));
                pack_block(delta_width, &deltas, words);
            }
        }))
    }

    fn open(width: usize, rows: usize, bytes: &'a [u8]) -> Option<Self> {
        let (header, mut sections) = SectionsReader::new(bytes)?;
        // Differences are narrower than offsets, so that they fit the lanes of those.
        let delta_width = header.width as usize;
        if delta_width > width {
            return None;
        }
        let lane = with_lane!(width, L => size_of::<L>());
        let firsts = sections.take(rows.div_ceil(BLOCK) * lane)?;
        let deltas = sections.take_last(packed_len(delta_width, rows))?;
        Some(Self {
            firsts,
            smallest: header.step,
            deltas: BitPackedCodec::new(delta_width, rows, deltas)?,
        })
    }

    fn shared_bytes(&self) -> &'a [u8] {
        self.firsts
    }

    fn blocks_bytes<L: Lane>(&self, blocks: Range<usize>) -> [&'a [u8]; 2] {
        [self.deltas.blocks(blocks), &[]]
    }

    #[inline]
    fn unpack<L: Lane>(&self, block: usize, out: &mut [L; BLOCK]) {
        let (first, smallest) = (self.first::<L>(block), L::truncate(self.smallest));
        with_lane!(self.deltas.width(), S => {
            let mut deltas = [S::default(); BLOCK];
            self.deltas.unpack_block(block, &mut deltas);
            prefix_sums(first, smallest, &deltas, out);
        });
    }

    fn get<L: Lane>(&self, row: usize) -> L {
        let (block, index) = (row / BLOCK, row % BLOCK);
        let sum = with_lane!(self.deltas.width(), S => {
            let mut deltas = [S::default(); BLOCK];
            self.deltas.unpack_block(block, &mut deltas);
            deltas[..=index].iter().fold(0u64, |sum, delta| sum.wrapping_add(delta.widen()))
        });
        let distance = self.smallest.wrapping_mul(index as u64).wrapping_add(sum);
        self.first::<L>(block).plus(L::truncate(distance))
    }

    fn evaluate<L: Lane>(&self, block: usize, predicate: &ChunkPredicate, scratch: &mut [u64]) -> BlockMask {
        // Offsets ascend, so that the first one alone can rule out a block.
        if predicate.excludes_from(self.first::<L>(block).widen()) {
            return [0; BLOCK / 64];
        }
        let mut offsets = [L::default(); BLOCK];
        self.unpack(block, &mut offsets);
        predicate.matches(Values::Lanes(&offsets), scratch)
    }

    fn read_codes<L: Lane, C: Code>(
        &self,
        block: usize,
        map: &CodeMap<C>,
        scratch: &mut [u64],
        codes: &mut [C; BLOCK],
    ) {
        let offsets = kernel::lanes::<L>(scratch);
        self.unpack(block, offsets);
        map.map_block(offsets, codes);
    }
}
