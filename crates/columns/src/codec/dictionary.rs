//! Bit-packed positions in a sorted dictionary of the chunk's offsets, for few values that lie far apart:
//! dates as yyyymmdd, prices.
//!
//! Sections: the dictionary, in lanes of the chunk's width, ascending; the packed positions. Since the
//! dictionary is sorted, a range of offsets is a range of positions.

use super::bit_packed::{BitPackedCodec, pack, packed_len};
use super::sections::{SectionsReader, SectionsWriter, typed};
use super::stats::{ChunkStats, decode_penalty};
use super::{CodeMap, Codec, LookupUnit};
use crate::codec::chunk_predicate::ChunkPredicate;
use crate::codec::reads::ChunkReads;
use crate::format::{BLOCK, CODEC_DICTIONARY, FORMAT_ENCODED, KeysHeader, align_up};
use crate::kernel::{self, BlockMask, Code, Lane, width_of, with_lane};
use crate::read::bitset::Bitset;
use std::ops::Range;

/// Bits a row that a dictionary must save to be chosen.
const PENALTY: f64 = 1.5;

/// A chunk with a dictionary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DictionaryCodec<'a> {
    values: &'a [u8],
    positions: BitPackedCodec<'a>,
}

impl<'a> DictionaryCodec<'a> {
    /// Returns the entries, in lanes of the chunk's width.
    fn values<L: Lane>(&self) -> &'a [L] {
        typed(self.values)
    }
}

/// Returns the size of a chunk with `entries` entries, and its decode penalty.
fn cost(stats: &ChunkStats<'_>, entries: usize) -> usize {
    let positions = packed_len(width_of(entries as u64 - 1), stats.rows());
    let values = align_up(entries * stats.lane_bytes());
    size_of::<KeysHeader>() + values + positions + decode_penalty(PENALTY, stats.rows())
}

/// Returns the length that a table of `P` positions of `width` bits must have so that every number of that
/// width is an index: that of the lane's domain, for which no bounds check is needed, unless it is too long.
#[inline(always)]
fn table_len<P: Lane>(width: usize) -> usize {
    if P::BITS <= 16 { 1 << P::BITS } else { 1 << width }
}

