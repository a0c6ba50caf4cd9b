//! Commits together with a transaction of the pool.
//!
//! The generation that the pool's transaction publishes is the commit record of both: it has an object with
//! the batch for the stores, [`DecidedBatch`]. The committer stays locked from the comparison of the
//! conditions to the end, so the batch becomes the commit whose number is in the object. Readers beside the
//! writer see it as well, see [`crate::observer`].
//!
//! Invariants: at most one batch is decided and not in the log, and opening the stores commits it before
//! anything else. All commits before it are durable when it is decided, also those that
//! [need not be](crate::StoresOptions::durable_commits) when they return.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use halocline_pool::{ExtentBytes, Object, ObjectKind, Pool, PoolError, Txn};
use zerocopy::{FromBytes, IntoBytes};

use crate::append::{Appender, Overlay};
use crate::commit::BatchOp;
use crate::committer::Committer;
use crate::error::{Result, StoreError};
use crate::fault::{StoreFault, die_if, injected};
use crate::layout::{
    DECIDED, DECIDED_VERSION, DecidedHead, DecidedOp, MAX_KEY, MAX_NUMBER, MAX_VALUE, NO_VALUE,
};
use crate::reads::WatchedReads;
use crate::room::SegmentClaim;
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

/// A batch that was decided, and may not be in the log.
pub(crate) struct DecidedObject {
    object: Object,
    bytes: ExtentBytes,
    head: DecidedHead,
}

