//! Runs of equal values: what stays the same for several rows, as all lines of an order have one customer.
//!
//! A run ends with its block, and after 256 rows. Sections: the number of the first run of each block and of the end
//! (u32); the length of each run less one (u8); the value of each run, in lanes of the chunk's width.

use super::sections::{SectionsReader, SectionsWriter, typed};
use crate::format::{BLOCK, KeysHeader};
use crate::kernel::{Lane, with_lane};
use zerocopy::IntoBytes;

/// Rows of a run at most.
pub(crate) const LONGEST: usize = 256;

/// A chunk of runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runs<'a> {
    firsts: &'a [u8],
    lengths: &'a [u8],
    values: &'a [u8],
}

impl<'a> Runs<'a> {
    /// The sections of a chunk whose values have this width.
    pub(crate) fn new(width: usize, rows: usize, bytes: &'a [u8]) -> Option<Self> {
        let (header, mut sections) = SectionsReader::new(bytes)?;
        let count = header.count as usize;
        let lane = with_lane!(width, L => size_of::<L>());
        Some(Self {
            firsts: sections.take((rows.div_ceil(BLOCK) + 1) * size_of::<u32>())?,
            lengths: sections.take(count)?,
            values: sections.take_last(count.checked_mul(lane)?)?,
        })
    }

    /// Lengths (less one) and values of the runs of a block; damaged ones may have more rows than a block, or fewer.
    pub(crate) fn of_block<L: Lane>(&self, block: usize) -> (&'a [u8], &'a [L]) {
        let firsts = typed::<u32>(self.firsts);
        let range = firsts[block] as usize..firsts[block + 1] as usize;
        let lengths = self.lengths.get(range.clone()).unwrap_or(&[]);
        (lengths, typed::<L>(self.values).get(range).unwrap_or(&[]))
    }

    /// The values of a block.
    pub(crate) fn read<L: Lane>(&self, block: usize, out: &mut [L; BLOCK]) {
        let (lengths, values) = self.of_block(block);
        spread(lengths, values, out, |value| value);
    }

    /// The value of a row.
    pub(crate) fn get<L: Lane>(&self, row: usize) -> L {
        let (lengths, values) = self.of_block(row / BLOCK);
        let mut left = row % BLOCK;
        for (&length, &value) in lengths.iter().zip(values) {
            let length = usize::from(length) + 1;
            if left < length {
                return value;
            }
            left -= length;
        }
        L::default()
    }
}

/// Writes what `map` makes of each run's value to each of its rows; what damaged runs leave over becomes the default.
#[inline(always)]
pub(crate) fn spread<V: Copy, T: Copy + Default>(
    lengths: &[u8],
    values: &[V],
    out: &mut [T; BLOCK],
    map: impl Fn(V) -> T,
) {
    /// Most runs are short: so many rows are written whatever the length, and the next run writes over them.
    const AT_ONCE: usize = 8;
    let mut at = 0;
    for (&length, &value) in lengths.iter().zip(values) {
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

/// The words of a chunk of `values`.
pub(crate) fn encode(width: usize, values: &[u64]) -> Vec<u64> {
    let (mut firsts, mut lengths, mut of_runs) = (vec![0u32], Vec::new(), Vec::new());
    for block in values.chunks(BLOCK) {
        for (length, value) in runs(block) {
            lengths.push(length);
            of_runs.push(value);
        }
        firsts.push(lengths.len() as u32);
    }
    let header = KeysHeader {
        count: lengths.len() as u32,
        ..Default::default()
    };
    let mut sections = SectionsWriter::new(&header);
    sections.push(firsts.as_bytes());
    sections.push(&lengths);
    sections.finish(|words| {
        let start = words.len();
        with_lane!(width, L => {
            let lanes: Vec<L> = of_runs.iter().map(|&value| L::truncate(value)).collect();
            words.resize(start + size_of_val(&lanes[..]).div_ceil(8), 0);
            words[start..].as_mut_bytes()[..size_of_val(&lanes[..])].copy_from_slice(lanes.as_bytes());
        });
    })
}
