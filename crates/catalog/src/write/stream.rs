//! The rows of a query into a table: a few become small changes, more become segments as they come.
//!
//! A query streams into the table writer on a thread of its own, through a short queue. The writer finishes
//! only when it is told that the query has ended well, so that an error or a dropped future leaves nothing.

use arrow_array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use halocline_sql::EngineError;

use super::fit::BatchFitter;
use super::writer::TableWriteTask;
use crate::OpenTable;
use crate::delta::TableChange;
use crate::transaction::Transaction;

/// The rows of a query after [`store`].
pub enum StoredRows {
    /// Few rows that are not stored yet, for [`Transaction::apply`], and their number.
    Few(Vec<RecordBatch>, u64),
    /// Number of rows stored in new segments.
    Many(u64),
}

/// Fits the rows of a query to a table and stores them, if they are many. `look` sees every batch before it
/// is fitted.
///
/// # Errors
/// The query fails, or a value does not fit; then nothing is stored.
pub async fn store(
    transaction: &mut Transaction,
    open: &OpenTable,
    mut fit: BatchFitter,
    mut rows: SendableRecordBatchStream,
    mut look: impl FnMut(&RecordBatch) -> Result<(), EngineError> + Send,
) -> Result<StoredRows, EngineError> {
    // Reserved before the query starts, which might otherwise take all of the memory.
    let share = transaction.engine().writer_share();
    let (mut few, mut count) = (Vec::new(), 0);
    while count <= transaction.engine().tuning.small_rows {
        let Some(batch) = rows.next().await else {
            return Ok(StoredRows::Few(few, count));
        };
        let batch = batch?;
        look(&batch)?;
        few.push(fit.batch(&batch)?);
        count += batch.num_rows() as u64;
    }
    let writing = TableWriteTask::start(transaction.txn(), open.table.name(), share);
    let fed = feed(&writing, few, &mut fit, &mut rows, &mut look).await;
    let stats = writing.finish(fed).await?;
    transaction.changed([open.table.uid()]);
    Ok(StoredRows::Many(stats.rows))
}

/// Sends all rows to the writer, or until it has failed.
async fn feed(
    writing: &TableWriteTask,
    few: Vec<RecordBatch>,
    fit: &mut BatchFitter,
    rows: &mut SendableRecordBatchStream,
    look: &mut (impl FnMut(&RecordBatch) -> Result<(), EngineError> + Send),
) -> Result<(), EngineError> {
    for batch in few {
        if !writing.send(batch).await {
            return Ok(());
        }
    }
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        look(&batch)?;
        if !writing.send(fit.batch(&batch)?).await {
            return Ok(());
        }
    }
    Ok(())
}

/// Converts batches to changes.
pub fn inserts(batches: Vec<RecordBatch>) -> Vec<TableChange> {
    batches.into_iter().map(TableChange::Insert).collect()
}
