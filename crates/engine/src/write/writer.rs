//! A table writer on a thread of its own, fed with batches through a short queue.
//!
//! Invariant: the writer puts the table into the transaction only when it is told that all batches have come, so that
//! a failed query or a dropped future leaves nothing.

use std::sync::Arc;

use arrow_array::RecordBatch;
use halocline_columns::{TableOptions, TableStats, TableWriter};
use halocline_pool::Txn;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::EngineError;

/// Batches between the query and the writer.
const QUEUE: usize = 4;

/// A writer at work.
pub(crate) struct Writing {
    batches: mpsc::Sender<RecordBatch>,
    complete: oneshot::Sender<()>,
    writer: JoinHandle<Result<TableStats, EngineError>>,
}

impl Writing {
    /// Starts a writer that adds to table `name` of a transaction.
    pub(crate) fn start(txn: &Arc<Txn>, name: &str, options: TableOptions) -> Self {
        let (batches, receiver) = mpsc::channel(QUEUE);
        let (complete, told) = oneshot::channel();
        let (txn, name) = (Arc::clone(txn), name.to_string());
        let writer = tokio::task::spawn_blocking(move || write(&txn, &name, options, receiver, told));
        Self {
            batches,
            complete,
            writer,
        }
    }

    /// Hands over a batch; false if the writer has failed, which [`finish`](Self::finish) will tell.
    pub(crate) async fn send(&self, batch: RecordBatch) -> bool {
        self.batches.send(batch).await.is_ok()
    }

    /// Waits for the writer: it puts the table into the transaction if there was no error so far.
    ///
    /// # Errors
    /// The one given, or else the writer's.
    pub(crate) async fn finish(self, fed: Result<(), EngineError>) -> Result<TableStats, EngineError> {
        let Self {
            batches,
            complete,
            writer,
        } = self;
        if fed.is_ok() {
            // A writer that has failed does not listen.
            let _ = complete.send(());
        }
        drop(batches);
        let written = writer.await;
        fed?;
        match written {
            Ok(result) => result,
            Err(error) => Err(EngineError::Query(format!("the table writer failed: {error}"))),
        }
    }
}

fn write(
    txn: &Txn,
    name: &str,
    options: TableOptions,
    mut batches: mpsc::Receiver<RecordBatch>,
    mut complete: oneshot::Receiver<()>,
) -> Result<TableStats, EngineError> {
    let mut writer = TableWriter::append(txn, name, options)?;
    while let Some(batch) = batches.blocking_recv() {
        writer.write(&batch)?;
    }
    if complete.try_recv().is_err() {
        return Err(EngineError::Cancelled);
    }
    Ok(writer.finish()?)
}
