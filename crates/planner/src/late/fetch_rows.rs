//! Values of single rows by their addresses.

use arrow_array::{Array, ArrayRef, UInt32Array, new_empty_array};
use arrow_schema::DataType;
use arrow_select::concat::concat;
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use datafusion::error::{DataFusionError, Result};
use halocline_catalog::OpenTable;
use halocline_columns::RowId;
use halocline_scan::plan::segment_and_row;
use halocline_sql::error::external;

/// Rows of a table, in the order of some addresses.
pub(super) struct AddressedRows<'a> {
    open: &'a OpenTable,
    /// The rows by segment, ascending; those of the delta are in the one after the last segment.
    of_segments: Vec<(usize, Vec<RowId>)>,
    /// For each address, the position of its row in these.
    positions: UInt32Array,
}

impl<'a> AddressedRows<'a> {
    /// Finds the rows of at most 2^32 addresses. O(n log n).
    pub(super) fn new(open: &'a OpenTable, addresses: &[u64]) -> Self {
        let mut sorted: Vec<(u64, u32)> = addresses.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        let mut positions = vec![0; addresses.len()];
        let mut of_segments: Vec<(usize, Vec<RowId>)> = Vec::new();
        for (position, (address, at)) in (0..).zip(sorted) {
            positions[at as usize] = position;
            let (segment, row) = segment_and_row(address);
            match of_segments.last_mut() {
                Some((last, rows)) if *last == segment => rows.push(row),
                _ => of_segments.push((segment, vec![row])),
            }
        }
        Self {
            open,
            of_segments,
            positions: positions.into(),
        }
    }

    /// Returns the values of a column.
    ///
    /// # Errors
    /// They cannot be read, or there is no such row.
    pub(super) fn column(&self, column: usize) -> Result<ArrayRef> {
        let segments = self.open.table.segments();
        let of_segment = |(segment, rows): &(usize, Vec<RowId>)| match segments.get(*segment) {
            Some(segment) => segment.column(column).gather(rows).map_err(external),
            None => self.added(column, rows),
        };
        let parts = self
            .of_segments
            .iter()
            .map(of_segment)
            .collect::<Result<Vec<_>>>()?;
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let all = match parts.as_slice() {
            [] => return Ok(new_empty_array(self.data_type(column))),
            [one] => return Ok(take(*one, &self.positions, None)?),
            many => concat(many)?,
        };
        Ok(take(&all, &self.positions, None)?)
    }

    fn data_type(&self, column: usize) -> &DataType {
        self.open.table.schema().field(column).data_type()
    }

    /// Returns the values of rows that the log has added, whose numbers ascend.
    fn added(&self, column: usize, rows: &[RowId]) -> Result<ArrayRef> {
        let batches = self.open.delta.as_ref().map_or(&[][..], |delta| delta.batches());
        let place = |row: &RowId| {
            let row = *row as usize;
            let at = batches
                .partition_point(|(start, _)| *start <= row)
                .checked_sub(1)?;
            let (start, batch) = &batches[at];
            (row - start < batch.num_rows()).then_some((at, row - start))
        };
        let places: Option<Vec<(usize, usize)>> = rows.iter().map(place).collect();
        let places =
            places.ok_or_else(|| DataFusionError::Internal("an address of a row of no version".into()))?;
        let arrays: Vec<&dyn Array> = batches
            .iter()
            .map(|(_, batch)| batch.column(column).as_ref())
            .collect();
        Ok(interleave(&arrays, &places)?)
    }
}
