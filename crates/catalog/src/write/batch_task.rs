//! Work on a thread of its own, fed with batches through a queue of a few batches and bytes.
//!
//! Invariant: the work is told to complete only once all batches were sent, so that a failed query or a
//! dropped future leaves nothing.

use std::sync::Arc;

use arrow_array::RecordBatch;
use halocline_sql::EngineError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

/// Most batches queued between the query and the work.
const QUEUE: usize = 4;

/// Work on a thread of its own.
pub struct BatchTask<T> {
    /// The name of the work in errors.
    name: &'static str,
    batches: mpsc::Sender<(RecordBatch, OwnedSemaphorePermit)>,
    /// KiB that may still be queued.
    room: Arc<Semaphore>,
    room_in_all: u32,
    complete: oneshot::Sender<()>,
    work: JoinHandle<Result<T, EngineError>>,
}

/// The batches of a [`BatchTask`].
pub struct QueuedBatches {
    batches: mpsc::Receiver<(RecordBatch, OwnedSemaphorePermit)>,
    completed: oneshot::Receiver<()>,
    /// The room of the newest batch, which is being worked on.
    room: Option<OwnedSemaphorePermit>,
}

impl QueuedBatches {
    /// Waits for the next batch; `None` after the last one.
    pub fn next_batch(&mut self) -> Option<RecordBatch> {
        // The next batch may need all of it before it is sent.
        self.room = None;
        let (batch, room) = self.batches.blocking_recv()?;
        self.room = Some(room);
        Some(batch)
    }

    /// Fails unless all batches were sent.
    ///
    /// # Errors
    /// [`EngineError::Cancelled`].
    pub fn complete(mut self) -> Result<(), EngineError> {
        self.completed.try_recv().map_err(|_| EngineError::Cancelled)
    }
}

impl<T: Send + 'static> BatchTask<T> {
    /// Starts the work. `queue` is the number of bytes that are queued at most.
    pub fn start(
        name: &'static str,
        queue: usize,
        work: impl FnOnce(QueuedBatches) -> Result<T, EngineError> + Send + 'static,
    ) -> Self {
        let room_in_all = u32::try_from(queue / 1024).unwrap_or(u32::MAX / 2).max(1);
        let (batches, receiver) = mpsc::channel(QUEUE);
        let (complete, completed) = oneshot::channel();
        let queued = QueuedBatches {
            batches: receiver,
            completed,
            room: None,
        };
        Self {
            name,
            batches,
            room: Arc::new(Semaphore::new(room_in_all as usize)),
            room_in_all,
            complete,
            work: tokio::task::spawn_blocking(move || work(queued)),
        }
    }

    /// Queues a batch. Returns false if the work has failed; [`finish`](Self::finish) returns its error.
    pub async fn send(&self, batch: RecordBatch) -> bool {
        let bytes = batch.get_array_memory_size();
        // A batch larger than the queue waits until it is empty.
        let kibibytes = u32::try_from(bytes / 1024).map_or(self.room_in_all, |n| n.min(self.room_in_all));
        match Arc::clone(&self.room).acquire_many_owned(kibibytes).await {
            Ok(room) => self.batches.send((batch, room)).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Waits for the work, which completes if there was no error.
    ///
    /// # Errors
    /// The given error, or else that of the work.
    pub async fn finish(self, fed: Result<(), EngineError>) -> Result<T, EngineError> {
        let Self {
            name,
            batches,
            complete,
            work,
            ..
        } = self;
        if fed.is_ok() {
            // Work that has failed does not listen.
            let _ = complete.send(());
        }
        drop(batches);
        let done = work.await;
        fed?;
        match done {
            Ok(result) => result,
            Err(error) => Err(EngineError::Query(format!("{name} failed: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;

    use super::*;

    #[tokio::test]
    async fn batches_larger_than_the_queue_are_sent_one_after_the_other() {
        let column = Arc::new(Int64Array::from_iter_values(0..10_000));
        let batch = RecordBatch::try_from_iter([("a", column as _)]).unwrap();
        let count = |mut batches: QueuedBatches| {
            let rows = std::iter::from_fn(|| batches.next_batch()).map(|batch| batch.num_rows());
            let rows: usize = rows.sum();
            batches.complete().map(|()| rows)
        };
        let task = BatchTask::start("a test", 2000, count);
        for _ in 0..3 {
            assert!(task.send(batch.clone()).await);
        }
        assert_eq!(task.finish(Ok(())).await.unwrap(), 30_000);
    }
}
