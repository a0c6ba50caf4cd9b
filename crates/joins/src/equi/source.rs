//! Inputs of joins: batches that are read in parallel, morsel by morsel.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use halocline_columns::{Segment, Table};

use super::codes::KeyCodes;
use crate::JoinResult;

/// Receives the batches of a morsel.
pub type EachBatch<'a> = dyn FnMut(RecordBatch) -> JoinResult<()> + 'a;

/// An input of a join. Its rows are divided into morsels, each of which is read by one thread, concurrently
/// with others: fewer morsels than threads leave threads idle.
pub trait JoinSource: Sync {
    /// Returns the columns of the batches.
    fn schema(&self) -> SchemaRef;

    /// Returns the number of morsels.
    fn morsels(&self) -> usize;

    /// Calls `each` with the batches of a morsel, of any length, and returns its errors. Each morsel is read
    /// once, or several times if [`is_rereadable`](JoinSource::is_rereadable), with the same rows in the same
    /// order.
    ///
    /// # Errors
    /// Those of `each`; [`JoinError::Source`](crate::JoinError::Source) and others if rows cannot be read.
    fn read(&self, morsel: usize, each: &mut EachBatch<'_>) -> JoinResult<()>;

    /// Returns the estimated number of rows; `None` if nothing is known. A wrong estimate costs time only.
    fn rows_estimate(&self) -> Option<u64>;

    /// Returns true if a morsel can be read more than once.
    fn is_rereadable(&self) -> bool {
        true
    }
}

/// Batches in DRAM; each is a morsel.
#[derive(Debug, Clone)]
pub struct BatchSource {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl BatchSource {
    /// Creates a source of batches, all of which have this schema.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> BatchSource {
        BatchSource { schema, batches }
    }
}

impl JoinSource for BatchSource {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn morsels(&self) -> usize {
        self.batches.len()
    }

    fn read(&self, morsel: usize, each: &mut EachBatch<'_>) -> JoinResult<()> {
        each(self.batches[morsel].clone())
    }

    fn rows_estimate(&self) -> Option<u64> {
        Some(self.batches.iter().map(|batch| batch.num_rows() as u64).sum())
    }
}

/// Rows that are decoded at a time.
const SCAN_ROWS: usize = 8192;

/// Some columns of a stored table. A morsel is a chunk of a segment; deleted rows are left out.
#[derive(Debug, Clone)]
pub struct TableSource {
    schema: SchemaRef,
    columns: Vec<SourceColumn>,
    segments: Vec<Segment>,
    morsels: Vec<(usize, Range<usize>)>,
}

/// A column of a source of a stored table.
#[derive(Debug, Clone)]
enum SourceColumn {
    /// The values of a column with this index.
    Values(usize),
    Codes(KeyCodes),
}

impl SourceColumn {
    fn scan(&self, (number, segment): (usize, &Segment), rows: Range<usize>) -> JoinResult<ArrayRef> {
        match self {
            SourceColumn::Values(column) => Ok(segment.column(*column).scan(rows)?),
            SourceColumn::Codes(codes) => {
                let codes = codes.codes((number, segment), |column| column.scan_ranks(rows))?;
                Ok(Arc::new(codes))
            }
        }
    }

    fn gather(&self, (number, segment): (usize, &Segment), rows: &[u32]) -> JoinResult<ArrayRef> {
        match self {
            SourceColumn::Values(column) => Ok(segment.column(*column).gather(rows)?),
            SourceColumn::Codes(codes) => {
                let codes = codes.codes((number, segment), |column| column.gather_ranks(rows))?;
                Ok(Arc::new(codes))
            }
        }
    }
}

impl TableSource {
    /// Creates a source of the columns with these indices.
    ///
    /// # Errors
    /// [`JoinError::Arrow`](crate::JoinError::Arrow) if there is no such column.
    pub fn new(table: &Table, columns: Vec<usize>) -> JoinResult<TableSource> {
        let segments = table.segments().to_vec();
        let mut morsels = Vec::new();
        for (number, segment) in segments.iter().enumerate() {
            let step = segment.chunk_rows().max(1);
            for start in (0..segment.rows()).step_by(step) {
                morsels.push((number, start..(start + step).min(segment.rows())));
            }
        }
        Ok(TableSource {
            schema: table.schema().project(&columns)?.into(),
            columns: columns.into_iter().map(SourceColumn::Values).collect(),
            segments,
            morsels,
        })
    }

    /// Adds codes of a string column of the table after the other columns, as a key that is compared and
    /// spilled as a number.
    #[must_use]
    pub fn with_codes(mut self, codes: KeyCodes) -> TableSource {
        let mut fields = self.schema.fields().to_vec();
        fields.push(Arc::new(Field::new("codes", DataType::UInt32, true)));
        self.schema = Arc::new(Schema::new(fields));
        self.columns.push(SourceColumn::Codes(codes));
        self
    }

    fn batch(&self, number: usize, rows: Range<usize>) -> JoinResult<RecordBatch> {
        let segment = &self.segments[number];
        let options = RecordBatchOptions::new();
        if let Some(deleted) = segment.deletions()? {
            let bounds = rows.start as u32..rows.end as u32;
            if deleted.range_cardinality(bounds.clone()) > 0 {
                let live: Vec<u32> = bounds.filter(|row| !deleted.contains(*row)).collect();
                let arrays = self
                    .columns
                    .iter()
                    .map(|column| column.gather((number, segment), &live));
                let options = options.with_row_count(Some(live.len()));
                let arrays = arrays.collect::<JoinResult<_>>()?;
                return Ok(RecordBatch::try_new_with_options(
                    self.schema.clone(),
                    arrays,
                    &options,
                )?);
            }
        }
        let options = options.with_row_count(Some(rows.len()));
        let arrays = self
            .columns
            .iter()
            .map(|column| column.scan((number, segment), rows.clone()));
        let arrays = arrays.collect::<JoinResult<_>>()?;
        Ok(RecordBatch::try_new_with_options(
            self.schema.clone(),
            arrays,
            &options,
        )?)
    }
}

impl JoinSource for TableSource {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn morsels(&self) -> usize {
        self.morsels.len()
    }

    fn read(&self, morsel: usize, each: &mut EachBatch<'_>) -> JoinResult<()> {
        let (segment, rows) = &self.morsels[morsel];
        for start in rows.clone().step_by(SCAN_ROWS) {
            let step = start..(start + SCAN_ROWS).min(rows.end);
            each(self.batch(*segment, step)?)?;
        }
        Ok(())
    }

    fn rows_estimate(&self) -> Option<u64> {
        Some(self.segments.iter().map(Segment::live_rows).sum())
    }
}
