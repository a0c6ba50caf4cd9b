//! Build sides of array joins: rows accessed by row number.

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use halocline_columns::{BLOCK_ROWS, Segment, Table};

use crate::JoinResult;

/// Bits of the number of a row within a block of a column.
const BLOCK_BITS: u32 = BLOCK_ROWS.ilog2();

/// Bits of the row number that one radix-sort pass consumes.
const PASS_BITS: u32 = 8;

/// Returns the row numbers sorted by block (LSD radix sort), and for each input row its position in that
/// order. O(rows).
fn by_block(rows: &[u32]) -> (Vec<u32>, UInt32Array) {
    let most = rows.iter().copied().max().unwrap_or(0);
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    let mut next = vec![0; rows.len()];
    let mut shift = BLOCK_BITS;
    while shift < u32::BITS && most >> shift > 0 {
        let digit = |number: u32| (rows[number as usize] >> shift) as usize & ((1 << PASS_BITS) - 1);
        let mut places = [0_u32; 1 << PASS_BITS];
        order.iter().for_each(|&number| places[digit(number)] += 1);
        let mut start = 0;
        for place in &mut places {
            (*place, start) = (start, start + *place);
        }
        for &number in &order {
            let place = &mut places[digit(number)];
            next[*place as usize] = number;
            *place += 1;
        }
        std::mem::swap(&mut order, &mut next);
        shift += PASS_BITS;
    }
    for (position, &number) in order.iter().enumerate() {
        next[number as usize] = position as u32;
    }
    let sorted = order.iter().map(|&number| rows[number as usize]).collect();
    (sorted, UInt32Array::from(next))
}

/// Rows accessed by row number.
pub trait RandomRows: Sync {
    /// Returns the columns.
    fn schema(&self) -> SchemaRef;

    /// Returns the number of rows, including deleted ones; below 2^32.
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

    /// Gathers columns of `rows`; fastest if rows of one block are adjacent.
    fn gather(&self, rows: &[u32], columns: &[usize]) -> JoinResult<Vec<ArrayRef>> {
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
}

impl RandomRows for TableRows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn rows(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    fn take(&self, rows: &[u32], columns: &[usize]) -> JoinResult<Vec<ArrayRef>> {
        if rows.is_sorted() {
            return self.gather(rows, columns);
        }
        // A chunk of a column is found once for all of its rows, and their reads overlap.
        let (sorted, positions) = by_block(rows);
        let arrays = self.gather(&sorted, columns)?;
        let in_order = arrays.iter().map(|array| take(array, &positions, None));
        Ok(in_order.collect::<Result<_, _>>()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_block_and_found_again() {
        for most in [1, 900, 1 << 17, u32::MAX] {
            let mut state = 1_u64;
            let random = |_| {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                ((u128::from(state) * u128::from(most)) >> 64) as u32
            };
            let rows: Vec<u32> = (0..3000).map(random).collect();
            let (sorted, positions) = by_block(&rows);
            assert!(sorted.is_sorted_by_key(|row| row >> BLOCK_BITS), "{most}");
            let found = positions
                .values()
                .iter()
                .map(|position| sorted[*position as usize]);
            assert!(found.eq(rows), "{most}");
        }
        assert_eq!(by_block(&[]).0, [0; 0]);
    }
}
