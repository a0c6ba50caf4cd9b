//! Commits together with a transaction of the pool.
//!
//! The generation that the pool's transaction publishes is the commit record of both: it has an object with
//! the batch for the stores, [`DecidedBatch`]. The committer stays locked from the comparison of the
//! conditions to the end, so the batch becomes the commit whose number is in the object. Invariant: at most
//! one batch is decided and not in the log, and opening the stores commits it before anything else.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use halocline_pool::{ExtentBytes, Object, ObjectKind, PoolError, Txn};
use zerocopy::{FromBytes, IntoBytes};

use crate::append::{Appender, Overlay};
use crate::commit::{BatchOp, CommitCondition, Committer, Outcome};
use crate::error::{Result, StoreError};
use crate::fault::{StoreFault, injected};
use crate::layout::{DECIDED, DecidedHead, DecidedOp, NO_VALUE, VERSION};
use crate::state::StoresState;

/// The changes to stores that a transaction of the pool commits with its own.
#[derive(Debug)]
pub struct DecidedBatch {
    /// Empty if there are no changes.
    bytes: Vec<u8>,
}

impl DecidedBatch {
    /// Adds the changes to a transaction of the pool that has the stores. They are committed if it is.
    ///
    /// # Errors
    /// Those of [`Txn::alloc`] and [`Txn::put`].
    pub fn put_into(&self, txn: &Txn) -> Result<(), PoolError> {
        if self.bytes.is_empty() || injected(StoreFault::Undecided) {
            return Ok(());
        }
        let len = self.bytes.len() as u64;
        let mut extent = txn.alloc(len)?;
        extent.append(&self.bytes);
        let extent = extent.finish(len)?;
        txn.put(DECIDED, ObjectKind::BATCH, &[], vec![extent])
    }
}

/// A batch that was decided and is not in the log.
struct PendingBatch {
    object: Object,
    bytes: ExtentBytes,
    head: DecidedHead,
}