impl<'a> Codec<'a> for DictionaryCodec<'a> {
    const ID: u8 = CODEC_DICTIONARY;
    const FORMAT: u32 = FORMAT_ENCODED;
    const LOOKUP_UNIT: LookupUnit = LookupUnit::Entry;
    const WHOLE_BLOCK_ROWS: usize = 48;

    fn estimate(stats: &ChunkStats<'_>) -> Option<usize> {
        // The number of distinct values is itself an estimate; a lower bound of it keeps a dictionary in the
        // running.
        let distinct = stats.distinct();
        Some(cost(stats, distinct - distinct / 16))
    }

    fn encode(stats: &ChunkStats<'_>, limit: usize) -> Option<Vec<u64>> {
        let (width, values) = (stats.width(), stats.dictionary());
        if cost(stats, values.len()) >= limit {
            return None;
        }
        let position_width = width_of(values.len() as u64 - 1);
        let header = KeysHeader {
            count: values.len() as u32,
            width: position_width as u32,
            ..Default::default()
        };
        let mut sections = SectionsWriter::new(&header);
        with_lane!(width, L => sections.push_lanes::<L>(values.iter().copied()));
        let position = |offset: &u64| values.partition_point(|other| other < offset) as u64;
        let positions: Vec<u64> = stats.offsets().iter().map(position).collect();
        Some(sections.finish(|words| pack(position_width, &positions, words)))
    }

    fn open(width: usize, rows: usize, bytes: &'a [u8]) -> Option<Self> {
        let (header, mut sections) = SectionsReader::new(bytes)?;
        let count = header.count as usize;
        if count == 0 || count > rows || header.width as usize != width_of(count as u64 - 1) {
            return None;
        }
        let lane = with_lane!(width, L => size_of::<L>());
        let values = sections.take(count.checked_mul(lane)?)?;
        let width = header.width as usize;
        let positions = sections.take_last(packed_len(width, rows))?;
        let positions = BitPackedCodec::new(width, rows, positions)?;
        Some(Self { values, positions })
    }

    fn shared_bytes(&self) -> &'a [u8] {
        self.values
    }

    fn blocks_bytes<L: Lane>(&self, blocks: Range<usize>) -> [&'a [u8]; 2] {
        [self.positions.blocks(blocks), &[]]
    }

    #[inline]
    fn unpack<L: Lane>(&self, block: usize, out: &mut [L; BLOCK]) {
        let values = self.values::<L>();
        with_lane!(self.positions.width(), P => {
            let mut positions = [P::default(); BLOCK];
            self.positions.unpack_block(block, &mut positions);
            // Damaged positions may lie past the end of the dictionary.
            for (out, position) in out.iter_mut().zip(positions) {
                *out = values[(position.widen() as usize).min(values.len() - 1)];
            }
        });
    }

    #[inline]
    fn get<L: Lane>(&self, row: usize) -> L {
        let values = self.values::<L>();
        values[(self.positions.number(row) as usize).min(values.len() - 1)]
    }

    fn packed_rows(&self) -> Option<&BitPackedCodec<'a>> {
        Some(&self.positions)
    }

    fn translate<L: Lane>(&self, predicate: ChunkPredicate) -> ChunkPredicate {
        predicate.on_positions(self.values::<L>())
    }

    fn evaluate<L: Lane>(&self, block: usize, predicate: &ChunkPredicate, scratch: &mut [u64]) -> BlockMask {
        with_lane!(self.positions.width(), P => {
            predicate.matches(self.positions.values::<P>(block), scratch)
        })
    }

    fn prepare<L: Lane, C: Code>(&self, map: &mut CodeMap<C>) {
        let len = with_lane!(self.positions.width(), P => table_len::<P>(self.positions.width()));
        map.set_table(self.values::<L>().iter().map(|value| value.widen()), len);
    }

    fn read_codes<L: Lane, C: Code>(
        &self,
        block: usize,
        map: &CodeMap<C>,
        scratch: &mut [u64],
        codes: &mut [C; BLOCK],
    ) {
        with_lane!(self.positions.width(), P => {
            let positions = kernel::lanes::<P>(scratch);
            self.positions.unpack_block(block, positions);
            let table = &map.table()[..table_len::<P>(self.positions.width())];
            for (code, position) in codes.iter_mut().zip(positions) {
                *code = table[position.widen() as usize];
            }
        });
    }

    fn read_rows<L: Lane, C: Code>(
        &self,
        reads: ChunkReads<'_>,
        (block, _): (usize, usize),
        rows: &[u16],
        map: &CodeMap<C>,
        codes: &mut [C],
    ) -> bool {
        reads.report_rows(&self.positions, block, rows);
        let table = map.table();
        let last = C::truncate(table.len() as u64 - 1);
        with_lane!(self.positions.width(), P => {
            self.positions.read_packed::<P, C>(block, rows, (C::default(), last), codes);
        });
        codes
            .iter_mut()
            .for_each(|code| *code = table[code.widen() as usize]);
        true
    }

    fn translate_slots(&self, map: &CodeMap<u32>, slots: &Bitset) -> Option<Bitset> {
        // The table may be longer than the dictionary, where only damaged positions lead.
        let mut positions = Bitset::new(map.table().len() as u32);
        let present = (0..).zip(map.table()).filter(|(_, slot)| slots.has(**slot) == 1);
        present.for_each(|(position, _)| {
            positions.set(position);
        });
        Some(positions)
    }

    fn probe<L: Lane>(&self, block: usize, _: u32, slots: &Bitset) -> Option<BlockMask> {
        Some(with_lane!(self.positions.width(), P => {
            kernel::lookup(self.positions.values::<P>(block), 0, slots)
        }))
    }
}
