//! Commits: conditions are compared, records appended to the log, [made durable](crate::durable), and
//! [put into the trees](crate::publish).
//!
//! Threads queue their commits; the one that gets the committer takes all that wait, and one fence makes them
//! durable together. Until then no reader sees them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use halocline_pool::PoolError;

use crate::append::{Appender, Overlay, Staged};
use crate::committer::Committer;
use crate::error::{Result, StoreError};
use crate::fault::{StoreFault, injected};
use crate::key_range::KeyRange;
use crate::reads::WatchedReads;
use crate::room::SegmentClaim;
use crate::state::{StoreState, StoresState};

/// Longest time that a commit waits for space to be used again: a medium may be too slow for more.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Time after which a commit that waits looks again.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Time for which a single commit trusts that the path still led to the file. A commit of several, which
/// share the cost, always looks.
const PLACE_TRUSTED: Duration = Duration::from_millis(50);

// docs/operations.md promises 100 ms, and the clock may be a tick late.
const _: () = assert!(PLACE_TRUSTED.as_millis() <= 90);

/// An operation of a batch.
#[derive(Clone)]
pub(crate) enum BatchOp {
    Put {
        store: Arc<StoreState>,
        key: Vec<u8>,
        value: Vec<u8>,
        /// Time of expiry in ms since 1970.
        expires: Option<u64>,
    },
    Delete {
        store: Arc<StoreState>,
        key: Vec<u8>,
    },
    Merge {
        store: Arc<StoreState>,
        key: Vec<u8>,
        operand: Vec<u8>,
    },
    DeleteRange {
        store: Arc<StoreState>,
        range: KeyRange,
    },
}

/// A condition under which a batch is committed.
pub(crate) enum CommitCondition {
    /// Nothing was written that a transaction depends on.
    Unchanged(WatchedReads),
    /// The key has this value, or none.
    Value {
        store: Arc<StoreState>,
        key: Vec<u8>,
        expected: Option<Vec<u8>>,
    },
}

/// The outcome of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything is durable, unless the options defer that.
    Committed,
    /// Nothing has changed: the key does not have the expected value.
    Failed,
}

/// A commit that waits for the committer.
pub(crate) struct PendingCommit {
    ops: Vec<BatchOp>,
    condition: Option<CommitCondition>,
    claim: SegmentClaim,
    outcome: Mutex<Option<Result<Outcome>>>,
}

impl PendingCommit {
    fn set(&self, outcome: Result<Outcome>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }

