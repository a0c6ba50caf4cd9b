//! Transactions that are about to commit: [`PreparedTransaction`].

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::commit::BatchOp;
use crate::decided::DecidedBatch;
use crate::error::{Result, StoreError};
use crate::reads::WatchedReads;
use crate::store::Store;
use crate::transaction::StoreTransaction;

/// A store that was loaded, and the one whose place it takes.
#[derive(Debug)]
pub(crate) struct Replacement {
    pub(crate) old: Store,
    pub(crate) new: Store,
}

/// A transaction that was compared with all that was committed before: from [`StoreTransaction::prepare`].
/// Dropping it without a commit discards it.
pub struct PreparedTransaction {
    /// Its snapshot keeps deletions since, which its reads are compared with.
    transaction: StoreTransaction,
    ops: Vec<BatchOp>,
    watched: WatchedReads,
    replacements: Vec<Replacement>,
}

impl std::fmt::Debug for PreparedTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedTransaction")
            .field("ops", &self.ops.len())
            .field("replacements", &self.replacements)
            .finish_non_exhaustive()
    }
}

impl PreparedTransaction {
    pub(crate) fn new(
        transaction: StoreTransaction,
        ops: Vec<BatchOp>,
        watched: WatchedReads,
        replacements: Vec<Replacement>,
    ) -> Self {
        Self {
            transaction,
            ops,
            watched,
            replacements,
        }
    }

    /// Commits the transaction as [`StoreTransaction::commit`] does. Returns the number of the first commit
    /// that sees it.
    ///
    /// # Errors
    /// Those of [`StoreTransaction::commit`].
    pub fn commit(self) -> Result<u64> {
        let pool = self.transaction.stores().state.slab.pool().clone();
        self.commit_with(|_| Ok::<_, StoreError>(pool.check_place(Duration::ZERO)?))
    }

    /// Commits the transaction together with one of the pool, as [`StoreTransaction::commit_with`] does.
    /// Returns the number of the first commit that sees it.
    ///
    /// # Errors
    /// Those of [`StoreTransaction::commit_with`].
    pub fn commit_with<E: From<StoreError>>(
        self,
        decide: impl FnOnce(&DecidedBatch) -> Result<(), E>,
    ) -> Result<u64, E> {
        let state = &self.transaction.stores().state;
        let mut since = 0;
        state.commit_watched(&self.ops, &self.watched, |batch| {
            // No other commit goes on meanwhile.
            since = state.visible.load(Ordering::Acquire) + 1;
            for Replacement { new, .. } in &self.replacements {
                new.state.since.store(since, Ordering::Release);
            }
            decide(batch)?;
            for Replacement { old, .. } in &self.replacements {
                // Only after the decision: if that fails, the old store stays in use.
                old.state.retired.store(true, Ordering::Release);
            }
            Ok::<_, E>(())
        })?;
        Ok(since)
    }
}
