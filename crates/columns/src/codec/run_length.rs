//! Runs of equal offsets: what stays the same for several rows, as all lines of an order have one customer.
//!
//! A run ends with its block, and after 256 rows. Sections: the index of the first run of each block and of
//! the end (u32); where runs start; the offset of each run, in lanes of the chunk's width. Two codecs differ
//! in the middle section: [`Lengths`] stores the length of each run (less one, u8), [`Starts`] a bit for each
//! row, which is smaller for short runs.

use super::run_starts::{LONGEST_RUN, lengths_of, starts_of};
use super::sections::{SectionsReader, SectionsWriter, typed};
use super::stats::{ChunkStats, decode_penalty};
use super::{CodeMap, Codec, LookupUnit};
use crate::codec::chunk_predicate::ChunkPredicate;
use crate::codec::reads::ChunkReads;
use crate::codec::selected_rows::{BLOCK_RUN_ROWS, WHOLE_BLOCK_CODES, by_block};
use crate::format::{
    BLOCK, CODEC_RUN_LENGTHS, CODEC_RUN_STARTS, FORMAT_ENCODED, FORMAT_MARKED, KeysHeader, align_up,
};
use crate::kernel::{self, BlockMask, Code, Lane, Values, with_lane};
use crate::read::bitset::Bitset;
use std::fmt::Debug;
use std::ops::Range;
use zerocopy::IntoBytes;

/// Bits a row that runs must save to be chosen.
const PENALTY: f64 = 0.5;

/// A chunk of runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunLengthCodec<'a, I> {
    firsts: &'a [u8],
    index: I,
    values: &'a [u8],
}

/// The section that says where runs start.
pub(crate) trait RunIndex<'a>: Copy + Debug {
    /// The number of the codec.
    const ID: u8;

    /// The first format of segments that has the codec.
    const FORMAT: u32;

    /// Returns the size of the section for `runs` runs in `blocks` blocks.
    fn bytes(runs: usize, blocks: usize) -> usize;

    /// Reads the section.
    fn take(sections: &mut SectionsReader<'a>, runs: usize, blocks: usize) -> Option<Self>;

    /// Appends the section: for each block the lengths (less one) of its runs.
    fn push(sections: &mut SectionsWriter, lengths: &[u8], firsts: &[u32]);

    /// Returns the rows of a block at which a run starts. `runs` are the indexes of its runs.
    fn starts(&self, block: usize, runs: Range<usize>) -> BlockMask;

    /// Returns the bytes of the section for some blocks, whose runs are `runs`.
    fn blocks_bytes(&self, blocks: Range<usize>, runs: Range<usize>) -> &'a [u8];
}

/// Lengths of runs, less one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lengths<'a>(&'a [u8]);

impl<'a> RunIndex<'a> for Lengths<'a> {
    const ID: u8 = CODEC_RUN_LENGTHS;
    const FORMAT: u32 = FORMAT_ENCODED;

    fn bytes(runs: usize, _: usize) -> usize {
        runs
    }

    fn take(sections: &mut SectionsReader<'a>, runs: usize, _: usize) -> Option<Self> {
        sections.take(runs).map(Self)
    }

    fn push(sections: &mut SectionsWriter, lengths: &[u8], _: &[u32]) {
        sections.push(lengths);
    }

    #[inline]
    fn starts(&self, _: usize, runs: Range<usize>) -> BlockMask {
        starts_of(self.0.get(runs).unwrap_or(&[]))
    }

    fn blocks_bytes(&self, _: Range<usize>, runs: Range<usize>) -> &'a [u8] {
        self.0.get(runs).unwrap_or(&[])
    }
}

/// A bit for each row at which a run starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Starts<'a>(&'a [BlockMask]);

impl<'a> RunIndex<'a> for Starts<'a> {
    const ID: u8 = CODEC_RUN_STARTS;
    const FORMAT: u32 = FORMAT_MARKED;

    fn bytes(_: usize, blocks: usize) -> usize {
        blocks * size_of::<BlockMask>()
    }

    fn take(sections: &mut SectionsReader<'a>, _: usize, blocks: usize) -> Option<Self> {
        let bytes = sections.take(blocks * size_of::<BlockMask>())?;
        Some(Self(typed(bytes)))
    }

    fn push(sections: &mut SectionsWriter, lengths: &[u8], firsts: &[u32]) {
        let blocks = firsts
            .windows(2)
            .map(|pair| starts_of(&lengths[pair[0] as usize..pair[1] as usize]));
        let starts: Vec<BlockMask> = blocks.collect();
        sections.push(starts.as_bytes());
    }

    #[inline]
    fn starts(&self, block: usize, _: Range<usize>) -> BlockMask {
        self.0[block]
    }

    fn blocks_bytes(&self, blocks: Range<usize>, _: Range<usize>) -> &'a [u8] {
        self.0[blocks].as_bytes()
    }
}

