//! Probes of a single column of the fact table whose codes have 32 bits at most: almost all of them.
//!
//! While many rows of a block are left, all of them are looked up as they are unpacked, and a bit mask says which stay. PendingSelection rows
//! are looked up one by one.

use halocline_columns::{
    BLOCK_ROWS, BlockMask, CodeFilter, CodePredicate, CodeReader, Column, Segment, Selection,
};

use std::ops::Range;

use super::dense::DenseKeys;
use super::dimension::{Dimension, KeyLookup};
use super::pipeline::{READABLE, codes_within, integers};
use super::run::Probe;
use super::sparse::HashedKeys;
use crate::Result;

/// From so many rows of a block on, all of them are probed.
const MOST: usize = 160;

/// From so many rows of a block on, all of its runs are.
const MOST_BY_RUNS: usize = 32;

/// Blocks that are looked at to know what a probe keeps.
const SAMPLE: usize = 8;

/// A column that is probed, in one segment.
pub(super) struct NarrowProbe<'a> {
    keys: KeyReader<'a>,
    column: &'a Column,
    dimension: &'a Dimension,
    /// What to add to a code to get its value.
    base: i64,
    /// Whether code 0 is NULL.
    has_null: bool,
    /// What a group of this dimension counts for in the number of the whole.
    stride: u32,
}

/// How keys are looked up.
enum KeyReader<'a> {
    /// Not at all: all that its conditions leave are there.
    Whole,
    /// By place; while all rows are, first by [rough](DenseKeys::rough) ones.
    DenseKeys(CodeFilter<'a>, &'a DenseKeys, Option<Box<CodeFilter<'a>>>),
    /// By value.
    HashedKeys(CodeReader<'a, u32>, &'a HashedKeys),
}

impl<'a> NarrowProbe<'a> {
    /// In a segment, with the conditions that its bounds make; `None` if no row can match.
    ///
    /// # Panics
    /// If it is not of one column of whole numbers, with codes of 32 bits at most.
    pub(super) fn of(
        probe: &'a Probe,
        stride: u32,
        segment: &'a Segment,
        conditions: &mut Vec<(usize, CodePredicate)>,
    ) -> Result<Option<Self>> {
        let column = segment.column(probe.columns[0]);
        let (base, has_null) = integers(column).expect(READABLE);
        let keys = match &probe.dimension.keys {
            KeyLookup::DenseKeys(dense) => {
                let bounds = within(dense, column, base);
                if bounds == CodePredicate::Nothing {
                    return Ok(None);
                }
                let is_whole = dense.present.is_full() && probe.dimension.groups() <= 1 && !has_null;
                if is_whole || wraps_into(dense, column, base) {
                    conditions.push((probe.columns[0], bounds));
                }
                let add = base.wrapping_sub(dense.low) as u64;
                match is_whole {
                    true => KeyReader::Whole,
                    false => {
                        let rough = dense
                            .rough
                            .as_ref()
                            .map(|rough| column.filter(add, rough).map(Box::new));
                        KeyReader::DenseKeys(column.filter(add, &dense.present)?, dense, rough.transpose()?)
                    }
                }
            }
            KeyLookup::HashedKeys(sparse) => KeyReader::HashedKeys(column.code_reader()?, sparse),
        };
        Ok(Some(Self {
            keys,
            column,
            dimension: &probe.dimension,
            base,
            has_null,
            stride,
        }))
    }

    /// Whether a row of a chunk can be in the dimension.
    pub(super) fn may_match(&self, chunk: usize) -> Result<bool> {
        let (low, high) = self.column.zone(chunk)?;
        Ok(match &self.keys {
            KeyReader::DenseKeys(_, dense, _) => {
                let value = |code: u64| i128::from(code) + i128::from(self.base);
                let first = i128::from(dense.low);
                value(high) >= first && value(low) < first + i128::from(dense.present.places())
            }
            KeyReader::Whole | KeyReader::HashedKeys(..) => self.dimension.rows() > 0,
        })
    }

    /// The share of rows that it keeps, in a few blocks all over a segment that has rows.
    pub(super) fn sample(&mut self, segment: &Segment) -> Result<f64> {
        let (size, rows) = (segment.chunk_rows(), segment.rows());
        let (mut selection, mut room) = (Selection::default(), Vec::new());
        let (mut seen, mut kept) = (0, 0);
        for number in 0..SAMPLE {
            let row = rows / SAMPLE * number;
            let (chunk, block) = (row / size, row % size / BLOCK_ROWS);
            let left = size.min(rows - chunk * size) - block * BLOCK_ROWS;
            selection.clear();
            selection.push(0, &first_bits(left.min(BLOCK_ROWS)));
            seen += selection.len();
            self.pass(chunk, block, &mut selection, &mut room)?;
            kept += selection.len();
        }
        Ok(kept as f64 / seen.max(1) as f64)
    }

