//! Exclusion of writers within a handle, and waiting for it: one transaction at a time.
//!
//! Invariant: while a [`WriteTurn`] lives, its handle is `busy` and holds the writer's lock.
//!
//! `begin` fails immediately if another transaction is open. `begin_wait` waits: for this handle by
//! notification, for other handles by polling at most 5 ms apart.

use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::PoolError;
use crate::access::WriterLock;
use crate::pool::PoolInner;
use crate::txn::Txn;

/// The first and the longest pause between two attempts to take the lock that another handle holds.
const MIN_PAUSE: Duration = Duration::from_micros(50);
const MAX_PAUSE: Duration = Duration::from_millis(5);

/// The exclusive right of a handle's running transaction.
pub(crate) struct WriteTurn(Arc<PoolInner>);

impl WriteTurn {
    /// Takes the writer's lock, or reuses it if this handle still holds it.
    pub(crate) fn take(inner: &Arc<PoolInner>) -> Result<(WriteTurn, Arc<WriterLock>), PoolError> {
        let mut writer = inner.writer();
        if writer.busy {
            return Err(PoolError::Locked {
                path: inner.path.to_path_buf(),
                pid: None,
            });
        }
        let lock = match writer.lock.upgrade() {
            Some(lock) => lock,
            None => {
                let lock = Arc::new(inner.access.lock_writer()?);
                if let Some(space) = &mut writer.space {
                    space.forget_unpublished();
                }
                lock
            }
        };
        writer.lock = Arc::downgrade(&lock);
        writer.busy = true;
        drop(writer);
        Ok((WriteTurn(Arc::clone(inner)), lock))
    }
}

impl Drop for WriteTurn {
    fn drop(&mut self) {
        self.0.writer().busy = false;
        self.0.turn_over.notify_all();
    }
}

impl Txn {
    /// Implements [`Pool::begin_wait`](crate::Pool::begin_wait).
    pub(crate) fn begin_wait(inner: &Arc<PoolInner>, timeout: Duration) -> Result<Txn, PoolError> {
        let start = Instant::now();
        let mut pause = MIN_PAUSE;
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            match Txn::begin(inner) {
                Err(PoolError::Locked { .. }) if !left.is_zero() => {
                    inner.wait_for_turn(pause.min(left), left)
                }
                other => return other,
            }
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

impl PoolInner {
    /// Waits for the end of this handle's transaction, at most for the time `left`. If it has none, another
    /// handle holds the lock and cannot notify this one, so sleeps for `pause`.
    fn wait_for_turn(&self, pause: Duration, left: Duration) {
        let writer = self.writer();
        if writer.busy {
            let waited = self
                .turn_over
                .wait_timeout_while(writer, left, |writer| writer.busy);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        } else {
            drop(writer);
            thread::sleep(pause);
        }
    }
}