impl<'a, I: RunIndex<'a>> RunLengthCodec<'a, I> {
    /// Returns the indexes of the runs of blocks.
    #[inline]
    fn runs(&self, blocks: Range<usize>) -> Range<usize> {
        let firsts = typed::<u32>(self.firsts);
        firsts[blocks.start] as usize..firsts[blocks.end] as usize
    }

    /// Returns the rows of a block at which a run starts.
    #[inline]
    fn starts(&self, block: usize) -> BlockMask {
        self.index.starts(block, self.runs(block..block + 1))
    }

    /// Returns the offsets of all runs.
    #[inline]
    fn values<L: Lane>(&self) -> &'a [L] {
        typed(self.values)
    }

    /// Returns the rows of a block at which a run starts, and the offsets of its runs, 1024 at most. In
    /// damaged chunks there may be fewer or more offsets than starts.
    #[inline]
    fn block<L: Lane>(&self, block: usize) -> (BlockMask, &'a [L]) {
        let values = self.values::<L>().get(self.runs(block..block + 1));
        let values = values.unwrap_or(&[]);
        (self.starts(block), &values[..values.len().min(BLOCK)])
    }

    /// Decodes a block, with each offset mapped.
    #[inline(always)]
    fn map_runs<L: Lane, T: Copy + Default>(&self, block: usize, out: &mut [T; BLOCK], map: impl Fn(L) -> T) {
        let (starts, values) = self.block::<L>(block);
        spread(lengths_of(&starts), values, out, map);
    }
}

/// Writes the mapped value of each run to all of its rows. Rows that damaged runs do not cover get the
/// default.
#[inline(always)]
fn spread<V: Copy, T: Copy + Default>(
    lengths: impl Iterator<Item = u8>,
    values: &[V],
    out: &mut [T; BLOCK],
    map: impl Fn(V) -> T,
) {
    /// Rows that are written at once: most runs are short, and the next run overwrites what is too much.
    const AT_ONCE: usize = 8;
    let mut at = 0;
    for (length, &value) in lengths.zip(values) {
        let (value, length) = (map(value), usize::from(length) + 1);
        match out.get_mut(at..at + AT_ONCE) {
            Some(rows) if length <= AT_ONCE => rows.fill(value),
            _ => {
                let end = (at + length).min(BLOCK);
                out[at.min(end)..end].fill(value);
            }
        }
        at += length;
    }
    out[at.min(BLOCK)..].fill(T::default());
}

/// Returns the lengths (less one) and values of the runs of a block.
fn runs(block: &[u64]) -> impl Iterator<Item = (u8, u64)> {
    let equal = block.chunk_by(|a, b| a == b);
    equal.flat_map(|run| run.chunks(LONGEST_RUN).map(|run| ((run.len() - 1) as u8, run[0])))
}

impl<'a, I: RunIndex<'a>> Codec<'a> for RunLengthCodec<'a, I> {
    const ID: u8 = I::ID;
    const FORMAT: u32 = I::FORMAT;
    const LOOKUP_UNIT: LookupUnit = LookupUnit::Run;
    const WHOLE_BLOCK_ROWS: usize = 4;

    fn estimate(stats: &ChunkStats<'_>) -> Option<usize> {
        let (rows, blocks) = (stats.rows(), stats.rows().div_ceil(BLOCK));
        // Runs that mostly have one row would only make reads slow.
        (stats.runs() <= rows / 2).then(|| {
            let firsts = align_up((blocks + 1) * size_of::<u32>());
            let index = align_up(I::bytes(stats.runs(), blocks));
            let values = stats.runs() * stats.lane_bytes();
            size_of::<KeysHeader>() + firsts + index + values + decode_penalty(PENALTY, rows)
        })
    }

    fn encode(stats: &ChunkStats<'_>, _: usize) -> Option<Vec<u64>> {
        let (mut firsts, mut lengths, mut values) = (vec![0u32], Vec::new(), Vec::new());
        for block in stats.offsets().chunks(BLOCK) {
            for (length, value) in runs(block) {
                lengths.push(length);
                values.push(value);
            }
            firsts.push(lengths.len() as u32);
        }
        let header = KeysHeader {
            count: lengths.len() as u32,
            ..Default::default()
        };
        let mut sections = SectionsWriter::new(&header);
        sections.push(firsts.as_bytes());
        I::push(&mut sections, &lengths, &firsts);
        Some(sections.finish(|words| {
            let start = words.len();
            with_lane!(stats.width(), L => {
                let lanes: Vec<L> = values.iter().map(|&value| L::truncate(value)).collect();
                words.resize(start + size_of_val(&lanes[..]).div_ceil(8), 0);
                words[start..].as_mut_bytes()[..size_of_val(&lanes[..])].copy_from_slice(lanes.as_bytes());
            });
        }))
    }

