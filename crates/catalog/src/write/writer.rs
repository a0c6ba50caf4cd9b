//! A table writer on a thread of its own, fed with batches through a queue.
//!
//! Invariant: the writer puts the table into the transaction only once it is notified that all batches were
//! sent, so that a failed query or a dropped future leaves nothing.

use std::sync::Arc;

use arrow_array::RecordBatch;
use halocline_columns::{TableStats, TableWriter};
use halocline_pool::Txn;
use halocline_sql::EngineError;

use super::batch_task::{BatchTask, QueuedBatches};
use crate::memory::WriterShare;

/// A table writer on a thread of its own.
pub struct TableWriteTask(BatchTask<TableStats>);

impl TableWriteTask {
    /// Starts a writer that adds to table `name` of a transaction.
    pub fn start(txn: &Arc<Txn>, name: &str, share: WriterShare) -> Self {
        let (txn, name) = (Arc::clone(txn), name.to_string());
        let queue = share.queue;
        let work = move |batches| write(&txn, &name, &share, batches);
        Self(BatchTask::start("the table writer", queue, work))
    }

    /// Queues a batch. Returns false if the writer has failed; [`finish`](Self::finish) returns its error.
    pub async fn send(&self, batch: RecordBatch) -> bool {
        self.0.send(batch).await
    }

    /// Waits for the writer, which puts the table into the transaction if there was no error.
    ///
    /// # Errors
    /// The given error, or else that of the writer.
    pub async fn finish(self, fed: Result<(), EngineError>) -> Result<TableStats, EngineError> {
        self.0.finish(fed).await
    }
}

fn write(
    txn: &Txn,
    name: &str,
    share: &WriterShare,
    mut batches: QueuedBatches,
) -> Result<TableStats, EngineError> {
    let mut writer = TableWriter::append(txn, name, share.options.clone())?;
    while let Some(batch) = batches.next_batch() {
        writer.write(&batch)?;
    }
    batches.complete()?;
    Ok(writer.finish()?)
}
