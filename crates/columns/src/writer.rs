//! Writing a table: Arrow batches in, segments in extents out, published with the transaction.
//!
//! Chunks that are complete wait in DRAM until they fill a *part*, one extent with the waiting chunks of all columns,
//! column by column. Parts are allocated at their exact size, so a table has few extents (one per 64 MiB of encoded
//! data by default, one directory per segment) and no slack. Invariant: an entry of the directory is written only
//! after its chunk is in a finished extent.

use crate::chunk::Encoded;
use crate::column_writer::{Backlog, ColumnWriter};
use crate::format::{
    ALIGN, BLOCK, ChunkEntry, ColumnHeader, SEGMENT_MAGIC, SegmentHeader, align_up, checksum,
};
use crate::meta::{SegmentMeta, TableMeta};
use crate::physical::{Physical, storage_type};
use crate::{ColumnsError, Result};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{Field, Schema, SchemaRef};
use halocline_media::{AnyMedium, Medium};
use halocline_pool::{ExtentRef, FrozenScratch, ObjectKind, Txn};
use rayon::prelude::*;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Name of a table's object in the pool.
pub(crate) fn object_name(table: &str) -> String {
    format!("table/{table}")
}

/// How a table is written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TableOptions {
    /// Rows per chunk, the unit of encoding and zone maps: a multiple of 1024, at most 2^24. Default 65,536.
    pub chunk_rows: usize,
    /// Bytes of DRAM to use for encoded data; comes on top of one chunk of rows per column, unencoded (8 bytes per
    /// row, or the strings). Default 128 MiB.
    pub memory: usize,
    /// Rows per segment: at most 2^31, the default.
    pub segment_rows: u64,
    /// Distinct strings from which on a column is stored without a dictionary. Default 65,536.
    pub dictionary_limit: usize,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            chunk_rows: 65_536,
            memory: 128 << 20,
            segment_rows: 1 << 31,
            dictionary_limit: 65_536,
        }
    }
}

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// Rows.
    pub rows: u64,
    /// Segments.
    pub segments: usize,
    /// Extents of the table's object.
    pub extents: usize,
    /// Bytes in the pool.
    pub stored_bytes: u64,
    /// Bytes of each column in the pool (chunks and dictionary).
    pub column_bytes: Vec<u64>,
}

/// Streams batches into a table of a pool. Nothing can be seen of it before [`finish`](Self::finish) and the commit
/// of the transaction; dropped before, it leaves nothing behind.
pub struct TableWriter<'t, M: Medium = AnyMedium> {
    txn: &'t Txn<M>,
    name: String,
    schema: SchemaRef,
    options: TableOptions,
    columns: Vec<ColumnWriter>,
    meta: TableMeta,
    extents: Vec<ExtentRef>,
    /// Parts of the segment that is being written.
    parts: Vec<ExtentRef>,
    spilled: Vec<FrozenScratch<'t, M>>,
    segment_rows: u64,
    rows: u64,
    column_bytes: Vec<u64>,
}