    /// Whether it pays to look up all rows of blocks of which so many are left, on average.
    pub(super) fn looks_all_up(&mut self, chunk: usize, left: usize) -> Result<bool> {
        Ok(match &mut self.keys {
            KeyReader::DenseKeys(filter, ..) => {
                left >= MOST || left >= MOST_BY_RUNS && filter.by_runs(chunk)?
            }
            KeyReader::Whole => true,
            KeyReader::HashedKeys(..) => false,
        })
    }

    /// Whether looking all up tells only which rows may be there.
    pub(super) fn is_rough(&mut self, chunk: usize) -> Result<bool> {
        Ok(match &mut self.keys {
            KeyReader::DenseKeys(.., Some(rough)) => rough.by_rows(chunk)?,
            _ => false,
        })
    }

    /// Says which blocks [`keep`](Self::keep) is about to be asked for.
    pub(super) fn reads(&mut self, chunk: usize, blocks: Range<usize>) -> Result<()> {
        match &mut self.keys {
            KeyReader::DenseKeys(filter, ..) => Ok(filter.reads(chunk, blocks)?),
            KeyReader::Whole | KeyReader::HashedKeys(..) => Ok(()),
        }
    }

    /// Clears the bits of a block's rows that are not in the dimension, or of most of them if it [is rough](Self::is_rough).
    ///
    /// # Panics
    /// If it does not [look all up](Self::looks_all_up).
    pub(super) fn keep(&mut self, chunk: usize, block: usize, mask: &mut BlockMask) -> Result<()> {
        let is_rough = self.is_rough(chunk)?;
        match &mut self.keys {
            KeyReader::Whole => Ok(()),
            KeyReader::DenseKeys(.., Some(rough)) if is_rough => Ok(rough.keep(chunk, block, mask)?),
            KeyReader::DenseKeys(filter, ..) => Ok(filter.keep(chunk, block, mask)?),
            KeyReader::HashedKeys(..) => panic!("hashed keys are looked up one by one"),
        }
    }

    /// Keeps those of the selected rows, from a block on, that are in the dimension.
    pub(super) fn pass(
        &mut self,
        chunk: usize,
        block: usize,
        selection: &mut Selection,
        room: &mut Vec<u32>,
    ) -> Result<()> {
        let codes = in_room(room, selection.len());
        match &mut self.keys {
            KeyReader::Whole => {}
            KeyReader::DenseKeys(filter, dense, _) => {
                filter.read_rows(chunk, block, selection.rows(), codes)?;
                selection.keep(codes, &dense.present);
            }
            KeyReader::HashedKeys(reader, sparse) => {
                reader.read_rows(chunk, block, selection.rows(), codes)?;
                selection.keep_if(|at| {
                    let value = i64::from(codes[at]).wrapping_add(self.base);
                    (codes[at] != 0 || !self.has_null) && sparse.group(value).is_some()
                });
            }
        }
        Ok(())
    }

    /// Adds what the dimension's groups count for to the numbers of rows, from a block on, that have passed.
    pub(super) fn add_groups(
        &mut self,
        chunk: usize,
        block: usize,
        rows: &[u16],
        groups: &mut [u32],
        room: &mut Vec<u32>,
    ) -> Result<()> {
        if self.dimension.groups() <= 1 {
            return Ok(());
        }
        let codes = in_room(room, rows.len());
        match &mut self.keys {
            KeyReader::Whole => {}
            KeyReader::DenseKeys(filter, dense, _) => {
                filter.read_rows(chunk, block, rows, codes)?;
                dense.group_of.add(codes, self.stride, groups);
            }
            KeyReader::HashedKeys(reader, sparse) => {
                reader.read_rows(chunk, block, rows, codes)?;
                for (code, group) in codes.iter().zip(groups) {
                    let value = i64::from(*code).wrapping_add(self.base);
                    *group += sparse.group(value).unwrap_or(0) * self.stride;
                }
            }
        }
        Ok(())
    }
}

/// Room for so many numbers.
pub(super) fn in_room<T: Copy + Default>(room: &mut Vec<T>, len: usize) -> &mut [T] {
    if room.len() < len {
        room.resize(len, T::default());
    }
    &mut room[..len]
}

/// The codes of a column between a dimension's least and greatest key.
fn within(dense: &DenseKeys, column: &Column, base: i64) -> CodePredicate {
    let high = i128::from(dense.low) + i128::from(dense.present.places()) - 1;
    match i64::try_from(high) {
        Ok(high) => codes_within(dense.low, high, column, base),
        // There is no key.
        Err(_) => CodePredicate::Nothing,
    }
}

/// Whether a code outside of a dimension's range may have a place in it when places are counted in 32 bits.
fn wraps_into(dense: &DenseKeys, column: &Column, base: i64) -> bool {
    let least = i128::from(base) - i128::from(dense.low);
    let most = least
        + column
            .code_space()
            .map_or(0, |space| i128::from(space.max_code()));
    least < i128::from(dense.present.places()) - (1 << 32) || most >= 1 << 32
}

/// A mask whose first bits are set.
fn first_bits(count: usize) -> BlockMask {
    std::array::from_fn(|word| match count.saturating_sub(word * 64) {
        0 => 0,
        bits @ 1..64 => (1 << bits) - 1,
        _ => u64::MAX,
    })
}