impl StoresState {
    /// Commits puts and deletions if all conditions hold and `decide` succeeds, which commits a transaction
    /// that the batch was put into.
    ///
    /// # Errors
    /// That of `decide`, and those of [`commit`](Self::commit): nothing has changed. After an error of the
    /// medium behind `decide` the batch is committed when the pool is opened again.
    pub(crate) fn commit_decided<E: From<StoreError>>(
        self: &Arc<Self>,
        ops: &[BatchOp],
        conditions: &[CommitCondition],
        decide: impl FnOnce(&DecidedBatch) -> Result<(), E>,
    ) -> Result<Outcome, E> {
        let mut committer = self.committer();
        while self.is_overdue(&committer) {
            let _waits = self.turns.wait();
            self.work.notify_all();
            committer = self
                .progress
                .wait(committer)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        self.writable()?;
        let overlay = Overlay::new();
        for (at, condition) in conditions.iter().enumerate() {
            if !self.holds(&overlay, condition)? {
                return Ok(Outcome::Failed(at));
            }
        }
        let (mark, written) = (committer.log.mark(), committer.log.written());
        let commit = committer.commit + 1;
        let mut staged = Vec::new();
        let mut appender = Appender {
            state: self,
            committer: &mut committer,
            group: &overlay,
            batch: Overlay::new(),
            staged: &mut staged,
            commit,
            needs_values: false,
            begun: false,
        };
        // All space is allocated before the decision. What is in the log does not count before its last
        // frame.
        let appended = ops.iter().try_for_each(|op| appender.append(op));
        let begun = appender.begun;
        let batch = DecidedBatch {
            bytes: match begun {
                true => encode(committer.log.secret(), commit, ops),
                false => Vec::new(),
            },
        };
        if injected(StoreFault::EndEarly) {
            committer.log.end(self.medium());
        }
        let decided = appended.map_err(E::from).and_then(|()| decide(&batch));
        // A generation whose commit is not acknowledged, because its file has gone, is published all the same:
        // what it decides is committed, or the other half of the transaction would be there alone.
        let is_published = decided.is_ok() || self.has_published(&committer, commit);
        if !begun || !is_published {
            committer.log.take_back(mark);
            return decided.map(|()| Outcome::Committed);
        }
        committer.log.end(self.medium());
        committer.commit = commit;
        committer.pending_bytes += committer.log.written() - written;
        self.fence_log(&mut committer).map_err(StoreError::from)?;
        self.publish(&mut committer, staged);
        if self.is_checkpoint_due(&committer) {
            self.work.notify_all();
        }
        decided.map(|()| Outcome::Committed)
    }

    /// Returns true if the newest generation decides a commit.
    fn has_published(&self, committer: &Committer, commit: u64) -> bool {
        let newest = self.slab.pool().snapshot();
        let object = newest.and_then(|newest| newest.object(DECIDED));
        let Ok(bytes) = object.and_then(|object| object.extent_verified(0)) else {
            return false;
        };
        let head = DecidedHead::read_from_prefix(&bytes);
        head.is_ok_and(|(head, _)| head.commit.get() == commit && head.secret.get() == committer.log.secret())
    }

    /// Commits the batch that was decided before a crash and is not in the log, if there is one.
    ///
    /// # Errors
    /// The object is damaged, or [`commit`](Self::commit) fails.
    pub(crate) fn commit_what_was_decided(self: &Arc<Self>) -> Result<()> {
        let Some(pending) = self.pending_batch()? else {
            return Ok(());
        };
        {
            let mut committer = self.committer();
            committer.commit = pending.head.commit.get() - 1;
            self.visible.store(committer.commit, Ordering::Release);
        }
        let rest = &pending.bytes[size_of::<DecidedHead>()..];
        let ops = self.decode(rest, pending.head.ops.get());
        let ops = ops.ok_or_else(|| self.damaged_batch(&pending.object))?;
        self.commit(ops, Vec::new()).map(drop)
    }

    /// Returns true if a batch was decided that is not in the log.
    ///
    /// # Errors
    /// The object is damaged.
    pub(crate) fn has_pending_batch(&self) -> Result<bool> {
        Ok(self.pending_batch()?.is_some())
    }

    fn pending_batch(&self) -> Result<Option<PendingBatch>> {
        let pool = self.slab.pool();
        let object = match pool.snapshot()?.object(DECIDED) {
            Ok(object) => object,
            Err(PoolError::NoSuchObject { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let bytes = object.extent_verified(0)?;
        let head = DecidedHead::read_from_prefix(&bytes).map_err(|_| self.damaged_batch(&object))?;
        let head = head.0;
        if head.version.get() > VERSION {
            return Err(StoreError::NewerFormat {
                path: pool.path().to_path_buf(),
                found: head.version.get(),
                supported: VERSION,
            });
        }
        let committer = self.committer();
        let is_in_log = committer.commit >= head.commit.get();
        // Stores that were made anew since have another secret.
        let is_pending = !is_in_log && head.secret.get() == committer.log.secret();
        let is_pending = is_pending && !injected(StoreFault::ForgetDecided);
        Ok(is_pending.then_some(PendingBatch { object, bytes, head }))
    }

    fn damaged_batch(&self, object: &Object) -> StoreError {
        StoreError::Damaged {
            path: self.slab.pool().path().to_path_buf(),
            offset: object.extent_ref(0).offset,
            what: "the batch of a transaction is not what was written",
        }
    }

    fn decode(&self, mut rest: &[u8], count: u64) -> Option<Vec<BatchOp>> {
        let stores: Vec<_> = self.stores().values().cloned().collect();
        let mut ops = Vec::new();
        for _ in 0..count {
            let (op, after) = DecidedOp::read_from_prefix(rest).ok()?;
            let store = stores.iter().find(|store| store.id == op.store.get())?.clone();
            let (key, after) = after.split_at_checked(op.key_len.get() as usize)?;
            let key = key.to_vec();
            let (value, after) = match op.value_len.get() {
                NO_VALUE => (None, after),
                len => {
                    let (value, after) = after.split_at_checked(len as usize)?;
                    (Some(value.to_vec()), after)
                }
            };
            ops.push(match value {
                Some(value) => BatchOp::Put {
                    store,
                    key,
                    value,
                    expires: None,
                },
                None => BatchOp::Delete { store, key },
            });
            rest = after;
        }
        rest.is_empty().then_some(ops)
    }
}

/// Encodes puts and deletions; transactions have no others.
fn encode(secret: u64, commit: u64, ops: &[BatchOp]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut count = 0_u64;
    for op in ops {
        let (store, key, value) = match op {
            BatchOp::Put {
                store, key, value, ..
            } => (store, key, Some(value)),
            BatchOp::Delete { store, key } => (store, key, None),
            BatchOp::Merge { .. } | BatchOp::DeleteRange { .. } => continue,
        };
        let head = DecidedOp {
            store: store.id.into(),
            key_len: (key.len() as u32).into(),
            value_len: value.map_or(NO_VALUE, |value| value.len() as u32).into(),
        };
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value.map_or(&[], Vec::as_slice));
        count += 1;
    }
    let head = DecidedHead {
        version: VERSION.into(),
        reserved: 0.into(),
        secret: secret.into(),
        commit: commit.into(),
        ops: count.into(),
    };
    [head.as_bytes(), &bytes].concat()
}
