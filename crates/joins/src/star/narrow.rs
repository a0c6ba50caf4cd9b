//! Probes of a single column of the fact table with codes of at most 32 bits, which are by far the most
//! common ones.
//!
//! While many rows of a block remain, all rows of the block are looked up as they are unpacked, and a bit
//! mask records the result. Few rows are looked up one by one.

use halocline_columns::{
    BLOCK_ROWS, BlockMask, CodeFilter, CodePredicate, CodeReader, Column, Segment, SelectionVector,
};

use std::ops::Range;

use super::dense::DenseKeys;
use super::dimension::{Dimension, KeyLookup};
use super::pipeline::{READABLE, codes_within, integers};
use super::run::Probe;
use super::sparse::HashedKeys;
use super::strings::ABSENT;
use crate::JoinResult;

/// Number of remaining rows of a block from which all of its rows are probed.
const MIN_ROWS_TO_PROBE_ALL: usize = 160;

/// Number of remaining rows of a block from which all of its runs are probed.
const MIN_ROWS_TO_PROBE_RUNS: usize = 32;

/// Number of blocks in the sample that estimates the selectivity of a probe.
const SAMPLE_BLOCKS: usize = 8;

/// The probe of a column in one segment.
pub(super) struct NarrowProbe<'a> {
    keys: KeyReader<'a>,
    column: &'a Column,
    dimension: &'a Dimension,
    /// Offset from a code to its value.
    base: i64,
    /// True if code 0 is NULL.
    has_null: bool,
}

/// The method of looking up keys.
enum KeyReader<'a> {
    /// No lookup: all keys that match the conditions are in the dimension.
    Whole,
    /// By slot; where all rows of a block are probed, first in the [rough](DenseKeys::rough) bits.
    DenseKeys(CodeFilter<'a>, &'a DenseKeys, Option<Box<CodeFilter<'a>>>),
    /// By hash.
    HashedKeys(CodeReader<'a, u32>, &'a HashedKeys),
    /// Of strings, by a table of the numbers of codes.
    Strings(CodeReader<'a, u32>, &'a [u32]),
}

impl<'a> NarrowProbe<'a> {
    /// Creates the probe for a segment and adds the conditions that its bounds imply; `None` if no row can
    /// match.
    ///
    /// # Panics
    /// If it is not a single column with codes of at most 32 bits, of integers or with a `translation`: the
    /// numbers of the strings of codes.
    pub(super) fn for_segment(
        probe: &'a Probe,
        translation: Option<&'a [u32]>,
        segment: &'a Segment,
        conditions: &mut Vec<(usize, CodePredicate)>,
    ) -> JoinResult<Option<Self>> {
        let column = segment.column(probe.columns[0]);
        if let Some(numbers) = translation {
            let is_possible = numbers.iter().any(|number| *number != ABSENT);
            let keys = KeyReader::Strings(column.code_reader()?, numbers);
            return Ok(is_possible.then_some(Self {
                keys,
                column,
                dimension: &probe.dimension,
                base: 0,
                // NULL has the number of absent strings, so it needs no test of its own.
                has_null: false,
            }));
        }
        let (base, has_null) = integers(column).expect(READABLE);
        let keys = match &probe.dimension.keys {
            KeyLookup::DenseKeys(dense) => {
                let bounds = within(dense, column, base);
                if bounds == CodePredicate::Nothing {
                    return Ok(None);
                }
                // If the dimension has all keys of its range and their numbers are not needed, the range
                // replaces the lookup. It does not where NULL is a code: a range of all other codes becomes
                // `Any`.
                let is_whole = dense.present.is_full() && !probe.dimension.has_numbers() && !has_null;
                if is_whole || wraps_into(dense, column, base) {
                    conditions.push((probe.columns[0], bounds));
                }
                let add = base.wrapping_sub(dense.low) as u64;
                if is_whole {
                    KeyReader::Whole
                } else {
                    let rough = dense
                        .rough
                        .as_ref()
                        .map(|rough| column.filter(add, rough).map(Box::new));
                    KeyReader::DenseKeys(column.filter(add, &dense.present)?, dense, rough.transpose()?)
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
        }))
    }

    /// Returns true if the keys of a chunk can be in the dimension, by its zone.
    pub(super) fn may_match(&self, chunk: usize) -> JoinResult<bool> {
        let (low, high) = self.column.zone(chunk)?;
        Ok(match &self.keys {
            KeyReader::DenseKeys(_, dense, _) => {
                let value = |code: u64| i128::from(code) + i128::from(self.base);
                let first = i128::from(dense.low);
                value(high) >= first && value(low) < first + i128::from(dense.present.places())
            }
            KeyReader::Whole | KeyReader::HashedKeys(..) | KeyReader::Strings(..) => {
                self.dimension.rows() > 0
            }
        })
    }

