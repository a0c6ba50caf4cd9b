//! Writing one segment: batches in, extents out.
//!
//! Chunks that are complete wait in DRAM until they fill a *part*, one extent with the waiting chunks of all
//! columns, column by column. Parts are allocated at their exact size, so a table has few extents (one per 64
//! MiB of encoded data, or per quarter of the memory, and one directory per segment) and no slack. What takes
//! DRAM has its share of the memory (shares.rs); rows per chunk are chosen by the first rows of a segment.
//! Invariants: an entry of the directory is written only after its chunk is in a finished extent; a column of
//! decimals has keys in a segment only if all its values there have one.

use crate::codec;
use crate::codec::encode::Encoded;
use crate::codec::sketch::DistinctSketch;
use crate::format::directory::{ColumnEntries, encode};
use crate::format::{ALIGN, ChunkEntry, FORMAT_PACKED, FORMAT_WIDE, KIND_KEYS, align_up};
use crate::format::{sketches, wide};
use crate::table::shares::Shares;
use crate::write::column_writer::{Backlog, ColumnWriter};
use crate::write::physical::Physical;
use crate::{Result, TableOptions};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{FieldRef, SchemaRef};
use halocline_pool::{ExtentRef, FrozenScratch, Txn};
use rayon::prelude::*;
use std::borrow::Cow;
use std::sync::Arc;

/// A segment that is being written; after [`finish`](Self::finish) the next one.
pub(crate) struct SegmentWriter<'t> {
    txn: &'t Txn,
    schema: SchemaRef,
    options: TableOptions,
    shares: Shares,
    /// Rows of a chunk of this segment.
    chunk_rows: usize,
    /// Columns of decimals that get no keys, as one of them had none in this segment or one before.
    wide: Vec<bool>,
    /// None before the first row.
    columns: Vec<ColumnWriter>,
    /// Bytes of the medium's unit, a power of two from a line up.
    unit: usize,
    parts: Vec<ExtentRef>,
    spilled: Vec<FrozenScratch<'t>>,
    rows: u64,
}

/// A segment that is written.
#[derive(Debug)]
pub(crate) struct WrittenSegment {
    pub(crate) rows: u64,
    /// A `FORMAT_` constant.
    pub(crate) format: u32,
    /// Directory and parts.
    pub(crate) extents: Vec<ExtentRef>,
    pub(crate) column_bytes: Vec<u64>,
}

impl<'t> SegmentWriter<'t> {
    /// Creates a writer for tables of `schema`, whose types have a physical form.
    pub(crate) fn new(txn: &'t Txn, schema: SchemaRef, options: TableOptions) -> Self {
        Self {
            txn,
            wide: vec![false; schema.fields().len()],
            schema,
            shares: Shares::new(options.memory, options.part_limit),
            chunk_rows: options.chunk_rows,
            options,
            columns: Vec::new(),
            unit: txn.kind().unit() as usize,
            parts: Vec::new(),
            spilled: Vec::new(),
            rows: 0,
        }
    }

