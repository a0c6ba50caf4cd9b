//! The columns that a branch reads: the others are not sorted with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use super::layout::{Branch, Layout};

impl Branch {
    /// Returns the columns that the branch reads, in order, the keys first.
    pub(super) fn columns(&self, layout: &Layout) -> Vec<usize> {
        let mut columns: BTreeSet<usize> = (0..layout.keys).chain(self.order.iter().copied()).collect();
        for (aggregate, filter) in &self.aggregates {
            let order = aggregate.order_bys().iter().map(|sort| Arc::clone(&sort.expr));
            let read = aggregate
                .expressions()
                .into_iter()
                .chain(order)
                .chain(filter.clone());
            columns.extend(
                read.flat_map(|expr| collect_columns(&expr))
                    .map(|column| column.index()),
            );
        }
        columns.into_iter().collect()
    }
}

/// Returns rows with some of their columns.
///
/// # Errors
/// There is no such column.
pub(super) fn narrowed(
    rows: SendableRecordBatchStream,
    columns: Vec<usize>,
) -> Result<SendableRecordBatchStream> {
    let schema = Arc::new(rows.schema().project(&columns)?);
    let narrow = rows.map(move |batch| Ok(batch?.project(&columns)?));
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, narrow)))
}

/// Returns rows that were [narrowed] with all columns of `schema`: those that are missing are NULL.
pub(super) fn widened(
    rows: SendableRecordBatchStream,
    columns: Vec<usize>,
    schema: &SchemaRef,
) -> SendableRecordBatchStream {
    let output = Arc::clone(schema);
    let wide = rows.map(move |batch| {
        let batch = batch?;
        let mut there = columns.iter().zip(batch.columns()).peekable();
        let column = |(number, field): (usize, &Arc<arrow_schema::Field>)| {
            let found = there.next_if(|(column, _)| **column == number);
            found.map_or_else(
                || new_null_array(field.data_type(), batch.num_rows()),
                |(_, values)| Arc::clone(values),
            )
        };
        let all: Vec<ArrayRef> = output.fields().iter().enumerate().map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&output),
            all,
            &options,
        )?)
    });
    Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), wide))
}