    fn take(&self) -> Option<Result<Outcome>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl StoresState {
    /// Commits a batch if its condition holds. Returns when all keys are deleted whose ranges it deletes.
    ///
    /// # Errors
    /// [`StoreError::Conflict`], damage, a full disk, and errors of the medium. Nothing has changed, except
    /// that after an error of the medium it is unknown what is durable, and all later commits fail.
    pub(crate) fn commit(
        self: &Arc<Self>,
        ops: Vec<BatchOp>,
        condition: Option<CommitCondition>,
        claim: SegmentClaim,
    ) -> Result<Outcome> {
        let deletes_ranges = ops.iter().any(|op| matches!(op, BatchOp::DeleteRange { .. }));
        let outcome = self.commit_batch(ops, condition, claim)?;
        if deletes_ranges && let Err(error) = self.finish_deleted_ranges() {
            // The commit is durable and hides the keys, which are deleted later.
            tracing::warn!(%error, "the keys of a deleted range could not be deleted yet");
        }
        Ok(outcome)
    }

    /// Commits a batch as [`commit`](Self::commit), and leaves the keys of large ranges hidden.
    pub(crate) fn commit_batch(
        self: &Arc<Self>,
        ops: Vec<BatchOp>,
        condition: Option<CommitCondition>,
        claim: SegmentClaim,
    ) -> Result<Outcome> {
        self.writable()?;
        let pending = Arc::new(PendingCommit {
            ops,
            condition,
            claim,
            outcome: Mutex::default(),
        });
        let mut attempts = 0;
        loop {
            match self.commit_queued(&pending) {
                Err(StoreError::Pool(PoolError::DiskFull { path, .. })) => {
                    // The log asks for a single segment, and the batch may need several.
                    let wanted = self.bytes_of(&pending.ops);
                    self.after_full(PoolError::DiskFull { path, wanted }.into(), claim, &mut attempts)?;
                }
                outcome => return outcome,
            }
        }
    }

    /// Queues a commit, and commits it with all others of the queue unless another thread does.
    fn commit_queued(self: &Arc<Self>, pending: &Arc<PendingCommit>) -> Result<Outcome> {
        // The commit is queued before the committer is locked: whoever holds the lock next takes it along,
        // under the same fence.
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::clone(pending));
        let mut committer = self.committer();
        if let Some(outcome) = pending.take() {
            return outcome;
        }
        // An overdue checkpoint is waited for as long as it takes, since the log after it is what opening
        // has to replay. Back-pressure only saves space, so it ends after a while.
        let begun = Instant::now();
        while self.is_overdue(&committer) || self.is_ahead_of_keeper() && begun.elapsed() < LONGEST_WAIT {
            let _waits = self.turns.wait();
            self.work.notify_all();
            let waited = self.progress.wait_timeout(committer, LOOK_AGAIN);
            committer = waited.unwrap_or_else(PoisonError::into_inner).0;
            if let Some(outcome) = pending.take() {
                return outcome;
            }
        }
        // Taken only now, so that commits that were queued during the wait share the fence.
        let group = std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner));
        let written = committer.log.written();
        self.commit_group(&mut committer, &group);
        self.count_appended(committer.log.written() - written);
        let is_due = self.is_checkpoint_due(&committer);
        let is_reserve_low = self.is_reserve_low();
        // Maintenance is locked before the committer, never while it is held.
        drop(committer);
        if self.options.background {
            if is_due || is_reserve_low {
                self.work.notify_all();
            }
        } else if is_due && let Err(error) = self.maintain() {
            // The commit is durable. What is due is tried again with the next one.
            tracing::warn!(%error, "the stores could not be maintained");
        }
        if is_reserve_low && !self.options.background {
            self.fill_reserve();
        }
        pending
            .take()
            .unwrap_or_else(|| unreachable!("it was in the group"))
    }

    fn commit_group(&self, committer: &mut Committer, group: &[Arc<PendingCommit>]) {
        // A merge or a comparison may depend on a value that an earlier batch of the group has written. That
        // is in no tree yet, so the overlay has to keep it.
        let needs_values = group.iter().any(|pending| {
            let merges = pending.ops.iter().any(|op| matches!(op, BatchOp::Merge { .. }));
            merges || matches!(pending.condition, Some(CommitCondition::Value { .. }))
        });
        // The batches of a group share one look at the file. If it is gone, each looks again, for its error.
        let trusted = if group.len() > 1 && self.slab.pool().check_place(Duration::ZERO).is_err() {
            Duration::ZERO
        } else {
            PLACE_TRUSTED
        };
        let is_deferred = !self.options.durable_commits;
        committer.log.set_deferring(is_deferred);
        let (mut overlay, mut staged, mut durable) = (Overlay::default(), Vec::new(), Vec::new());
        for pending in group {
            let outcome = self.writable().and_then(|()| {
                self.slab.pool().check_place(trusted)?;
                let mark = committer.log.mark();
                let before = staged.len();
                let kept = self.kept_beside(committer, pending.claim, &pending.ops)?;
                committer.log.keep_free(kept);
                let appended = self.append(committer, &mut overlay, &mut staged, pending, needs_values);
                if !matches!(appended, Ok(Outcome::Committed)) {
                    // Records of the batch may be in the log already. The next fence must not make them
                    // durable.
                    staged.truncate(before);
                    self.take_back(committer, mark)?;
                }
                appended
            });
            match outcome {
                Ok(Outcome::Committed) => durable.push(pending),
                other => pending.set(other),
            }
        }
        committer.log.set_deferring(false);
        committer.log.keep_free(0);
        if durable.is_empty() {
            return;
        }
        if injected(StoreFault::ApplyEarly) {
            self.publish(committer, std::mem::take(&mut staged));
        }
        let ranges = std::mem::take(&mut overlay.ranges);
        // Unless the options defer durability, no caller learns of a commit and no reader sees it before the
        // fence: power loss could still undo it.
        let fenced = if is_deferred {
            Ok(())
        } else {
            self.fence_log(committer)
        };
        let result = match fenced {
            Ok(()) => {
                // Readers see neither ranges nor records of a newer commit than `visible`, which is advanced
                // last.
                self.hide(ranges);
                self.publish(committer, staged);
                None
            }
            // The frames may be durable nevertheless, which only the next opening finds out. They are neither
            // published nor taken back.
            Err(error) => Some(error.to_string()),
        };
        for pending in durable {
            pending.set(match &result {
                None => Ok(Outcome::Committed),
                Some(reason) => Err(StoreError::Poisoned {
                    reason: reason.clone(),
                }),
            });
        }
    }

    /// Compares the condition and appends the records of a batch.
    fn append(
        &self,
        committer: &mut Committer,
        overlay: &mut Overlay,
        staged: &mut Vec<Staged>,
        pending: &PendingCommit,
        needs_values: bool,
    ) -> Result<Outcome> {
        if let Some(condition) = &pending.condition
            && !self.holds(overlay, condition)?
        {
            return Ok(Outcome::Failed);
        }
        let (commit, written) = (committer.commit + 1, committer.log.written());
        let mut appender = Appender {
            state: self,
            committer,
            group: overlay,
            // Kept apart from the group until the batch is complete: a batch that fails leaves nothing
            // behind.
            batch: Overlay::default(),
            staged,
            commit,
            needs_values,
            begun: false,
        };
        for op in &pending.ops {
            appender.append(op)?;
        }
        let (begun, batch) = (appender.begun, appender.batch);
        // A batch without any record, such as the deletion of a key that is absent, is no commit.
        if begun {
            committer.log.end(self.medium());
            committer.commit = commit;
            committer.pending_bytes += committer.log.written() - written;
        }
        overlay.extend(batch);
        Ok(Outcome::Committed)
    }

    fn holds(&self, overlay: &Overlay, condition: &CommitCondition) -> Result<bool> {
        match condition {
            CommitCondition::Unchanged(watched) => self.validate(overlay, watched).map(|()| true),
            CommitCondition::Value { store, key, expected } => {
                store.is_one_of(self)?;
                let value = self.current_value(&[overlay], store, key)?;
                Ok(value.as_deref() == expected.as_deref())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use halocline_pool::{Pool, PoolOptions};

    use super::*;
    use crate::{Stores, StoresOptions};

    /// A single commit would still trust that the file is there.
    #[test]
    fn a_group_is_refused_as_soon_as_the_file_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.pool");
        let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
        let options = StoresOptions::default().with_background(false);
        let stores = Stores::open_with(&pool, options).unwrap();
        let store = stores.store("s").unwrap();
        let put = |key: u8| {
            let op = BatchOp::Put {
                store: Arc::clone(&store.state),
                key: vec![key],
                value: vec![key],
                expires: None,
            };
            Arc::new(PendingCommit {
                ops: vec![op],
                condition: None,
                claim: SegmentClaim::Values,
                outcome: Mutex::default(),
            })
        };
        pool.check_place(Duration::ZERO).unwrap();
        std::fs::remove_file(&path).unwrap();
        let state = &stores.handle.state;
        let [first, second] = [put(1), put(2)];
        state.queue.lock().unwrap().push(Arc::clone(&first));
        let outcomes = [state.commit_queued(&second), first.take().unwrap()];
        for outcome in outcomes {
            let is_gone = matches!(outcome, Err(StoreError::Pool(PoolError::FileGone { .. })));
            assert!(is_gone, "{outcome:?}");
        }
        assert_eq!(store.len(), 0);
    }
}
