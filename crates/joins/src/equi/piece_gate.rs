//! The meeting point of threads that read a build side in pieces and the one that joins them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::workers::JoinWorkers;
use crate::JoinResult;

/// How often waiting threads look for cancellation.
const TICK: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
struct PieceState {
    readers: usize,
    waiting: usize,
    /// Number of pieces that have been joined.
    pieces: u64,
    done: bool,
}

/// Readers wait when memory is full, until the piece that they have read is joined.
#[derive(Debug, Default)]
pub(super) struct PieceGate {
    state: Mutex<PieceState>,
    changed: Condvar,
}

impl PieceGate {
    fn state(&self) -> MutexGuard<'_, PieceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reader, which leaves with the returned guard.
    pub(super) fn enter(&self) -> GateReader<'_> {
        self.state().readers += 1;
        GateReader(self)
    }

    /// Waits, as a reader, until the piece is joined.
    ///
    /// # Errors
    /// [`JoinError::Interrupted`](crate::JoinError::Interrupted).
    pub(super) fn wait(&self, workers: &JoinWorkers<'_>) -> JoinResult<()> {
        let mut state = self.state();
        let piece = state.pieces;
        state.waiting += 1;
        self.changed.notify_all();
        while state.pieces == piece {
            if let Err(error) = workers.check() {
                state.waiting -= 1;
                return Err(error);
            }
            (state, _) = self
                .changed
                .wait_timeout(state, TICK)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Says that all has been read.
    pub(super) fn set_done(&self) {
        self.state().done = true;
        self.changed.notify_all();
    }

    /// Waits until a piece is complete. Returns true if it is the last one.
    ///
    /// # Errors
    /// [`JoinError::Interrupted`](crate::JoinError::Interrupted).
    pub(super) fn next_piece(&self, workers: &JoinWorkers<'_>) -> JoinResult<bool> {
        let mut state = self.state();
        loop {
            if state.done {
                return Ok(true);
            }
            if state.waiting > 0 && state.waiting == state.readers {
                return Ok(false);
            }
            workers.check()?;
            (state, _) = self
                .changed
                .wait_timeout(state, TICK)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets the readers go on.
    pub(super) fn release(&self) {
        let mut state = self.state();
        state.pieces += 1;
        state.waiting = 0;
        self.changed.notify_all();
    }
}

/// A reader; leaves on drop.
#[derive(Debug)]
pub(super) struct GateReader<'g>(&'g PieceGate);

impl Drop for GateReader<'_> {
    fn drop(&mut self) {
        self.0.state().readers -= 1;
        self.0.changed.notify_all();
    }
}
