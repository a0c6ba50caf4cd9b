//! Runs of equal values: what stays the same for several rows, as all lines of an order have one customer.
//!
//! A run ends with its block, and after 256 rows. Sections: the number of the first run of each block and of the end
//! (u32); where runs begin, in one of two ways; the value of each run, in lanes of the chunk's width. Runs begin where their
//! lengths (less one, u8) tell, or, if they are short, where marks are: a bit for each row of a block.

use super::marks::{lengths_of, marks_of};
use super::sections::{SectionsReader, SectionsWriter, typed};
use crate::format::{BLOCK, KeysHeader};
use crate::kernel::{self, Lane, with_lane};
use crate::select::BlockMask;
use std::ops::Range;
use zerocopy::IntoBytes;

/// Rows of a run at most.
pub(crate) const LONGEST: usize = 256;

/// A chunk of runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runs<'a> {
    firsts: &'a [u8],
    starts: Starts<'a>,
    values: &'a [u8],
}

/// Where runs begin.
#[derive(Debug, Clone, Copy)]
enum Starts<'a> {
    Lengths(&'a [u8]),
    Marks(&'a [BlockMask]),
}

impl<'a> Runs<'a> {
    /// The sections of a chunk whose values have this width.
    pub(crate) fn new(width: usize, rows: usize, bytes: &'a [u8], marked: bool) -> Option<Self> {
        let (header, mut sections) = SectionsReader::new(bytes)?;
        let (count, blocks) = (header.count as usize, rows.div_ceil(BLOCK));
        let lane = with_lane!(width, L => size_of::<L>());
        Some(Self {
            firsts: sections.take((blocks + 1) * size_of::<u32>())?,
            starts: match marked {
                true => Starts::Marks(typed(sections.take(blocks * size_of::<BlockMask>())?)),
                false => Starts::Lengths(sections.take(count)?),
            },
            values: sections.take_last(count.checked_mul(lane)?)?,
        })
    }

    /// The rows of a block that begin a run, and the values of its runs, 1024 at most. Damaged ones may be fewer or more than the marks.
    #[inline]
    pub(crate) fn of_block<L: Lane>(&self, block: usize) -> (BlockMask, &'a [L]) {
        let values = self.values::<L>().get(self.runs(block..block + 1));
        let values = values.unwrap_or(&[]);
        (self.marks(block), &values[..values.len().min(BLOCK)])
    }

    /// The numbers of the runs of blocks.
    #[inline]
    pub(crate) fn runs(&self, blocks: Range<usize>) -> Range<usize> {
        let firsts = typed::<u32>(self.firsts);
        firsts[blocks.start] as usize..firsts[blocks.end] as usize
    }

    /// The rows of a block that begin a run.
    #[inline]
    pub(crate) fn marks(&self, block: usize) -> BlockMask {
        match self.starts {
            Starts::Lengths(lengths) => marks_of(lengths.get(self.runs(block..block + 1)).unwrap_or(&[])),
            Starts::Marks(marks) => marks[block],
        }
    }

    /// The bytes that tell where the runs of blocks begin.
    pub(crate) fn starts(&self, blocks: Range<usize>) -> &'a [u8] {
        match self.starts {
            Starts::Lengths(lengths) => lengths.get(self.runs(blocks)).unwrap_or(&[]),
            Starts::Marks(marks) => marks[blocks].as_bytes(),
        }
    }

    /// The values of all runs.
    #[inline]
    pub(crate) fn values<L: Lane>(&self) -> &'a [L] {
        typed(self.values)
    }

    /// The bytes of the numbers of first runs.
    pub(crate) fn firsts(&self) -> &'a [u8] {
        self.firsts
    }

    /// What is read of blocks: where their runs begin, and their values.
    pub(crate) fn blocks<L: Lane>(&self, blocks: Range<usize>) -> [&'a [u8]; 2] {
        let values = self.values::<L>().get(self.runs(blocks.clone()));
        [self.starts(blocks), values.unwrap_or(&[]).as_bytes()]
    }

    /// The values of a block, as `map` makes them something else; what damaged runs leave over becomes the default.
    pub(crate) fn read<L: Lane, T: Copy + Default>(
        &self,
        block: usize,
        out: &mut [T; BLOCK],
        map: impl Fn(L) -> T,
    ) {
        let (marks, values) = self.of_block::<L>(block);
        spread(lengths_of(&marks), values, out, map);
    }

    /// The value of a row.
    pub(crate) fn get<L: Lane>(&self, row: usize) -> L {
        let (marks, values) = self.of_block::<L>(row / BLOCK);
        let mut run = [0];
        kernel::runs_of(&marks, &[(row % BLOCK) as u16], &mut run);
        values.get(usize::from(run[0])).copied().unwrap_or_default()
    }
}

/// Writes what `map` makes of each run's value to each of its rows; what damaged runs leave over becomes the default.
#[inline(always)]
fn spread<V: Copy, T: Copy + Default>(
    lengths: impl Iterator<Item = u8>,
    values: &[V],
    out: &mut [T; BLOCK],
    map: impl Fn(V) -> T,
) {
    /// Most runs are short: so many rows are written whatever the length, and the next run writes over them.
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

/// Lengths (less one) and values of the runs of a block.
fn runs(block: &[u64]) -> impl Iterator<Item = (u8, u64)> {
    let equal = block.chunk_by(|a, b| a == b);
    equal.flat_map(|run| run.chunks(LONGEST).map(|run| ((run.len() - 1) as u8, run[0])))
}

/// The words of a chunk of `values`, with marks or with lengths.
pub(crate) fn encode(width: usize, values: &[u64], marked: bool) -> Vec<u64> {
    let (mut firsts, mut lengths, mut of_runs) = (vec![0u32], Vec::new(), Vec::new());
    let mut marks = Vec::new();
    for block in values.chunks(BLOCK) {
        let first = lengths.len();
        for (length, value) in runs(block) {
            lengths.push(length);
            of_runs.push(value);
        }
        firsts.push(lengths.len() as u32);
        marks.push(marks_of(&lengths[first..]));
    }
    let header = KeysHeader {
        count: lengths.len() as u32,
        ..Default::default()
    };
    let mut sections = SectionsWriter::new(&header);
    sections.push(firsts.as_bytes());
    sections.push(if marked { marks.as_bytes() } else { &lengths });
    sections.finish(|words| {
        let start = words.len();
        with_lane!(width, L => {
            let lanes: Vec<L> = of_runs.iter().map(|&value| L::truncate(value)).collect();
            words.resize(start + size_of_val(&lanes[..]).div_ceil(8), 0);
            words[start..].as_mut_bytes()[..size_of_val(&lanes[..])].copy_from_slice(lanes.as_bytes());
        });
    })
}
