//! The rows that a join returns, as batches.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_select::take::take;

use super::input::SideBatch;
use super::join::OUTPUT_ROWS;
use super::kind::JoinKind;
use super::layout::Span;
use super::plan::{EquiPlan, Side};
use super::table::JoinTable;
use crate::JoinResult;

/// Bytes of variable-length values in a batch from which it gets fewer rows: offsets of strings have 31 bits.
pub(super) const MAX_BYTES: usize = 1 << 30;

/// A set of rows of a batch.
#[derive(Debug, Default, Clone)]
pub(super) struct RowBits(Vec<u64>);

impl RowBits {
    /// Makes the set empty, with room for `rows` rows.
    pub(super) fn reset(&mut self, rows: usize) {
        self.0.clear();
        self.0.resize(rows.div_ceil(64), 0);
    }

    #[inline(always)]
    pub(super) fn set(&mut self, row: u32) {
        self.0[row as usize / 64] |= 1 << (row % 64);
    }

    #[inline(always)]
    pub(super) fn get(&self, row: u32) -> bool {
        self.0[row as usize / 64] & 1 << (row % 64) != 0
    }

    pub(super) fn words(&mut self) -> &mut [u64] {
        &mut self.0
    }
}

/// Returns some rows of arrays; the arrays themselves if these are all of them in order.
pub(super) fn take_rows(arrays: &[ArrayRef], positions: &[usize], rows: &[u32]) -> JoinResult<Vec<ArrayRef>> {
    let len = positions.first().map_or(0, |position| arrays[*position].len());
    if rows.len() == len && rows.iter().zip(0..).all(|(row, number)| *row == number) {
        return Ok(positions
            .iter()
            .map(|position| arrays[*position].clone())
            .collect());
    }
    let rows = UInt32Array::from(rows.to_vec());
    let taken = positions
        .iter()
        .map(|position| take(&arrays[*position], &rows, None));
    Ok(taken.collect::<Result<_, _>>()?)
}

/// Rows of a side in their layout.
pub(super) struct EncodedRows<'r> {
    pub(super) words: &'r [u64],
    /// Returns the bytes of a span of a row.
    pub(super) bytes_of: &'r dyn Fn(usize, Span) -> &'r [u8],
}

impl EncodedRows<'_> {
    /// Returns some columns.
    pub(super) fn columns(&self, side: &Side, positions: &[usize]) -> JoinResult<Vec<ArrayRef>> {
        let decode = |position: &usize| side.layout.decode(*position, self.words, self.bytes_of);
        positions.iter().map(decode).collect()
    }
}

