//! Deletion of the keys that [deleted ranges](crate::deleted_ranges) hide, one by one.
//!
//! The thread that has deleted a range does it, or the keeper. Commits go on between the steps. The deletions
//! need no fence of their own: until they are durable, the range hides the keys.

use std::ops::ControlFlow;
use std::sync::{Arc, PoisonError};

use crate::append::Staged;
use crate::commit::LOOK_AGAIN;
use crate::committer::Committer;
use crate::deleted_ranges::DeletedRange;
use crate::error::Result;
use crate::key_range::KeyRange;
use crate::layout::RECORD_DELETED;
use crate::record::{NewRecord, RecordRef};
use crate::room::SegmentClaim;
use crate::scan::{Direction, NewestRecord, StepSize, StepSpace};
use crate::state::{StoreState, StoresState};

impl StoresState {
    /// Deletes the keys of all deleted ranges, in steps between which others commit. Waits for checkpoints
    /// that are due.
    ///
    /// # Errors
    /// Damage, a full disk, and errors of the medium: the keys are hidden, and are deleted later.
    pub(crate) fn finish_deleted_ranges(&self) -> Result<()> {
        if self.slab.is_read_only() {
            return Ok(());
        }
        let mut stores = self.with_deleted_ranges();
        if stores.is_empty() {
            return Ok(());
        }
        let _one_at_a_time = self.deleting.lock().unwrap_or_else(PoisonError::into_inner);
        self.settle()?;
        while let Some(store) = stores.pop() {
            while self.delete_step(&store)? {
                self.make_room()?;
            }
        }
        Ok(())
    }

    /// Waits until no checkpoint is due, or makes one that is.
    fn make_room(&self) -> Result<()> {
        let mut committer = self.committer();
        if !self.options.background {
            let is_due = self.is_checkpoint_due(&committer);
            drop(committer);
            if is_due {
                self.maintain()?;
            }
            return Ok(());
        }
        // Earlier than other commits, for which the deletions leave room.
        while self.is_checkpoint_due(&committer) && self.is_keeper_able() {
            self.work.notify_all();
            let waited = self.progress.wait_timeout(committer, LOOK_AGAIN);
            committer = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Deletes keys of deleted ranges until a checkpoint is due, unless another thread does it. Called by the
    /// keeper. Returns true if there are more.
    ///
    /// # Errors
    /// As [`finish_deleted_ranges`](Self::finish_deleted_ranges).
    pub(crate) fn go_on_deleting(&self) -> Result<bool> {
        let Ok(_one_at_a_time) = self.deleting.try_lock() else {
            return Ok(false);
        };
        for store in self.with_deleted_ranges() {
            self.settle()?;
            while self.delete_step(&store)? {
                if self.is_checkpoint_due(&self.committer()) {
                    return Ok(true);
                }
                self.end_turn();
            }
        }
        Ok(false)
    }

    /// Deletes some keys of the oldest deleted range of a store. Returns false if there is none.
    ///
    /// The deletions wait for the fence of a later commit: until they are durable the range hides the keys.
    pub(crate) fn delete_step(&self, store: &Arc<StoreState>) -> Result<bool> {
        let first = store.read().deleted.first().map(|range| range.deleted().clone());
        let Some(deleted) = first else {
            return Ok(false);
        };
        if deleted.range.is_empty() {
            self.shrink(store, &deleted, None);
            return Ok(true);
        }
        let (keys, rest) = self.hidden_keys(store, &deleted)?;
        let mut attempts = 0;
        loop {
            let mut committer = self.committer();
            self.writable()?;
            if store.is_one_of(self).is_err() {
                return Ok(false);
            }
            match self.delete_hidden(&mut committer, store, deleted.commit, &keys) {
                Ok(()) => {
                    self.shrink(store, &deleted, rest);
                    return Ok(true);
                }
                Err(error) => {
                    drop(committer);
                    self.after_full(error, SegmentClaim::Deletions, &mut attempts)?;
                }
            }
        }
    }

    /// Deletes keys that a range of a commit hides.
    ///
    /// # Errors
    /// No key is deleted.
    fn delete_hidden(
        &self,
        committer: &mut Committer,
        store: &Arc<StoreState>,
        commit: u64,
        keys: &[Vec<u8>],
    ) -> Result<()> {
        let (mark, written) = (committer.log.mark(), committer.log.written());
        let kept = self.kept_by(committer, SegmentClaim::Deletions);
        committer.log.keep_free(kept);
        committer.log.set_deferring(true);
        committer.log.begin(committer.commit, false);
        let appended = self.append_deletions(committer, store, commit, keys);
        let taken_back = match &appended {
            Ok(staged) if !staged.is_empty() => {
                committer.log.end(self.medium());
                Ok(())
            }
            Ok(_) | Err(_) => self.take_back(committer, mark),
        };
        committer.log.keep_free(0);
        committer.log.set_deferring(false);
        taken_back?;
        let staged = appended?;
        if !staged.is_empty() {
            let bytes = committer.log.written() - written;
            committer.pending_bytes += bytes;
            self.count_appended(bytes);
            self.publish(committer, staged);
        }
        Ok(())
    }

    /// Leaves `rest` of a deleted range.
    fn shrink(&self, store: &StoreState, deleted: &DeletedRange, rest: Option<KeyRange>) {
        let mut trees = store.write();
        let Some(at) = trees.deleted.iter().position(|range| range.deleted() == deleted) else {
            return;
        };
        match rest {
            Some(rest) => trees.deleted[at].shrink(rest),
            None => drop(trees.deleted.remove(at)),
        }
    }

    /// Returns the first keys of a deleted range that it hides, and the range after them.
    fn hidden_keys(
        &self,
        store: &StoreState,
        deleted: &DeletedRange,
    ) -> Result<(Vec<Vec<u8>>, Option<KeyRange>)> {
        let (mut keys, mut space) = (Vec::new(), StepSpace::default());
        let size = StepSize(self.options.deleted_at_once);
        let end = store.read().step(
            self,
            &deleted.range,
            Direction::Forward,
            size,
            &mut space,
            |arena, newest| {
                let (key, record) = match &newest {
                    NewestRecord::OfTable(key, record) => (*key, record),
                    NewestRecord::OfLeaf(record, span) => (arena.get(&span.key), record),
                };
                if !record.is_deleted() && record.commit() < deleted.commit {
                    keys.push(key.to_vec());
                }
                Ok(ControlFlow::Continue(()))
            },
        );
        let end = end.map_err(|damage| self.damaged(damage))?;
        Ok((keys, end.rest(deleted.range.clone(), Direction::Forward)))
    }

    /// Appends deletions of those keys whose newest versions are older than a commit.
    fn append_deletions(
        &self,
        committer: &mut Committer,
        store: &Arc<StoreState>,
        commit: u64,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Staged>> {
        let mut staged = Vec::new();
        for key in keys {
            let located = store.read().locate(&self.pages(), key);
            let located = located.map_err(|damage| self.damaged(damage))?;
            let is_hidden = |record: &RecordRef| !record.is_deleted() && record.commit() < commit;
            let Some(located) = located.filter(|located| is_hidden(&located.record)) else {
                continue;
            };
            let record = NewRecord {
                store: store.id,
                commit,
                flags: RECORD_DELETED,
                expires: None,
                prev: located.record.offset,
                key,
                value: &[],
            };
            let record = committer.log.push(&self.slab, &mut self.segments(), &record)?;
            staged.push(Staged {
                store: Arc::clone(store),
                key: key.clone(),
                record,
                commit,
                located: Some(located),
                after_staged: false,
            });
        }
        Ok(staged)
    }
}