    /// Returns the number of rows of the segment so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the bytes of its extents so far.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len).sum()
    }

    /// Notes that a column of decimals may have values without keys, so that segments do not have to end
    /// where these begin.
    pub(crate) fn expect_wide(&mut self, column: usize) {
        self.wide[column] = true;
    }

    /// Returns true if the rows of `batch` cannot be in this segment, as columns have keys in it of which
    /// `batch` has a decimal without one. The next segment can have them.
    pub(crate) fn must_end_before(&mut self, batch: &RecordBatch) -> bool {
        let mut more = false;
        let columns = self.schema.fields().iter().zip(batch.columns());
        for (wide, (field, array)) in self.wide.iter_mut().zip(columns) {
            if !*wide && wide::may_be_wide(field.data_type()) && wide::holds_wide_decimals(array) {
                (*wide, more) = (true, true);
            }
        }
        more && self.rows > 0
    }

    /// Starts a segment whose first rows are those of `batch`.
    fn start(&mut self, batch: &RecordBatch) {
        // The table's description has refused all types without a physical form.
        let physical = |(field, wide): (&FieldRef, &bool)| match Physical::from_data_type(field.data_type()) {
            Some(physical) if !wide => physical,
            _ => Physical::Bytes,
        };
        let columns = self.schema.fields().iter().zip(&self.wide);
        let physical: Vec<Physical> = columns.map(physical).collect();
        self.chunk_rows = self.shares.chunk_rows(self.options.chunk_rows, &physical, batch);
        let limit = (self.options.dictionary_limit, self.shares.interners);
        let columns = self.schema.fields().iter().zip(physical);
        self.columns = columns
            .map(|(field, physical)| {
                ColumnWriter::new(field, physical, self.chunk_rows, limit, self.options.encoding)
            })
            .collect();
    }

    /// Returns true if rows have become so much longer than the first ones that chunks that are not full take
    /// more than their share of memory. The writer then starts another segment.
    pub(crate) fn is_overfull(&self) -> bool {
        self.sum(ColumnWriter::pending_strings) > self.shares.pending
    }

    fn sum(&self, bytes: impl Fn(&ColumnWriter) -> usize) -> usize {
        self.columns.iter().map(bytes).sum()
    }

    /// Appends a batch of a few chunks, whose first row is `first_row` for error messages.
    ///
    /// # Panics
    /// If [`must_end_before`](Self::must_end_before) was not asked, or the segment not ended.
    pub(crate) fn write(&mut self, batch: &RecordBatch, first_row: u64) -> Result<()> {
        if self.columns.is_empty() {
            self.start(batch);
        }
        let append = |(column, array): (&mut ColumnWriter, &Arc<dyn Array>)| column.append(array, first_row);
        if batch.num_rows() * self.columns.len() < PARALLEL_VALUES {
            self.columns
                .iter_mut()
                .zip(batch.columns())
                .try_for_each(append)?;
        } else {
            self.columns
                .par_iter_mut()
                .zip(batch.columns())
                .try_for_each(append)?;
        }
        self.rows += batch.num_rows() as u64;
        while self.sum(ColumnWriter::dictionary_memory) > self.shares.interners {
            let largest = self
                .columns
                .iter_mut()
                .max_by_key(|column| column.dictionary_memory());
            largest.into_iter().for_each(ColumnWriter::give_up_dictionary);
        }
        while self.columns.iter().any(ColumnWriter::must_convert) {
            self.step(|column| column.must_convert())?;
        }
        if self.ready_bytes() >= self.shares.part {
            self.write_part(Vec::new())?;
        }
        if self.sum(ColumnWriter::backlog_bytes) > self.shares.backlog {
            self.spill()?;
        }
        Ok(())
    }

    fn ready_bytes(&self) -> usize {
        self.sum(ColumnWriter::ready_bytes)
    }

    /// Lets columns turn backlog into chunks, within memory, and writes those out if they fill a part.
    fn step(&mut self, which: impl Fn(&ColumnWriter) -> bool + Sync) -> Result<()> {
        let share = self.shares.part / self.columns.len();
        let spilled = &self.spilled;
        let read = |scratch: usize, range: std::ops::Range<usize>| &spilled[scratch][range];
        self.columns
            .par_iter_mut()
            .filter(|column| which(column))
            .for_each(|column| column.step(share, &read));
        if self.ready_bytes() >= self.shares.part / 2 {
            self.write_part(Vec::new())?;
        }
        Ok(())
    }

    /// Moves the backlog from DRAM into scratch space of the pool.
    fn spill(&mut self) -> Result<()> {
        let len = self.sum(ColumnWriter::backlog_bytes);
        let scratch = self.txn.scratch(len as u64)?;
        let mut at = 0usize;
        for backlog in self.columns.iter_mut().flat_map(ColumnWriter::backlog_mut) {
            if let Backlog::Memory(encoded) = backlog {
                let bytes = encoded.bytes();
                scratch.write_at(at as u64, bytes);
                let range = at..at + bytes.len();
                at = range.end;
                *backlog = Backlog::Spilled(encoded.entry, self.spilled.len(), range);
            }
        }
        tracing::debug!(bytes = len, "spilled string ids");
        self.spilled.push(scratch.freeze());
        Ok(())
    }

    /// Writes all waiting chunks, and `more` after them, into one extent. Returns where `more` lie.
    fn write_part(&mut self, more: Vec<Vec<u8>>) -> Result<Vec<u64>> {
        let part = self.parts.len() as u32;
        let ready: Vec<(usize, usize, Encoded)> = (self.columns.iter_mut().enumerate())
            .flat_map(|(i, column)| {
                column
                    .take_ready()
                    .into_iter()
                    .map(move |(chunk, e)| (i, chunk, e))
            })
            .collect();
        let mut at = 0usize;
        let mut gaps = Vec::new();
        let mut place = |len: usize| {
            let align = if len >= UNITS_TO_ALIGN * self.unit {
                self.unit
            } else {
                ALIGN
            };
            let offset = at.next_multiple_of(align);
            gaps.push(at..offset);
            gaps.push(offset + len..offset + align_up(len));
            at = offset + align_up(len);
            offset as u64
        };
        let offsets: Vec<u64> = ready
            .iter()
            .map(|(_, _, encoded)| place(encoded.bytes().len()))
            .collect();
        let more_offsets: Vec<u64> = more.iter().map(|bytes| place(bytes.len())).collect();
        if at > 0 {
            let writer = self.txn.alloc(at as u64)?;
            let write = |(bytes, offset): (&[u8], u64)| writer.write_at(offset, bytes);
            let zeros = vec![0; self.unit];
            gaps.iter()
                .for_each(|gap| writer.write_at(gap.start as u64, &zeros[..gap.len()]));
            let chunks = ready.par_iter().map(|(_, _, encoded)| encoded.bytes());
            chunks.zip(offsets.par_iter().copied()).for_each(write);
            more.iter()
                .map(Vec::as_slice)
                .zip(more_offsets.iter().copied())
                .for_each(write);
            self.parts.push(writer.finish(at as u64)?);
        }
        for ((column, chunk, encoded), offset) in ready.iter().zip(offsets) {
            // Chunks without bytes need no place; zeros keep their entries independent of what was written
            // before.
            let entry = match encoded.entry.len {
                0 => encoded.entry,
                _ => ChunkEntry {
                    part,
                    offset,
                    ..encoded.entry
                },
            };
            self.columns[*column].place(*chunk, entry);
        }
        Ok(more_offsets)
    }

    /// Ends the segment: rewrites string ids as ranks, writes what is left and the directory.
    pub(crate) fn finish(&mut self) -> Result<WrittenSegment> {
        self.columns.par_iter_mut().for_each(ColumnWriter::end);
        while self.columns.iter().any(ColumnWriter::has_backlog) {
            self.step(ColumnWriter::has_backlog)?;
        }
        self.spilled.clear();
        let dictionaries: Vec<Option<Vec<u8>>> =
            self.columns.par_iter().map(ColumnWriter::dictionary).collect();
        let lens: Vec<Option<u64>> = dictionaries
            .iter()
            .map(|d| d.as_ref().map(|d| d.len() as u64))
            .collect();
        let part = self.parts.len() as u32;
        let mut offsets = self
            .write_part(dictionaries.into_iter().flatten().collect())?
            .into_iter();
        let mut columns: Vec<ColumnEntries<'_>> = Vec::with_capacity(self.columns.len());
        for (column, dictionary_len) in self.columns.iter().zip(lens) {
            let (mut header, entries) = column.summary();
            if let Some(len) = dictionary_len {
                header.dictionary_part = part;
                header.dictionary_offset = offsets.next().unwrap_or_default();
                header.dictionary_len = len;
                header.bytes += len;
            }
            columns.push((header, Cow::Borrowed(entries)));
        }
        let formats = columns
            .iter()
            .flat_map(|(_, entries)| entries.iter().map(|entry| codec::format_of(entry.encoding)));
        let wide = |(header, wide): (&ColumnEntries<'_>, &bool)| *wide && header.0.kind != KIND_KEYS;
        let is_wide = columns.iter().zip(&self.wide).any(wide);
        let formats = formats.chain(is_wide.then_some(FORMAT_WIDE));
        let format = formats.max().unwrap_or(FORMAT_PACKED);
        let chunk_rows = self.chunk_rows as u32;
        let of_columns: Vec<DistinctSketch> = self
            .columns
            .iter()
            .map(|column| column.sketch().clone())
            .collect();
        let sketches = sketches::encode(&of_columns);
        let directory = encode(
            self.rows,
            chunk_rows,
            self.parts.len() as u32,
            &columns,
            &sketches,
        );
        let column_bytes = columns.iter().map(|(header, _)| header.bytes).collect();
        let mut writer = self.txn.alloc(directory.len() as u64)?;
        writer.append(&directory);
        let mut extents = vec![writer.finish(directory.len() as u64)?];
        extents.append(&mut self.parts);
        let rows = std::mem::take(&mut self.rows);
        self.columns.clear();
        Ok(WrittenSegment {
            rows,
            format,
            extents,
            column_bytes,
        })
    }
}

/// Chunks of at least this many units begin with one, so that reading them touches as few as can be; for
/// smaller ones the space between them would be too much.
const UNITS_TO_ALIGN: usize = 16;
/// Values from which on a batch is worth spreading over threads.
const PARALLEL_VALUES: usize = 8192;