    /// Estimates the share of rows that pass, by a few blocks spread over a non-empty segment.
    pub(super) fn sample(&mut self, segment: &Segment) -> JoinResult<f64> {
        let (size, rows) = (segment.chunk_rows(), segment.rows());
        let (mut selection, mut room) = (SelectionVector::default(), Vec::new());
        let (mut seen, mut kept) = (0, 0);
        for number in 0..SAMPLE_BLOCKS {
            // Blocks are spread over the segment, since neighbouring rows often have similar keys.
            let row = rows / SAMPLE_BLOCKS * number;
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

    /// Returns true if probing all rows is cheaper for blocks with this average number of remaining rows.
    pub(super) fn looks_all_up(&mut self, chunk: usize, left: usize) -> JoinResult<bool> {
        Ok(match &mut self.keys {
            KeyReader::DenseKeys(filter, ..) => {
                left >= MIN_ROWS_TO_PROBE_ALL || left >= MIN_ROWS_TO_PROBE_RUNS && filter.by_runs(chunk)?
            }
            KeyReader::Whole => true,
            KeyReader::HashedKeys(..) | KeyReader::Strings(..) => false,
        })
    }

    /// Returns true if probing all rows yields only candidates.
    pub(super) fn is_rough(&mut self, chunk: usize) -> JoinResult<bool> {
        Ok(match &mut self.keys {
            KeyReader::DenseKeys(.., Some(rough)) => rough.by_rows(chunk)?,
            _ => false,
        })
    }

    /// Announces the blocks that [`keep`](Self::keep) will be called for.
    pub(super) fn reads(&mut self, chunk: usize, blocks: Range<usize>) -> JoinResult<()> {
        match &mut self.keys {
            KeyReader::DenseKeys(filter, ..) => Ok(filter.reads(chunk, blocks)?),
            KeyReader::Whole | KeyReader::HashedKeys(..) | KeyReader::Strings(..) => Ok(()),
        }
    }

    /// Clears the bits of the rows of a block that are not in the dimension, or of most of them if it [is
    /// rough](Self::is_rough).
    ///
    /// # Panics
    /// If it does not [probe all rows](Self::looks_all_up).
    pub(super) fn keep(&mut self, chunk: usize, block: usize, mask: &mut BlockMask) -> JoinResult<()> {
        let is_rough = self.is_rough(chunk)?;
        match &mut self.keys {
            // The condition has left only keys of the dimension.
            KeyReader::Whole => Ok(()),
            KeyReader::DenseKeys(.., Some(rough)) if is_rough => Ok(rough.keep(chunk, block, mask)?),
            KeyReader::DenseKeys(filter, ..) => Ok(filter.keep(chunk, block, mask)?),
            KeyReader::HashedKeys(..) | KeyReader::Strings(..) => {
                panic!("hashed keys and strings are looked up one by one")
            }
        }
    }

    /// Keeps the selected rows, relative to a block, that are in the dimension.
    pub(super) fn pass(
        &mut self,
        chunk: usize,
        block: usize,
        selection: &mut SelectionVector,
        room: &mut Vec<u32>,
    ) -> JoinResult<()> {
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
                    (codes[at] != 0 || !self.has_null) && sparse.number(value).is_some()
                });
            }
            KeyReader::Strings(reader, numbers) => {
                reader.read_rows(chunk, block, selection.rows(), codes)?;
                selection.keep_if(|at| numbers[codes[at] as usize] != ABSENT);
            }
        }
        Ok(())
    }

    /// Replaces `numbers` by those of the keys of rows, relative to a block, that have passed.
    ///
    /// # Panics
    /// If the dimension [has no numbers](Dimension::has_numbers).
    pub(super) fn numbers(
        &mut self,
        (chunk, block): (usize, usize),
        rows: &[u16],
        numbers: &mut Vec<u32>,
    ) -> JoinResult<()> {
        numbers.resize(rows.len(), 0);
        match &mut self.keys {
            KeyReader::Whole => panic!("keys are not looked up"),
            // A code is changed to its slot as it is read.
            KeyReader::DenseKeys(filter, ..) => filter.read_rows(chunk, block, rows, numbers)?,
            KeyReader::HashedKeys(reader, sparse) => {
                reader.read_rows(chunk, block, rows, numbers)?;
                for code in numbers {
                    let value = i64::from(*code).wrapping_add(self.base);
                    *code = sparse.number(value).unwrap_or(0);
                }
            }
            KeyReader::Strings(reader, of_codes) => {
                reader.read_rows(chunk, block, rows, numbers)?;
                for code in numbers {
                    *code = of_codes[*code as usize];
                }
            }
        }
        Ok(())
    }
}

/// Returns the first `len` numbers of a buffer, which grows if necessary.
pub(super) fn in_room<T: Copy + Default>(room: &mut Vec<T>, len: usize) -> &mut [T] {
    if room.len() < len {
        room.resize(len, T::default());
    }
    &mut room[..len]
}

/// Returns the codes of a column between the least and the greatest key of a dimension.
fn within(dense: &DenseKeys, column: &Column, base: i64) -> CodePredicate {
    let high = i128::from(dense.low) + i128::from(dense.present.places()) - 1;
    match i64::try_from(high) {
        Ok(high) => codes_within(dense.low, high, column, base),
        // There is no key.
        Err(_) => CodePredicate::Nothing,
    }
}

/// Returns true if a code outside of a dimension's range may have a place in it when places are counted in 32
/// bits.
fn wraps_into(dense: &DenseKeys, column: &Column, base: i64) -> bool {
    let least = i128::from(base) - i128::from(dense.low);
    let most = least
        + column
            .code_space()
            .map_or(0, |space| i128::from(space.max_code()));
    least < i128::from(dense.present.places()) - (1 << 32) || most >= 1 << 32
}

/// Returns a mask whose first bits are set.
fn first_bits(count: usize) -> BlockMask {
    std::array::from_fn(|word| match count.saturating_sub(word * 64) {
        0 => 0,
        bits @ 1..64 => (1 << bits) - 1,
        _ => u64::MAX,
    })
}
