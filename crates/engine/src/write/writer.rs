//! A table writer on a thread of its own, fed with batches through a queue of a few batches and bytes.
//!
//! Invariant: the writer puts the table into the transaction only once it is notified that all batches were
//! sent, so that a failed query or a dropped future leaves nothing.

use std::sync::Arc;

use arrow_array::RecordBatch;
use halocline_columns::{TableStats, TableWriter};
use halocline_pool::Txn;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::EngineError;
use crate::memory::WriterShare;

/// Most batches queued between the query and the writer.
const QUEUE: usize = 4;

/// A table writer on a thread of its own.
pub(crate) struct TableWriteTask {
    batches: mpsc::Sender<(RecordBatch, OwnedSemaphorePermit)>,
    /// KiB that may still be queued.
    room: Arc<Semaphore>,
    room_in_all: u32,
    complete: oneshot::Sender<()>,
    writer: JoinHandle<Result<TableStats, EngineError>>,
}

impl TableWriteTask {
    /// Starts a writer that adds to table `name` of a transaction.
    pub(crate) fn start(txn: &Arc<Txn>, name: &str, share: WriterShare) -> Self {
        let room_in_all = u32::try_from(share.queue / 1024).unwrap_or(u32::MAX / 2).max(1);
        let (batches, receiver) = mpsc::channel(QUEUE);
        let (complete, completed) = oneshot::channel();
        let (txn, name) = (Arc::clone(txn), name.to_string());
        let writer = tokio::task::spawn_blocking(move || write(&txn, &name, share, receiver, completed));
        Self {
            batches,
            room: Arc::new(Semaphore::new(room_in_all as usize)),
            room_in_all,
            complete,
            writer,
        }
    }

    /// Queues a batch. Returns false if the writer has failed; [`finish`](Self::finish) returns its error.
    pub(crate) async fn send(&self, batch: RecordBatch) -> bool {
        let bytes = batch.get_array_memory_size();
        // A batch larger than the queue waits until it is empty.
        let kibibytes = u32::try_from(bytes / 1024).map_or(self.room_in_all, |n| n.min(self.room_in_all));
        match Arc::clone(&self.room).acquire_many_owned(kibibytes).await {
            Ok(room) => self.batches.send((batch, room)).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Waits for the writer, which puts the table into the transaction if there was no error.
    ///
    /// # Errors
    /// The given error, or else that of the writer.
    pub(crate) async fn finish(self, fed: Result<(), EngineError>) -> Result<TableStats, EngineError> {
        let Self {
            batches,
            complete,
            writer,
            ..
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
    share: WriterShare,
    mut batches: mpsc::Receiver<(RecordBatch, OwnedSemaphorePermit)>,
    mut complete: oneshot::Receiver<()>,
) -> Result<TableStats, EngineError> {
    let mut writer = TableWriter::append(txn, name, share.options.clone())?;
    while let Some((batch, _room)) = batches.blocking_recv() {
        writer.write(&batch)?;
    }
    if complete.try_recv().is_err() {
        return Err(EngineError::Cancelled);
    }
    Ok(writer.finish()?)
}