    fn open(width: usize, rows: usize, bytes: &'a [u8]) -> Option<Self> {
        let (header, mut sections) = SectionsReader::new(bytes)?;
        let (count, blocks) = (header.count as usize, rows.div_ceil(BLOCK));
        let lane = with_lane!(width, L => size_of::<L>());
        Some(Self {
            firsts: sections.take((blocks + 1) * size_of::<u32>())?,
            index: I::take(&mut sections, count, blocks)?,
            values: sections.take_last(count.checked_mul(lane)?)?,
        })
    }

    fn shared_bytes(&self) -> &'a [u8] {
        self.firsts
    }

    fn blocks_bytes<L: Lane>(&self, blocks: Range<usize>) -> [&'a [u8]; 2] {
        let runs = self.runs(blocks.clone());
        let values = self.values::<L>().get(runs.clone()).unwrap_or(&[]);
        [self.index.blocks_bytes(blocks, runs), values.as_bytes()]
    }

    #[inline]
    fn unpack<L: Lane>(&self, block: usize, out: &mut [L; BLOCK]) {
        self.map_runs(block, out, |value| value);
    }

    fn get<L: Lane>(&self, row: usize) -> L {
        let (starts, values) = self.block::<L>(row / BLOCK);
        let mut run = [0];
        kernel::runs_of(&starts, &[(row % BLOCK) as u16], &mut run);
        values.get(usize::from(run[0])).copied().unwrap_or_default()
    }

    fn evaluate<L: Lane>(&self, block: usize, predicate: &ChunkPredicate, scratch: &mut [u64]) -> BlockMask {
        let (starts, values) = self.block::<L>(block);
        // A run is compared once, and its bit is spread to all of its rows.
        kernel::spread_bits(&starts, &predicate.matches(Values::Lanes(values), scratch))
    }

    fn read_codes<L: Lane, C: Code>(
        &self,
        block: usize,
        map: &CodeMap<C>,
        _: &mut [u64],
        codes: &mut [C; BLOCK],
    ) {
        self.map_runs::<L, C>(block, codes, |value| map.code(value.widen()));
    }

    /// Decodes the codes of a few rows in two steps: first all runs are located, then their values are read.
    /// Each step fetches what it reads for all rows at once.
    fn read_rows<L: Lane, C: Code>(
        &self,
        reads: ChunkReads<'_>,
        (block, blocks): (usize, usize),
        rows: &[u16],
        map: &CodeMap<C>,
        codes: &mut [C],
    ) -> bool {
        if rows.len() >= blocks * BLOCK_RUN_ROWS {
            return false;
        }
        let block_of = |rows: &[u16]| block + usize::from(rows[0]) / BLOCK;
        reads.fetch(by_block(rows).map(|rows| {
            let block = block_of(rows);
            self.index
                .blocks_bytes(block..block + 1, self.runs(block..block + 1))
        }));
        let (mut runs, mut in_block) = (vec![0; rows.len()], vec![0; rows.len()]);
        let mut done = 0;
        for rows in by_block(rows) {
            let (block, range) = (block_of(rows), done..done + rows.len());
            kernel::runs_of(&self.starts(block), rows, &mut in_block[range.clone()]);
            let first = self.runs(block..block + 1).start;
            for (run, number) in runs[range.clone()].iter_mut().zip(&in_block[range]) {
                *run = first + usize::from(*number);
            }
            done += rows.len();
        }
        // Damaged chunks may name runs that are not there.
        let values = self.values::<L>();
        reads.fetch(
            runs.iter()
                .map(|run| values.get(*run..run + 1).unwrap_or_default().as_bytes()),
        );
        for (code, run) in codes.iter_mut().zip(&runs) {
            *code = map.code(values.get(*run).copied().unwrap_or_default().widen());
        }
        true
    }

    fn read_block_rows<L: Lane, C: Code>(
        &self,
        block: usize,
        rows: &[u16],
        map: &CodeMap<C>,
        codes: &mut [C],
    ) -> bool {
        if rows.len() >= WHOLE_BLOCK_CODES {
            return false;
        }
        let (starts, values) = self.block::<L>(block);
        let runs = &mut [0; WHOLE_BLOCK_CODES][..rows.len()];
        kernel::runs_of(&starts, rows, runs);
        for (code, &run) in codes.iter_mut().zip(&*runs) {
            let value = values.get(usize::from(run)).copied().unwrap_or_default();
            *code = map.code(value.widen());
        }
        true
    }

    fn probe<L: Lane>(&self, block: usize, shift: u32, slots: &Bitset) -> Option<BlockMask> {
        let (starts, values) = self.block::<L>(block);
        let present = kernel::lookup(Values::Lanes(values), shift, slots);
        Some(kernel::spread_bits(&starts, &present))
    }
}
