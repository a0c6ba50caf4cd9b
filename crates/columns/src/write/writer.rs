//! Writing a table: Arrow batches in, segments out, published with the transaction.
//!
//! The rows become a table of their own, new segments after those of a table, or take the place of some of
//! them. If the table has a clustering, they are sorted first, all rows of one writer together.

use crate::format::meta::TableMeta;
use crate::table::cluster::Sorter;
use crate::table::table_edit::{DraftSegment, TableEdit};
use crate::write::physical::storage_type;
use crate::write::segment_writer::SegmentWriter;
use crate::{ColumnsError, Result, TableOptions, TableStats};
use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use halocline_pool::Txn;

/// Streams batches into a table of a pool. Nothing becomes visible before [`finish`](Self::finish) and the
/// commit of the transaction. Dropping the writer discards everything.
pub struct TableWriter<'t> {
    txn: &'t Txn,
    schema: SchemaRef,
    options: TableOptions,
    edit: TableEdit,
    /// Where in the edit the new segments go.
    place: usize,
    segment: SegmentWriter<'t>,
    /// Where rows wait to be sorted, if the table has a clustering.
    sorter: Option<Sorter<'t>>,
    stats: TableStats,
}

impl std::fmt::Debug for TableWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter")
            .field("name", &self.edit.name())
            .field("rows", &self.stats.rows)
            .finish_non_exhaustive()
    }
}

impl<'t> TableWriter<'t> {
    /// Starts a table `name`, which replaces one of that name when it is finished. Dictionary types of
    /// `schema` are stored as their value types; metadata of schema and fields is not kept.
    ///
    /// # Errors
    /// [`ColumnsError::UnsupportedType`], [`ColumnsError::DuplicateColumn`].
    ///
    /// # Panics
    /// If the options break their limits.
    pub fn new(txn: &'t Txn, name: &str, schema: SchemaRef, options: TableOptions) -> Result<Self> {
        let meta = TableMeta::new(&storable(&schema))?;
        Self::start(txn, TableEdit::new(name, meta), 0, options)
    }

    /// Starts new segments after those of table `name`. Rows in errors count from the first one appended.
    ///
    /// # Errors
    /// [`ColumnsError::NoSuchTable`], [`ColumnsError::NewerFormat`], [`ColumnsError::Damaged`].
    ///
    /// # Panics
    /// If the options break their limits.
    pub fn append(txn: &'t Txn, name: &str, options: TableOptions) -> Result<Self> {
        let edit = TableEdit::load(txn, name)?;
        let place = edit.segments.len();
        Self::start(txn, edit, place, options)
    }

    /// Starts new segments of table `name` that take the place of those with these ids (of the first of them,
    /// if they do not follow each other). If no row is written, the old segments are removed.
    ///
    /// # Errors
    /// As [`append`](Self::append); [`ColumnsError::NoSuchSegment`].
    ///
    /// # Panics
    /// If the options break their limits.
    pub fn replacing(txn: &'t Txn, name: &str, ids: &[u64], options: TableOptions) -> Result<Self> {
        let mut edit = TableEdit::load(txn, name)?;
        let mut place = edit.segments.len();
        for id in ids {
            place = place.min(edit.position(*id)?);
        }
        edit.segments.retain(|segment| !ids.contains(&segment.meta.id));
        Self::start(txn, edit, place, options)
    }

    fn start(txn: &'t Txn, edit: TableEdit, place: usize, options: TableOptions) -> Result<Self> {
        options.assert_valid();
        let schema = edit.schema()?;
        let next = edit.next_segment();
        let mut options = options;
        options.encoding = edit.meta.encoding().unwrap_or_default();
        let sorter = Sorter::new(txn, edit.name(), &edit.meta, &schema, options.memory / 2)?;
        if sorter.is_some() {
            options.memory -= options.memory / 2;
        }
        Ok(Self {
            sorter,
            txn,
            segment: SegmentWriter::new(txn, SchemaRef::clone(&schema), options.clone()),
            stats: TableStats {
                column_bytes: vec![0; schema.fields().len()],
                ids: next..next,
                ..TableStats::default()
            },
            schema,
            options,
            edit,
            place,
        })
    }

