//! Looks up probe rows in a hash table, and returns the pairs.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::DataType;

use super::emit::{EncodedRows, MAX_BYTES, RowBits, take_rows};
use super::input::SideBatch;
use super::join::OUTPUT_ROWS;
use super::key::KeyValues;
use super::layout::Span;
use super::plan::EquiPlan;
use super::table::{BucketRange, JoinTable, PROBE_BATCH_ROWS};
use crate::{JoinError, JoinResult};

/// Pairs of rows with equal keys.
#[derive(Debug, Default)]
struct MatchedPairs {
    /// Rows of the batch.
    probe: Vec<u32>,
    /// Rows of the hash table.
    build: Vec<usize>,
    /// Partitions of the latter.
    parts: Vec<u32>,
    /// The words of the latter.
    words: Vec<u64>,
}

impl MatchedPairs {
    fn clear(&mut self) {
        self.probe.clear();
        self.build.clear();
        self.parts.clear();
        self.words.clear();
    }

    /// Keeps the pairs of which `keep` is true.
    fn retain(&mut self, stride: usize, keep: &BooleanArray) {
        let mut kept = 0;
        for number in 0..self.probe.len() {
            if keep.is_valid(number) && keep.value(number) {
                self.probe[kept] = self.probe[number];
                self.build[kept] = self.build[number];
                self.parts[kept] = self.parts[number];
                self.words
                    .copy_within(number * stride..(number + 1) * stride, kept * stride);
                kept += 1;
            }
        }
        self.probe.truncate(kept);
        self.build.truncate(kept);
        self.parts.truncate(kept);
        self.words.truncate(kept * stride);
    }

    fn range(&self, range: Range<usize>, stride: usize) -> MatchedPairs {
        MatchedPairs {
            probe: self.probe[range.clone()].to_vec(),
            build: self.build[range.clone()].to_vec(),
            parts: self.parts[range.clone()].to_vec(),
            words: self.words[range.start * stride..range.end * stride].to_vec(),
        }
    }
}

/// The state of one thread.
pub(super) struct Prober<'t> {
    plan: &'t EquiPlan<'t>,
    table: &'t JoinTable,
    candidates: Vec<BucketRange>,
    pairs: MatchedPairs,
}

