//! Sorted rows without repetitions.

use arrow_array::{BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

/// Returns the rows of a stream that differ from the row before in one of the columns. The rows are sorted by
/// these columns, so that each combination of their values is returned once.
///
/// # Errors
/// The columns cannot be compared.
pub(super) fn distinct(
    rows: SendableRecordBatchStream,
    columns: Vec<usize>,
) -> Result<SendableRecordBatchStream> {
    let schema = rows.schema();
    let fields = columns.iter();
    let fields = fields.map(|&column| SortField::new(schema.field(column).data_type().clone()));
    let mut filter = DistinctRows {
        converter: RowConverter::new(fields.collect())?,
        columns,
        last: None,
    };
    let kept = rows.map(move |batch| filter.filter(&batch?));
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, kept)))
}

struct DistinctRows {
    converter: RowConverter,
    columns: Vec<usize>,
    /// The last row so far.
    last: Option<OwnedRow>,
}

impl DistinctRows {
    fn filter(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns: Vec<_> = self
            .columns
            .iter()
            .map(|&column| batch.column(column).clone())
            .collect();
        let rows = self.converter.convert_columns(&columns)?;
        let mut differs = Vec::with_capacity(rows.num_rows());
        for number in 0..rows.num_rows() {
            let row = rows.row(number);
            differs.push(match (number, &self.last) {
                (0, Some(last)) => last.row() != row,
                (0, None) => true,
                _ => rows.row(number - 1) != row,
            });
        }
        if let Some(last) = rows.num_rows().checked_sub(1) {
            self.last = Some(rows.row(last).owned());
        }
        Ok(filter_record_batch(batch, &BooleanArray::from(differs))?)
    }
}
