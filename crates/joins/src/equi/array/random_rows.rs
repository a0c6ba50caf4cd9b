//! Build sides of array joins: rows that are read by number.

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use halocline_columns::{Segment, Table};

use crate::JoinResult;

/// Rows that are read by number.
pub trait RandomRows: Sync {
    /// Returns the columns.
    fn schema(&self) -> SchemaRef;

    /// Returns the number of rows, below 2^32, those that are not live included.
    fn rows(&self) -> usize;

    /// Returns columns of some rows, in this order; rows may repeat.
    ///
    /// # Errors
    /// [`JoinError::Columns`](crate::JoinError::Columns) and others if rows cannot be read.
    fn take(&self, rows: &[u32], columns: &[usize]) -> JoinResult<Vec<ArrayRef>>;

    /// Removes the rows that are deleted.
    ///
    /// # Errors
    /// As [`take`](RandomRows::take).
    fn retain_live(&self, rows: &mut Vec<u32>) -> JoinResult<()> {
        let _ = rows;
        Ok(())
    }
}

/// Rows in DRAM.
#[derive(Debug, Clone)]
pub struct ArrayRows {
    batch: RecordBatch,
}

impl ArrayRows {
    /// Creates rows of a batch.
    pub fn new(batch: RecordBatch) -> ArrayRows {
        ArrayRows { batch }
    }
}

impl RandomRows for ArrayRows {
    fn schema(&self) -> SchemaRef {
        self.batch.schema()
    }

    fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    fn take(&self, rows: &[u32], columns: &[usize]) -> JoinResult<Vec<ArrayRef>> {
        let rows = UInt32Array::from(rows.to_vec());
        let taken = columns
            .iter()
            .map(|&column| take(self.batch.column(column), &rows, None));
        Ok(taken.collect::<Result<_, _>>()?)
    }
}

/// Some columns of a stored table, read from the slow tier.
#[derive(Debug, Clone)]
pub struct TableRows {
    schema: SchemaRef,
    columns: Vec<usize>,
    segments: Vec<Segment>,
    /// First row of each segment, and the number of rows.
    starts: Vec<usize>,
}

impl TableRows {
    /// Creates rows of the columns with these indices.
    ///
    /// # Errors
    /// [`JoinError::Arrow`](crate::JoinError::Arrow) if there is no such column.
    pub fn new(table: &Table, columns: Vec<usize>) -> JoinResult<TableRows> {
        let segments = table.segments().to_vec();
        let mut starts = vec![0];
        for segment in &segments {
            starts.push(starts[starts.len() - 1] + segment.rows());
        }
        let schema: Schema = table.schema().project(&columns)?;
        Ok(TableRows {
            schema: schema.into(),
            columns,
            segments,
            starts,
        })
    }

    /// Returns the segment of a row, and the row there.
    fn place(&self, row: u32) -> (usize, u32) {
        let segment = self.starts.partition_point(|start| *start <= row as usize) - 1;
        (segment, row - self.starts[segment] as u32)
    }
}

impl RandomRows for TableRows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn rows(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    fn take(&self, rows: &[u32], columns: &[usize]) -> JoinResult<Vec<ArrayRef>> {
        if let [segment] = &*self.segments {
            let gather = |column: &usize| Ok(segment.column(self.columns[*column]).gather(rows)?);
            return columns.iter().map(gather).collect();
        }
        // Each segment's rows are gathered at once, then put in order.
        let mut of_segments = vec![Vec::new(); self.segments.len()];
        let mut places = Vec::with_capacity(rows.len());
        for &row in rows {
            let (segment, row) = self.place(row);
            places.push((segment, of_segments[segment].len()));
            of_segments[segment].push(row);
        }
        let in_order = |column: &usize| {
            let parts = self.segments.iter().zip(&of_segments);
            let parts = parts.map(|(segment, rows)| segment.column(self.columns[*column]).gather(rows));
            let parts: Vec<ArrayRef> = parts.collect::<Result<_, _>>()?;
            let parts: Vec<_> = parts.iter().map(AsRef::as_ref).collect();
            if parts.is_empty() {
                return Ok(arrow_array::new_empty_array(
                    self.schema.field(*column).data_type(),
                ));
            }
            Ok(interleave(&parts, &places)?)
        };
        columns.iter().map(in_order).collect()
    }

    fn retain_live(&self, rows: &mut Vec<u32>) -> JoinResult<()> {
        let deleted = self.segments.iter().map(Segment::deletions);
        let deleted = deleted.collect::<Result<Vec<_>, _>>()?;
        if deleted.iter().any(Option::is_some) {
            rows.retain(|row| {
                let (segment, row) = self.place(*row);
                deleted[segment].is_none_or(|deleted| !deleted.contains(row))
            });
        }
        Ok(())
    }
}
