//! The input of a phase: a source, a part of it, or spilled rows.

use arrow_array::{Array, ArrayRef, RecordBatch};

use super::hash::Level;
use super::join::OUTPUT_ROWS;
use super::key::{KeyBatch, plain_array};
use super::layout::fixed_bits;
use super::plan::Side;
use super::rows::RowBlock;
use super::source::JoinSource;
use super::spill::SpilledBlock;
use crate::JoinResult;

/// Bytes of a batch from which fewer rows are processed at a time.
const LARGE_BATCH: usize = 256 << 20;

/// Rows of one side, at most [`OUTPUT_ROWS`].
#[derive(Debug, Default)]
pub(super) struct SideBatch {
    pub(super) keys: KeyBatch,
    /// The payload columns of the side.
    pub(super) columns: Vec<ArrayRef>,
    /// Rows that take part and whose keys are not NULL.
    pub(super) live: Vec<u32>,
    /// Rows that take part with a NULL key.
    pub(super) null: Vec<u32>,
}

impl SideBatch {
    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.keys.hashes.len()
    }
}

/// Rows as they are read.
pub(super) enum InputRows<'r> {
    Batch(&'r SideBatch),
    Block(&'r mut RowBlock),
}

/// Some of `of` parts of the rows, by the hashes of their keys; rows with a NULL key belong to the first
/// part.
#[derive(Debug, Clone, Copy)]
pub(super) struct HashParts {
    pub(super) first: usize,
    pub(super) end: usize,
    pub(super) of: usize,
}

impl HashParts {
    fn contain(self, hash: u64) -> bool {
        (self.first..self.end).contains(&Level::TOP.part(hash, self.of))
    }
}

/// The rows of one side.
#[derive(Clone, Copy)]
pub(super) enum SideInput<'i, 's> {
    Source(&'i dyn JoinSource, Option<HashParts>),
    Blocks(&'i [SpilledBlock<'s>]),
}

impl SideInput<'_, '_> {
    pub(super) fn morsels(&self) -> usize {
        match self {
            SideInput::Source(source, _) => source.morsels(),
            SideInput::Blocks(blocks) => blocks.len(),
        }
    }

    /// Returns the estimated number of rows.
    pub(super) fn rows_estimate(&self) -> Option<u64> {
        match self {
            SideInput::Source(source, None) => source.rows_estimate(),
            SideInput::Source(source, Some(parts)) => {
                let rows = u128::from(source.rows_estimate()?);
                let share = rows * (parts.end - parts.first) as u128 / parts.of.max(1) as u128;
                Some(share as u64 + 1)
            }
            SideInput::Blocks(blocks) => Some(blocks.iter().map(|block| block.rows() as u64).sum()),
        }
    }

    /// Calls `each` with the rows of a morsel.
    ///
    /// # Errors
    /// Those of `each`, of the source and of the spill space.
    pub(super) fn read(
        &self,
        side: &Side,
        morsel: usize,
        each: &mut dyn FnMut(InputRows<'_>) -> JoinResult<()>,
    ) -> JoinResult<()> {
        match self {
            SideInput::Source(source, parts) => source.read(morsel, &mut |batch| {
                let mut start = 0;
                let step = rows_at_a_time(&batch);
                while start < batch.num_rows() {
                    let len = step.min(batch.num_rows() - start);
                    let batch = side_batch(side, &batch.slice(start, len), *parts)?;
                    each(InputRows::Batch(&batch))?;
                    start += len;
                }
                Ok(())
            }),
            SideInput::Blocks(blocks) => {
                let (mut scratch, mut block) = (Vec::new(), RowBlock::default());
                blocks[morsel].read(&side.layout, &mut scratch, &mut block)?;
                each(InputRows::Block(&mut block))
            }
        }
    }

    /// Calls `each` with the rows of a morsel as batches.
    ///
    /// # Errors
    /// As [`read`](SideInput::read).
    pub(super) fn read_batches(
        &self,
        side: &Side,
        morsel: usize,
        each: &mut dyn FnMut(&SideBatch) -> JoinResult<()>,
    ) -> JoinResult<()> {
        self.read(side, morsel, &mut |rows| match rows {
            InputRows::Batch(batch) => each(batch),
            InputRows::Block(block) => {
                let rows = block.hashes.len() as u32;
                let (keys, columns) = side.layout.decode_block(std::mem::take(block))?;
                each(&SideBatch {
                    keys,
                    columns,
                    live: (0..rows).collect(),
                    null: Vec::new(),
                })
            }
        })
    }
}

/// Returns the number of rows to process at a time, fewer if they are very long.
fn rows_at_a_time(batch: &RecordBatch) -> usize {
    let rows = batch.num_rows().max(1);
    if rows <= 1 {
        return 1;
    }
    let long = batch
        .columns()
        .iter()
        .filter(|column| fixed_bits(column.data_type()).is_none());
    let bytes: usize = long
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0))
        .sum();
    let fitting = rows as u128 * LARGE_BATCH as u128 / bytes.max(1) as u128;
    usize::try_from(fitting)
        .unwrap_or(OUTPUT_ROWS)
        .clamp(1, OUTPUT_ROWS)
}

fn side_batch(side: &Side, batch: &RecordBatch, parts: Option<HashParts>) -> JoinResult<SideBatch> {
    let keys = side.keys.encode(batch)?;
    let columns = side
        .payload
        .iter()
        .map(|column| plain_array(batch.column(*column)));
    let columns = columns.collect::<JoinResult<_>>()?;
    let rows = 0..batch.num_rows() as u32;
    let (mut live, mut null) = (Vec::new(), Vec::new());
    let belongs = |row: u32| parts.is_none_or(|parts| parts.contain(keys.hashes[row as usize]));
    match &keys.nulls {
        None if parts.is_none() => live.extend(rows),
        None => live.extend(rows.filter(|row| belongs(*row))),
        Some(nulls) => {
            live.extend(
                rows.clone()
                    .filter(|row| nulls.is_valid(*row as usize) && belongs(*row)),
            );
            if parts.is_none_or(|parts| parts.first == 0) {
                null.extend(rows.filter(|row| nulls.is_null(*row as usize)));
            }
        }
    }
    Ok(SideBatch {
        keys,
        columns,
        live,
        null,
    })
}