    /// Returns the table's schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the number of rows written so far.
    pub fn rows(&self) -> u64 {
        self.stats.rows
    }

    /// Notes that a column of decimals will get values of more than 64 bits, so that no segment ends where
    /// they begin.
    pub(crate) fn expect_wide(&mut self, column: usize) {
        self.segment.expect_wide(column);
    }

    /// Returns the bytes of the table's new extents so far.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.stats.stored_bytes + self.segment.written_bytes()
    }

    /// Appends the rows of a batch; columns go by position. Columns are encoded in parallel (rayon's global
    /// pool). If the table has a clustering, rows wait, in DRAM and then in the pool, until all are there
    /// and sorted.
    ///
    /// # Errors
    /// [`ColumnsError::ColumnCount`], [`ColumnsError::TypeMismatch`], [`ColumnsError::NullInNotNull`],
    /// [`ColumnsError::Pool`]. After an error the writer must be dropped.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let expected = self.schema.fields().len();
        if batch.num_columns() != expected {
            return Err(ColumnsError::ColumnCount {
                expected,
                got: batch.num_columns(),
            });
        }
        if let Some(sorter) = &mut self.sorter {
            sorter.push(batch, self.stats.rows)?;
            self.stats.rows += batch.num_rows() as u64;
            return Ok(());
        }
        self.write_in_order(batch, self.stats.rows)?;
        self.stats.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Appends rows that are in the order in which they are to be stored.
    fn write_in_order(&mut self, batch: &RecordBatch, first_row: u64) -> Result<()> {
        let mut start = 0;
        while start < batch.num_rows() {
            let room = self.options.segment_rows - self.segment.rows();
            let len = (batch.num_rows() - start).min(usize::try_from(room).unwrap_or(usize::MAX));
            // A chunk at a time, so that a huge batch is encoded within the memory budget, too.
            let len = len.min(self.options.chunk_rows);
            let rows = batch.slice(start, len);
            if self.segment.must_end_before(&rows) {
                self.finish_segment()?;
                continue;
            }
            self.segment.write(&rows, first_row + start as u64)?;
            start += len;
            if self.segment.rows() == self.options.segment_rows || self.segment.is_overfull() {
                self.finish_segment()?;
            }
        }
        Ok(())
    }

    fn finish_segment(&mut self) -> Result<()> {
        let written = self.segment.finish()?;
        let stats = &mut self.stats;
        stats.segments += 1;
        stats.extents += written.extents.len();
        stats.stored_bytes += written.extents.iter().map(|extent| extent.len).sum::<u64>();
        for (sum, bytes) in stats.column_bytes.iter_mut().zip(&written.column_bytes) {
            *sum += bytes;
        }
        let segment: DraftSegment = self
            .edit
            .new_segment(written.rows, written.format, written.extents);
        stats.ids.end = segment.meta.id + 1;
        self.edit.segments.insert(self.place, segment);
        self.place += 1;
        Ok(())
    }

    /// Writes what is left and puts the table into the transaction; the commit publishes it.
    ///
    /// # Errors
    /// [`ColumnsError::Pool`].
    pub fn finish(self) -> Result<TableStats> {
        self.finish_while(|_| Ok(()))
    }

    /// Finishes the table like [`finish`](Self::finish). Calls `progress` with the number of bytes written
    /// after each batch that the sorter returns; an error from it cancels the operation.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), and those of `progress`.
    pub(crate) fn finish_while(mut self, progress: impl Fn(u64) -> Result<()>) -> Result<TableStats> {
        if let Some(sorter) = self.sorter.take() {
            self.stats.spilled_bytes = sorter.drain(|batch| {
                // The sorter has accepted the rows, so none is refused here.
                self.write_in_order(batch, 0)?;
                progress(self.written_bytes())
            })?;
        }
        if self.segment.rows() > 0 {
            self.finish_segment()?;
        }
        self.edit.put(self.txn)?;
        Ok(self.stats)
    }
}

/// Returns `schema` as tables store it: dictionary types as their value types, and no metadata.
pub(crate) fn storable(schema: &Schema) -> Schema {
    let fields = schema
        .fields()
        .iter()
        .map(|field| Field::new(field.name(), storage_type(field.data_type()), field.is_nullable()));
    Schema::new(fields.collect::<Vec<_>>())
}