impl EquiPlan<'_> {
    /// Passes rows to the sink.
    ///
    /// # Errors
    /// Those of the sink.
    pub(super) fn send(&self, columns: Vec<ArrayRef>, rows: usize) -> JoinResult<()> {
        if rows == 0 {
            return Ok(());
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        (self.sink)(RecordBatch::try_new_with_options(
            self.schema.clone(),
            columns,
            &options,
        )?)
    }

    fn nulls(side: &Side, rows: usize) -> impl Iterator<Item = ArrayRef> + '_ {
        let types = side
            .output
            .iter()
            .map(|position| side.fields[*position].data_type());
        types.map(move |data_type| new_null_array(data_type, rows))
    }

    fn mark(rows: usize, mark: impl Fn(usize) -> bool) -> ArrayRef {
        let marks = BooleanBuffer::collect_bool(rows, mark);
        Arc::new(BooleanArray::new(marks, None))
    }

    /// Returns probe rows of a batch all of whose partners are known.
    ///
    /// # Errors
    /// [`JoinError::Arrow`](crate::JoinError::Arrow), those of the sink.
    pub(super) fn emit_probe(&self, batch: &SideBatch, decided: &[u32], matched: &RowBits) -> JoinResult<()> {
        let wants = self.kind() == JoinKind::ProbeSemi;
        let rows: Vec<u32> = match self.kind() {
            JoinKind::ProbeMark => decided.to_vec(),
            _ => decided
                .iter()
                .copied()
                .filter(|row| matched.get(*row) == wants)
                .collect(),
        };
        if rows.is_empty() {
            return Ok(());
        }
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        if self.kind().returns_pairs() {
            columns.extend(Self::nulls(&self.build, rows.len()));
        }
        columns.extend(take_rows(&batch.columns, &self.probe.output, &rows)?);
        if self.kind().has_mark() {
            columns.push(Self::mark(rows.len(), |number| matched.get(rows[number])));
        }
        self.send(columns, rows.len())
    }

    /// Returns build rows, given as the columns to return and the mark of each.
    ///
    /// # Errors
    /// As [`emit_probe`](EquiPlan::emit_probe).
    pub(super) fn emit_build(
        &self,
        mut columns: Vec<ArrayRef>,
        rows: usize,
        marked: impl Fn(usize) -> bool,
    ) -> JoinResult<()> {
        if self.kind().returns_pairs() {
            columns.extend(Self::nulls(&self.probe, rows));
        }
        if self.kind().has_mark() {
            columns.push(Self::mark(rows, marked));
        }
        self.send(columns, rows)
    }

    /// Returns the build rows of a batch with a NULL key.
    ///
    /// # Errors
    /// As [`emit_probe`](EquiPlan::emit_probe).
    pub(super) fn emit_null_build(&self, batch: &SideBatch) -> JoinResult<()> {
        let columns = take_rows(&batch.columns, &self.build.output, &batch.null)?;
        self.emit_build(columns, batch.null.len(), |_| false)
    }

    /// Returns encoded build rows without partner.
    ///
    /// # Errors
    /// As [`emit_probe`](EquiPlan::emit_probe).
    pub(super) fn emit_lone_build(&self, words: &[u64], bytes: &[u8]) -> JoinResult<()> {
        let rows = EncodedRows {
            words,
            bytes_of: &|_, span| span.slice(bytes),
        };
        let columns = rows.columns(&self.build, &self.build.output)?;
        self.emit_build(columns, words.len() / self.build.layout.stride, |_| false)
    }

    /// Returns the rows of a hash table that the kind asks for, once all partners are known.
    ///
    /// # Errors
    /// As [`emit_probe`](EquiPlan::emit_probe), [`JoinError::Interrupted`](crate::JoinError::Interrupted).
    pub(super) fn emit_table(&self, table: &JoinTable) -> JoinResult<()> {
        if !self.kind().tracks_build() || self.is_void() {
            return Ok(());
        }
        let tasks = table.len().div_ceil(OUTPUT_ROWS);
        let emit = |_: &mut (), task: usize| {
            let range = task * OUTPUT_ROWS..((task + 1) * OUTPUT_ROWS).min(table.len());
            self.emit_table_rows(table, range)
        };
        self.workers.run(tasks, || Ok(()), emit, |()| Ok(()))
    }

    fn emit_table_rows(&self, table: &JoinTable, range: std::ops::Range<usize>) -> JoinResult<()> {
        let wants = self.kind() == JoinKind::BuildSemi;
        let returns = |row: &usize| self.kind() == JoinKind::BuildMark || table.is_matched(*row) == wants;
        let rows: Vec<usize> = range.filter(returns).collect();
        let layout = &self.build.layout;
        let bytes_of_row = |row: &usize| -> usize {
            layout
                .spans
                .iter()
                .map(|&word| Span(table.row(*row)[word]).len())
                .sum()
        };
        let mut start = 0;
        while start < rows.len() {
            let (mut end, mut bytes) = (start, 0);
            while end < rows.len() && (end == start || bytes + bytes_of_row(&rows[end]) <= MAX_BYTES) {
                bytes += bytes_of_row(&rows[end]);
                end += 1;
            }
            let some = &rows[start..end];
            let words: Vec<u64> = some.iter().flat_map(|row| table.row(*row)).copied().collect();
            let encoded = EncodedRows {
                words: &words,
                bytes_of: &|number, span| span.slice(&table.values[table.part_of(some[number])]),
            };
            let columns = encoded.columns(&self.build, &self.build.output)?;
            self.emit_build(columns, some.len(), |number| table.is_matched(some[number]))?;
            start = end;
        }
        Ok(())
    }
}
