//! The open stores that all handles share: [`StoresHandle`].

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::commit::{BatchOp, CommitCondition, Outcome};
use crate::error::Result;
use crate::room::SegmentClaim;
use crate::state::StoresState;

/// The open stores, which close when this is dropped.
#[derive(Debug)]
pub(crate) struct StoresHandle {
    pub(crate) state: Arc<StoresState>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for StoresHandle {
    fn drop(&mut self) {
        self.state.stopping.store(true, Ordering::Release);
        self.state.work.notify_all();
        self.state.progress.notify_all();
        let keeper = self
            .keeper
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if keeper.is_some_and(|keeper| keeper.join().is_err()) {
            tracing::warn!("the thread that maintains the stores ended with a panic");
        }
        if self.state.writable().is_ok()
            && let Err(error) = self.state.checkpoint_now()
        {
            tracing::warn!(%error, "the stores were closed without a checkpoint");
        }
    }
}

impl StoresHandle {
    pub(crate) fn new(state: Arc<StoresState>, keeper: Option<JoinHandle<()>>) -> Self {
        Self {
            state,
            keeper: Mutex::new(keeper),
        }
    }

    /// Commits a batch, see [`StoresState::commit`].
    pub(crate) fn commit(&self, ops: Vec<BatchOp>, condition: Option<CommitCondition>) -> Result<Outcome> {
        let claim = SegmentClaim::for_batch(&ops);
        self.state.commit(ops, condition, claim)
    }
}