impl<M: Medium> std::fmt::Debug for TableWriter<'_, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter")
            .field("name", &self.name)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl<'t, M: Medium> TableWriter<'t, M> {
    /// Starts a table `name`, which replaces one of that name when it is finished. Dictionary types of `schema` are
    /// stored as their value types; metadata of schema and fields is not kept.
    ///
    /// # Errors
    /// [`ColumnsError::UnsupportedType`], [`ColumnsError::DuplicateColumn`].
    ///
    /// # Panics
    /// If the options break their limits.
    pub fn new(txn: &'t Txn<M>, name: &str, schema: SchemaRef, options: TableOptions) -> Result<Self> {
        assert!(
            options.chunk_rows > 0
                && options.chunk_rows.is_multiple_of(BLOCK)
                && options.chunk_rows <= 1 << 24,
            "chunk_rows must be a multiple of {BLOCK} up to 2^24"
        );
        assert!(
            (1..=1 << 31).contains(&options.segment_rows),
            "segment_rows must be within 1..=2^31"
        );
        assert!(
            options.dictionary_limit < u32::MAX as usize,
            "dictionary_limit must be below 2^32 - 1"
        );
        let fields = schema
            .fields()
            .iter()
            .map(|field| Field::new(field.name(), storage_type(field.data_type()), field.is_nullable()));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let meta = TableMeta::new(&schema)?;
        let mut writer = Self {
            txn,
            name: name.to_owned(),
            columns: Vec::new(),
            meta,
            extents: Vec::new(),
            parts: Vec::new(),
            spilled: Vec::new(),
            segment_rows: 0,
            rows: 0,
            column_bytes: vec![0; schema.fields().len()],
            schema,
            options,
        };
        writer.columns = writer.fresh_columns();
        Ok(writer)
    }

    /// The schema that the table will have.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    fn fresh_columns(&self) -> Vec<ColumnWriter> {
        let fields = self.schema.fields().iter();
        fields
            .map(|field| {
                // `TableMeta::new` has refused all types without a physical form.
                let physical = Physical::of(field.data_type()).unwrap_or(Physical::Bytes);
                ColumnWriter::new(
                    field,
                    physical,
                    self.options.chunk_rows,
                    self.options.dictionary_limit,
                )
            })
            .collect()
    }

    /// Appends the rows of a batch; columns go by position. Columns are encoded in parallel (rayon's global pool).
    ///
    /// # Errors
    /// [`ColumnsError::ColumnCount`], [`ColumnsError::TypeMismatch`], [`ColumnsError::NullInNotNull`],
    /// [`ColumnsError::ValueTooWide`], [`ColumnsError::Pool`]. After an error the writer must be dropped.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_columns() != self.columns.len() {
            return Err(ColumnsError::ColumnCount {
                expected: self.columns.len(),
                got: batch.num_columns(),
            });
        }
        let mut start = 0;
        while start < batch.num_rows() {
            let room = self.options.segment_rows - self.segment_rows;
            let len = (batch.num_rows() - start).min(usize::try_from(room).unwrap_or(usize::MAX));
            // A few chunks at a time, so that a huge batch is encoded within the memory budget, too.
            let len = len.min(4 * self.options.chunk_rows);
            self.write_rows(&batch.slice(start, len))?;
            start += len;
            if self.segment_rows == self.options.segment_rows {
                self.finish_segment()?;
            }
        }
        Ok(())
    }

    fn write_rows(&mut self, batch: &RecordBatch) -> Result<()> {
        let first_row = self.rows;
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
        self.segment_rows += batch.num_rows() as u64;
        while self.columns.iter().any(ColumnWriter::must_convert) {
            self.step(|column| column.must_convert())?;
        }
        if self.ready_bytes() >= self.part_bytes() {
            self.write_part(Vec::new())?;
        }
        if self
            .columns
            .iter()
            .map(ColumnWriter::backlog_bytes)
            .sum::<usize>()
            > self.options.memory / 4
        {
            self.spill()?;
        }
        Ok(())
    }

    fn part_bytes(&self) -> usize {
        self.options.memory / 2
    }

    fn ready_bytes(&self) -> usize {
        self.columns.iter().map(ColumnWriter::ready_bytes).sum()
    }

    /// Lets columns turn backlog into chunks, within memory, and writes those out if they fill a part.
    fn step(&mut self, which: impl Fn(&ColumnWriter) -> bool + Sync) -> Result<()> {
        let share = self.part_bytes() / self.columns.len();
        let spilled = &self.spilled;
        let read = |scratch: usize, range: std::ops::Range<usize>| &spilled[scratch][range];
        self.columns
            .par_iter_mut()
            .filter(|column| which(column))
            .for_each(|column| column.step(share, &read));
        if self.ready_bytes() >= self.part_bytes() / 2 {
            self.write_part(Vec::new())?;
        }
        Ok(())
    }

    /// Moves the backlog from DRAM into scratch space of the pool.
    fn spill(&mut self) -> Result<()> {
        let len: usize = self.columns.iter().map(ColumnWriter::backlog_bytes).sum();
        let scratch = self.txn.scratch(len as u64)?;
        let mut at = 0;
        for backlog in self.columns.iter_mut().flat_map(ColumnWriter::backlog_mut) {
            if let Backlog::Memory(encoded) = backlog {
                let bytes = encoded.bytes();
                scratch.write_at(at as u64, bytes);
                let range = at..at + bytes.len();
                at = range.end;
                *backlog = Backlog::Spilled(encoded.entry, self.spilled.len(), range);
            }
        }
        tracing::debug!(table = self.name, bytes = len, "spilled string ids");
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
        let mut at = 0;
        let mut place = |len: usize| {
            let offset = at;
            at += align_up(len);
            offset as u64
        };
        let offsets: Vec<u64> = ready
            .iter()
            .map(|(_, _, encoded)| place(encoded.bytes().len()))
            .collect();
        let more_offsets: Vec<u64> = more.iter().map(|bytes| place(bytes.len())).collect();
        if at > 0 {
            let writer = self.txn.alloc(at as u64)?;
            let write = |(bytes, offset): (&[u8], u64)| {
                writer.write_at(offset, bytes);
                let padding = align_up(bytes.len()) - bytes.len();
                writer.write_at(offset + bytes.len() as u64, &[0; ALIGN][..padding]);
            };
            let chunks = ready.par_iter().map(|(_, _, encoded)| encoded.bytes());
            chunks.zip(offsets.par_iter().copied()).for_each(write);
            more.iter()
                .map(Vec::as_slice)
                .zip(more_offsets.iter().copied())
                .for_each(write);
            self.parts.push(writer.finish(at as u64)?);
        }
        for ((column, chunk, encoded), offset) in ready.iter().zip(offsets) {
            // Chunks without bytes need no place; zeros keep their entries independent of what was written before.
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
    fn finish_segment(&mut self) -> Result<()> {
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

        let mut headers: Vec<ColumnHeader> = Vec::new();
        let mut entries: Vec<u8> = Vec::new();
        let entries_at = size_of::<SegmentHeader>() + self.columns.len() * size_of::<ColumnHeader>();
        for (column, dictionary_len) in self.columns.iter().zip(lens) {
            let (mut header, chunk_entries) = column.summary();
            if let Some((len, offset)) = dictionary_len.zip(if dictionary_len.is_some() {
                offsets.next()
            } else {
                None
            }) {
                header.dictionary_part = part;
                header.dictionary_offset = offset;
                header.dictionary_len = len;
                header.bytes += len;
            }
            header.entries = (entries_at + entries.len()) as u64;
            header.entries_checksum = checksum(chunk_entries.as_bytes());
            entries.extend_from_slice(chunk_entries.as_bytes());
            headers.push(header);
        }
        let mut header = SegmentHeader {
            magic: SEGMENT_MAGIC,
            checksum: 0,
            rows: self.segment_rows,
            chunk_rows: self.options.chunk_rows as u32,
            columns: self.columns.len() as u32,
            parts: self.parts.len() as u32,
            reserved: [0; 7],
        };
        let mut directory = [header.as_bytes(), headers.as_bytes()].concat();
        header.checksum = checksum(&directory);
        directory[..size_of::<SegmentHeader>()].copy_from_slice(header.as_bytes());
        directory.extend_from_slice(&entries);
        let mut writer = self.txn.alloc(directory.len() as u64)?;
        writer.append(&directory);
        self.extents.push(writer.finish(directory.len() as u64)?);
        self.extents.append(&mut self.parts);
        let extents = 1 + header.parts as usize;
        self.meta.segments.push(SegmentMeta {
            rows: self.segment_rows,
            extents,
        });
        for (sum, header) in self.column_bytes.iter_mut().zip(&headers) {
            *sum += header.bytes;
        }
        self.segment_rows = 0;
        self.columns = self.fresh_columns();
        Ok(())
    }

    /// Writes what is left and puts the table into the transaction; the commit publishes it.
    ///
    /// # Errors
    /// [`ColumnsError::Pool`].
    pub fn finish(mut self) -> Result<TableStats> {
        if self.segment_rows > 0 {
            self.finish_segment()?;
        }
        let stats = TableStats {
            rows: self.rows,
            segments: self.meta.segments.len(),
            extents: self.extents.len(),
            stored_bytes: self.extents.iter().map(|extent| extent.len).sum(),
            column_bytes: self.column_bytes,
        };
        self.txn.put(
            &object_name(&self.name),
            ObjectKind::TABLE,
            &self.meta.to_bytes(),
            self.extents,
        )?;
        Ok(stats)
    }
}

/// Values from which on a batch is worth spreading over threads.
const PARALLEL_VALUES: usize = 8192;