impl<'t> Prober<'t> {
    pub(super) fn new(plan: &'t EquiPlan<'t>, table: &'t JoinTable) -> Prober<'t> {
        Prober {
            plan,
            table,
            candidates: Vec::with_capacity(PROBE_BATCH_ROWS),
            pairs: MatchedPairs::default(),
        }
    }

    /// Looks up rows of a batch, returns their pairs if the kind asks for pairs, and notes which rows of
    /// either side have a partner.
    ///
    /// # Errors
    /// Those of the residual and of the sink, [`JoinError::Interrupted`].
    pub(super) fn look_up(
        &mut self,
        batch: &SideBatch,
        rows: &[u32],
        matched: &mut RowBits,
    ) -> JoinResult<()> {
        for rows in rows.chunks(PROBE_BATCH_ROWS) {
            self.candidates.clear();
            self.table.find(&batch.keys.hashes, rows, &mut self.candidates);
            let table = self.table;
            match &batch.keys.keys {
                KeyValues::Words(1, words) => self.scan(batch, matched, |candidate, row| {
                    row[0] == words[candidate.probe as usize]
                })?,
                KeyValues::Words(width, words) => self.scan(batch, matched, |candidate, row| {
                    row[..*width] == words[candidate.probe as usize * width..][..*width]
                })?,
                KeyValues::Bytes(spans, bytes) => self.scan(batch, matched, |candidate, row| {
                    let probe = candidate.probe as usize;
                    row[0] == batch.keys.hashes[probe]
                        && Span(row[1]).slice(&table.values[candidate.part as usize])
                            == spans[probe].slice(bytes)
                })?,
            }
        }
        self.flush(batch, matched)
    }

    /// Compares the keys of the candidates' rows.
    #[inline(always)]
    fn scan(
        &mut self,
        batch: &SideBatch,
        matched: &mut RowBits,
        is_equal: impl Fn(&BucketRange, &[u64]) -> bool,
    ) -> JoinResult<()> {
        let (kind, table) = (self.plan.kind(), self.table);
        let candidates = std::mem::take(&mut self.candidates);
        if !kind.returns_pairs() && self.plan.join.residual.is_none() {
            let (tracks_probe, tracks_build) = (kind.tracks_probe(), kind.tracks_build());
            for candidate in &candidates {
                for row in candidate.start..candidate.end {
                    if is_equal(candidate, table.row(row)) {
                        if tracks_probe {
                            matched.set(candidate.probe);
                        }
                        // The rows of a key get their bits together: one is enough to know that all have it.
                        if !tracks_build || !table.set_matched(row) {
                            break;
                        }
                    }
                }
            }
            self.candidates = candidates;
            return Ok(());
        }
        for candidate in &candidates {
            for at in candidate.start..candidate.end {
                let row = table.row(at);
                if is_equal(candidate, row) {
                    self.pairs.probe.push(candidate.probe);
                    self.pairs.build.push(at);
                    self.pairs.parts.push(candidate.part);
                    self.pairs.words.extend_from_slice(row);
                    if self.pairs.probe.len() == OUTPUT_ROWS {
                        self.flush(batch, matched)?;
                    }
                }
            }
        }
        self.candidates = candidates;
        Ok(())
    }

    /// Filters and returns the pairs so far.
    fn flush(&mut self, batch: &SideBatch, matched: &mut RowBits) -> JoinResult<()> {
        if self.pairs.probe.is_empty() {
            return Ok(());
        }
        self.plan.workers.check()?;
        let mut pairs = std::mem::take(&mut self.pairs);
        let result = self.send_pairs(batch, &mut pairs, matched);
        pairs.clear();
        self.pairs = pairs;
        result
    }

    fn send_pairs(
        &self,
        batch: &SideBatch,
        pairs: &mut MatchedPairs,
        matched: &mut RowBits,
    ) -> JoinResult<()> {
        let (plan, stride) = (self.plan, self.plan.build.layout.stride);
        let len = pairs.probe.len();
        if len > 1 && self.value_bytes(batch, pairs) > MAX_BYTES {
            for range in [0..len / 2, len / 2..len] {
                self.send_pairs(batch, &mut pairs.range(range, stride), matched)?;
            }
            return Ok(());
        }
        if let Some(residual) = &plan.join.residual {
            let mut columns = self.build_columns(pairs, &plan.build.residual)?;
            columns.extend(take_rows(&batch.columns, &plan.probe.residual, &pairs.probe)?);
            let options = RecordBatchOptions::new().with_row_count(Some(len));
            let both = RecordBatch::try_new_with_options(plan.pair_schema.clone(), columns, &options)?;
            let keep = (residual.filter)(&both)?;
            if keep.len() != len {
                return Err(JoinError::Unsupported(
                    "the condition on pairs returned another number of rows",
                ));
            }
            pairs.retain(stride, &keep);
        }
        if plan.kind().tracks_probe() {
            pairs.probe.iter().for_each(|row| matched.set(*row));
        }
        if plan.kind().tracks_build() {
            for row in &pairs.build {
                self.table.set_matched(*row);
            }
        }
        if !plan.kind().returns_pairs() || pairs.probe.is_empty() {
            return Ok(());
        }
        let mut columns = self.build_columns(pairs, &plan.build.output)?;
        columns.extend(take_rows(&batch.columns, &plan.probe.output, &pairs.probe)?);
        plan.send(columns, pairs.probe.len())
    }

    fn build_columns(&self, pairs: &MatchedPairs, positions: &[usize]) -> JoinResult<Vec<ArrayRef>> {
        let rows = EncodedRows {
            words: &pairs.words,
            bytes_of: &|number, span| span.slice(&self.table.values[pairs.parts[number] as usize]),
        };
        rows.columns(&self.plan.build, positions)
    }

    /// Returns the bytes of variable-length values of the pairs.
    fn value_bytes(&self, batch: &SideBatch, pairs: &MatchedPairs) -> usize {
        let layout = &self.plan.build.layout;
        let rows = || pairs.words.chunks_exact(layout.stride);
        let of_build = layout
            .spans
            .iter()
            .map(|&word| rows().map(|row| Span(row[word]).len()).sum::<usize>());
        let of_probe = batch.columns.iter().map(|column| match column.data_type() {
            DataType::Utf8 => sum_lengths(column.as_string::<i32>().value_offsets(), &pairs.probe),
            DataType::Binary => sum_lengths(column.as_binary::<i32>().value_offsets(), &pairs.probe),
            _ => 0,
        });
        of_build.chain(of_probe).max().unwrap_or(0)
    }
}

fn sum_lengths(offsets: &[i32], rows: &[u32]) -> usize {
    let len = |row: &u32| (offsets[*row as usize + 1] - offsets[*row as usize]) as usize;
    rows.iter().map(len).sum()
}
