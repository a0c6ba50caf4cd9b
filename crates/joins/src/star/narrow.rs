//! Probes of a single column of the fact table whose codes have 32 bits at most: almost all of them.
//!
//! While most rows of a block are left, all of them are looked up, eight at a time, and a bit mask says which stay; a
//! column that is stored as runs of equal keys is looked up once for each run. Few rows are looked up one by one.

use halocline_columns::{BLOCK_ROWS, BlockMask, CodePredicate, CodeReader, Column, Segment};

use super::dimension::{Dense, Dimension, Keys};
use super::pipeline::{READABLE, Selection, codes_within, integers};
use super::run::Probe;
use crate::Result;

/// From so many rows of a block on, all of them are probed.
const MOST: usize = 512;

/// From so many rows of a block on, all of its runs are.
const MOST_BY_RUNS: usize = 128;

/// Blocks that are looked at to know what a probe keeps.
const SAMPLE: usize = 8;

/// A column that is probed, in one segment.
pub(super) struct NarrowProbe<'a> {
    reader: CodeReader<'a, u32>,
    column: &'a Column,
    dimension: &'a Dimension,
    /// What to add to a code to get its value.
    base: i64,
    /// Whether code 0 is NULL.
    has_null: bool,
    /// What a group of this dimension counts for in the number of the whole.
    stride: u32,
    /// Of the rows in the selection, by position in the block, or of the block's runs: places in a dense dimension, codes
    /// for a sparse one.
    codes: Box<[u32; BLOCK_ROWS]>,
    /// Whether `codes` are those of runs.
    by_runs: bool,
    /// Codes of the rows in the selection, in their order.
    few: Box<[u32; BLOCK_ROWS]>,
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
        let reader = match &probe.dimension.keys {
            Keys::Dense(dense) => {
                match within(dense, column, base) {
                    CodePredicate::Nothing => return Ok(None),
                    CodePredicate::Any => {}
                    bounds => conditions.push((probe.columns[0], bounds)),
                }
                // Codes in range do not wrap; what becomes of others, conditions have left out.
                column.place_reader(base.wrapping_sub(dense.low) as u64, dense.present.places())?
            }
            Keys::Sparse(_) => column.code_reader()?,
        };
        Ok(Some(Self {
            reader,
            column,
            dimension: &probe.dimension,
            base,
            has_null,
            stride,
            codes: Box::new([0; BLOCK_ROWS]),
            by_runs: false,
            few: Box::new([0; BLOCK_ROWS]),
        }))
    }

    /// Whether a row of a chunk can be in the dimension.
    pub(super) fn may_match(&self, chunk: usize) -> Result<bool> {
        let (low, high) = self.column.zone(chunk)?;
        Ok(match &self.dimension.keys {
            Keys::Dense(dense) => {
                let value = |code: u64| i128::from(code) + i128::from(self.base);
                let first = i128::from(dense.low);
                value(high) >= first && value(low) < first + i128::from(dense.present.places())
            }
            Keys::Sparse(_) => self.dimension.rows() > 0,
        })
    }

    /// The share of rows that it keeps, in a few blocks all over a segment that has rows.
    pub(super) fn sample(&mut self, segment: &Segment) -> Result<f64> {
        let (size, rows) = (segment.chunk_rows(), segment.rows());
        let mut selection = Selection::default();
        let (mut seen, mut kept) = (0, 0);
        for number in 0..SAMPLE {
            let row = rows / SAMPLE * number;
            let (chunk, block) = (row / size, row % size / BLOCK_ROWS);
            let left = size.min(rows - chunk * size) - block * BLOCK_ROWS;
            selection.take(&first_bits(left.min(BLOCK_ROWS)));
            seen += selection.len;
            self.pass(chunk, block, &mut selection)?;
            kept += selection.len;
        }
        Ok(kept as f64 / seen.max(1) as f64)
    }

    /// Clears the bits of a block's rows that are not in the dimension, if it pays to look all of them up; `left` are set.
    pub(super) fn pass_all(
        &mut self,
        chunk: usize,
        block: usize,
        left: usize,
        mask: &mut BlockMask,
    ) -> Result<bool> {
        let Keys::Dense(dense) = &self.dimension.keys else {
            return Ok(false);
        };
        self.by_runs = false;
        if left >= MOST_BY_RUNS
            && let Some(runs) = self.reader.read_runs(chunk, block, &mut self.codes)?
        {
            self.by_runs = true;
            let mut kept = first_bits(runs);
            dense.present.keep(&self.codes, &mut kept);
            let rows = self.reader.rows_of_runs(&kept);
            mask.iter_mut().zip(rows).for_each(|(mask, rows)| *mask &= rows);
            return Ok(true);
        }
        if left < MOST {
            return Ok(false);
        }
        self.reader.read(chunk, block, &mut self.codes)?;
        dense.present.keep(&self.codes, mask);
        Ok(true)
    }

    /// Keeps those of the selected rows that are in the dimension. No branch depends on whether one is.
    pub(super) fn pass(&mut self, chunk: usize, block: usize, selection: &mut Selection) -> Result<()> {
        self.by_runs = false;
        let few = &mut self.few[..selection.len];
        self.reader
            .read_rows(chunk, block, &selection.rows[..selection.len], few)?;
        let codes = &mut self.codes;
        let mut kept = 0;
        let mut pass = |at: usize, code: u32, keep: usize| {
            let row = selection.rows[at];
            codes[usize::from(row) % BLOCK_ROWS] = code;
            selection.rows[kept] = row;
            kept += keep;
        };
        match &self.dimension.keys {
            Keys::Dense(dense) => {
                for (at, place) in few.iter().enumerate() {
                    pass(at, *place, dense.present.has(*place));
                }
            }
            Keys::Sparse(sparse) => {
                for (at, code) in few.iter().enumerate() {
                    let value = i64::from(*code).wrapping_add(self.base);
                    let found = (*code != 0 || !self.has_null) && sparse.group(value).is_some();
                    pass(at, *code, usize::from(found));
                }
            }
        }
        selection.len = kept;
        Ok(())
    }

    /// Adds what the dimension's groups count for; the rows have passed.
    pub(super) fn add_groups(
        &mut self,
        chunk: usize,
        block: usize,
        rows: &[u16],
        groups: &mut [u32],
    ) -> Result<()> {
        if self.dimension.groups() <= 1 {
            return Ok(());
        }
        if self.by_runs {
            let few = &mut self.few[..rows.len()];
            self.reader.read_rows(chunk, block, rows, few)?;
            for (row, code) in rows.iter().zip(few) {
                self.codes[usize::from(*row) % BLOCK_ROWS] = *code;
            }
        }
        let codes = rows.iter().map(|row| self.codes[usize::from(*row) % BLOCK_ROWS]);
        match &self.dimension.keys {
            Keys::Dense(dense) => {
                for (place, group) in codes.zip(groups) {
                    *group += dense.group_of[place as usize] * self.stride;
                }
            }
            Keys::Sparse(sparse) => {
                for (code, group) in codes.zip(groups) {
                    let value = i64::from(code).wrapping_add(self.base);
                    *group += sparse.group(value).unwrap_or(0) * self.stride;
                }
            }
        }
        Ok(())
    }
}

/// The codes of a column between a dimension's least and greatest key.
fn within(dense: &Dense, column: &Column, base: i64) -> CodePredicate {
    let high = i128::from(dense.low) + i128::from(dense.present.places()) - 1;
    match i64::try_from(high) {
        Ok(high) => codes_within(dense.low, high, column, base),
        // There is no key.
        Err(_) => CodePredicate::Nothing,
    }
}

/// A mask whose first bits are set.
fn first_bits(count: usize) -> BlockMask {
    std::array::from_fn(|word| match count.saturating_sub(word * 64) {
        0 => 0,
        bits @ 1..64 => (1 << bits) - 1,
        _ => u64::MAX,
    })
}