impl DecidedObject {
    /// Returns the batch that the newest generation decides, which may be in the log.
    ///
    /// # Errors
    /// The object is damaged; the pool cannot be read.
    pub(crate) fn newest(pool: &Pool) -> Result<Option<Self>> {
        let object = match pool.snapshot()?.object(DECIDED) {
            Ok(object) => object,
            Err(PoolError::NoSuchObject { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let bytes = object.extent_verified(0)?;
        let head = DecidedHead::read_from_prefix(&bytes).map_err(|_| damaged(pool, &object))?;
        let head = head.0;
        if head.version.get() > DECIDED_VERSION {
            return Err(StoreError::NewerFormat {
                path: pool.path().to_path_buf(),
                found: head.version.get(),
                supported: DECIDED_VERSION,
            });
        }
        if head.commit.get() >= MAX_NUMBER {
            return Err(damaged(pool, &object));
        }
        Ok(Some(Self { object, bytes, head }))
    }

    /// Returns the number of the commit that the batch is.
    pub(crate) fn commit(&self) -> u64 {
        self.head.commit.get()
    }
}

impl StoresState {
    /// Commits puts and deletions if nothing has changed that the reads name, which were compared with the
    /// trees before, and `decide` succeeds, which commits a transaction that the batch was put into.
    ///
    /// # Errors
    /// That of `decide`, and those of [`commit`](Self::commit): nothing has changed. After an error of the
    /// medium after `decide` the batch is committed when the pool is opened again.
    pub(crate) fn commit_watched<E: From<StoreError>>(
        self: &Arc<Self>,
        ops: &[BatchOp],
        watched: &WatchedReads,
        decide: impl FnOnce(&DecidedBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let claim = SegmentClaim::for_batch(ops);
        let mut attempts = 0;
        let overlay = Overlay::default();
        let (mut committer, mark, written, commit, staged, begun) = loop {
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
            self.validate(&overlay, watched)?;
            // The batch is durable with the decision, and must not outlive the commits before it.
            if !committer.log.is_fenced() && !injected(StoreFault::DecideUnfenced) {
                self.fence_log(&mut committer).map_err(StoreError::from)?;
            }
            let (mark, written) = (committer.log.mark(), committer.log.written());
            let commit = committer.commit + 1;
            let mut staged = Vec::new();
            // The caller has the writer's lock of the pool, so the slab cannot grow now.
            let kept = if self.is_pressed() {
                self.kept_by(&committer, claim)
            } else {
                0
            };
            committer.log.keep_free(kept);
            let mut appender = Appender {
                state: self,
                committer: &mut committer,
                group: &overlay,
                batch: Overlay::default(),
                staged: &mut staged,
                commit,
                needs_values: false,
                begun: false,
            };
            // All space is allocated before the decision. What is in the log does not count before its last
            // frame.
            let appended = ops.iter().try_for_each(|op| appender.append(op));
            let begun = appender.begun;
            committer.log.keep_free(0);
            match appended {
                Ok(()) => break (committer, mark, written, commit, staged, begun),
                Err(error) => {
                    self.take_back(&mut committer, mark)?;
                    drop(committer);
                    self.after_full(error, claim, &mut attempts)?;
                }
            }
        };
        let batch = DecidedBatch {
            bytes: if begun {
                encode(committer.log.secret(), commit, ops)
            } else {
                Vec::new()
            },
        };
        if injected(StoreFault::EndEarly) {
            committer.log.end(self.medium());
        }
        let decided = decide(&batch);
        // A generation whose commit is not acknowledged, because its file has gone, is published all the
        // same: what it decides is committed, or the other half of the transaction would be there alone.
        let is_published = decided.is_ok() || self.has_published(&committer, commit);
        if !begun || !is_published {
            self.take_back(&mut committer, mark)?;
            return decided;
        }
        die_if(StoreFault::DieDecided);
        committer.log.end(self.medium());
        committer.commit = commit;
        die_if(StoreFault::DieLogged);
        committer.pending_bytes += committer.log.written() - written;
        self.fence_log(&mut committer).map_err(StoreError::from)?;
        die_if(StoreFault::DieFenced);
        self.publish(&mut committer, staged);
        if self.is_checkpoint_due(&committer) {
            self.work.notify_all();
        }
        decided
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
            // The batch must become the commit that the object names, or the next opening would commit it
            // again.
            committer.commit = pending.commit() - 1;
            self.visible.store(committer.commit, Ordering::Release);
        }
        let ops = self.ops_of(&pending)?;
        self.commit(ops, None, SegmentClaim::All).map(drop)
    }

    /// Returns the operations of a batch.
    ///
    /// # Errors
    /// It is damaged.
    pub(crate) fn ops_of(&self, pending: &DecidedObject) -> Result<Vec<BatchOp>> {
        let rest = &pending.bytes[size_of::<DecidedHead>()..];
        let ops = self.decode(rest, pending.head.ops.get());
        ops.ok_or_else(|| damaged(self.slab.pool(), &pending.object))
    }

    /// Returns the batch that was decided and is not in the log, if there is one.
    ///
    /// # Errors
    /// The object is damaged.
    fn pending_batch(&self) -> Result<Option<DecidedObject>> {
        let decided = DecidedObject::newest(self.slab.pool())?;
        Ok(decided.filter(|batch| self.lacks(batch)))
    }

    /// Returns true unless the log has the batch.
    pub(crate) fn lacks(&self, batch: &DecidedObject) -> bool {
        let committer = self.committer();
        let is_in_log = committer.commit >= batch.commit();
        // Stores that were made anew since have another secret.
        !is_in_log
            && batch.head.secret.get() == committer.log.secret()
            && !injected(StoreFault::ForgetDecided)
    }

    fn decode(&self, mut rest: &[u8], count: u64) -> Option<Vec<BatchOp>> {
        let stores: Vec<_> = self.stores().values().cloned().collect();
        let mut ops = Vec::new();
        for _ in 0..count {
            let (op, after) = DecidedOp::read_from_prefix(rest).ok()?;
            let store = stores.iter().find(|store| store.id == op.store.get())?.clone();
            let key_len = Some(op.key_len.get() as usize).filter(|len| *len <= MAX_KEY)?;
            let (key, after) = after.split_at_checked(key_len)?;
            let key = key.to_vec();
            let (value, after) = match op.value_len.get() {
                NO_VALUE => (None, after),
                len => {
                    let len = Some(len as usize).filter(|len| *len <= MAX_VALUE)?;
                    let (value, after) = after.split_at_checked(len)?;
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

fn damaged(pool: &Pool, object: &Object) -> StoreError {
    StoreError::Damaged {
        path: pool.path().to_path_buf(),
        offset: object.extent_ref(0).offset,
        what: "the batch of a transaction is not what was written",
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
        version: DECIDED_VERSION.into(),
        reserved: 0.into(),
        secret: secret.into(),
        commit: commit.into(),
        ops: count.into(),
    };
    [head.as_bytes(), &bytes].concat()
}
