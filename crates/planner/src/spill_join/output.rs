//! The output of a join: its partitions take batches from one channel.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::JoinHandle;

use super::run::{Cancel, JoinTask};

/// Batches that wait for a partition to take them.
const MAX_QUEUED_BATCHES: usize = 16;

/// One execution of a join, which starts when the first partition is polled. Dropping it ends the join.
pub(super) struct JoinRun {
    state: AsyncMutex<RunState>,
    cancel: Arc<Cancel>,
}

enum RunState {
    /// It has not started.
    Ready(Option<Box<JoinTask>>),
    Running(mpsc::Receiver<RecordBatch>, JoinHandle<Result<()>>),
    Ended,
}

impl JoinRun {
    /// Returns an execution that has not started.
    pub(super) fn new(task: JoinTask) -> Self {
        Self {
            cancel: Arc::clone(&task.cancel),
            state: AsyncMutex::new(RunState::Ready(Some(Box::new(task)))),
        }
    }

    /// Returns the next batch; `None` at the end.
    ///
    /// # Errors
    /// Those of the join, to one of the partitions.
    pub(super) async fn next(&self) -> Result<Option<RecordBatch>> {
        let mut state = self.state.lock().await;
        if let RunState::Ready(task) = &mut *state
            && let Some(task) = task.take()
        {
            let (sender, receiver) = mpsc::channel(MAX_QUEUED_BATCHES);
            let running = tokio::task::spawn_blocking(move || task.run(&sender));
            *state = RunState::Running(receiver, running);
        }
        let RunState::Running(receiver, running) = &mut *state else {
            return Ok(None);
        };
        if let Some(batch) = receiver.recv().await {
            return Ok(Some(batch));
        }
        let result = running.await;
        *state = RunState::Ended;
        result.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        Ok(None)
    }
}

impl Drop for JoinRun {
    fn drop(&mut self) {
        self.cancel.set();
    }
}

/// The executions of a plan. One is identified by its task context; a partition that starts a second time in
/// the same context starts a new one.
#[derive(Default)]
pub(super) struct JoinRuns {
    open: Mutex<Vec<OpenRun>>,
}

/// An execution that some partitions have not joined yet.
struct OpenRun {
    context: Arc<TaskContext>,
    run: Arc<JoinRun>,
    joined: Vec<bool>,
}

impl JoinRuns {
    /// Returns the execution that `partition` of `partitions` takes part in.
    ///
    /// # Errors
    /// Those of `start`.
    pub(super) fn join(
        &self,
        context: &Arc<TaskContext>,
        partition: usize,
        partitions: usize,
        start: impl FnOnce() -> Result<JoinTask>,
    ) -> Result<Arc<JoinRun>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |other: &OpenRun| Arc::ptr_eq(&other.context, context) && !other.joined[partition];
        let at = match open.iter().position(waits) {
            Some(at) => at,
            None => {
                open.push(OpenRun {
                    context: Arc::clone(context),
                    run: Arc::new(JoinRun::new(start()?)),
                    joined: vec![false; partitions],
                });
                open.len() - 1
            }
        };
        open[at].joined[partition] = true;
        let run = Arc::clone(&open[at].run);
        if open[at].joined.iter().all(|joined| *joined) {
            open.swap_remove(at);
        }
        Ok(run)
    }
}
