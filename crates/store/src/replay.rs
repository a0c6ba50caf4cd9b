//! Replay: the records of the log behind a checkpoint are put into the trees, and counted.
//!
//! Invariant: the counters become what they were. What a record superseded is the record of its key that was
//! replayed before; for the first one of a key, the leaf's entry of the checkpoint. If commits have replaced
//! that entry since, `prev` leads there: the first version of a key behind a checkpoint keeps it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::commit::Committer;
use crate::fault::{StoreFault, injected};
use crate::log::FoundFrame;
use crate::record::RecordRef;
use crate::state::{Located, StoreState, StoresState};
use crate::tree::Damage;

/// The newest replayed record of each key, by store and key.
type Replayed = HashMap<(u32, Vec<u8>), RecordRef>;

impl StoresState {
    /// Puts the records of the log behind the checkpoint into the trees.
    pub(crate) fn replay(&self, batches: &[Vec<FoundFrame>]) -> Result<(), Damage> {
        let mut committer = self.committer();
        let mut replayed = Replayed::new();
        for frame in batches.iter().flatten() {
            for record in frame.records.iter().filter(|record| !record.is_chunk()) {
                let Some(store) = self.store_of(record.head.store.get()) else {
                    continue;
                };
                match frame.is_moved() {
                    true => self.replay_moved(&mut committer, &mut replayed, &store, record)?,
                    false => self.replay_record(&mut committer, &mut replayed, &store, record)?,
                }
            }
        }
        Ok(())
    }

    fn replay_record(
        &self,
        committer: &mut Committer,
        replayed: &mut Replayed,
        store: &Arc<StoreState>,
        record: &RecordRef,
    ) -> Result<(), Damage> {
        let medium = self.medium();
        let key = record.key(medium);
        let mut trees = store.write();
        let located = trees.locate(medium, &key)?;
        let before = replayed.insert((store.id, key.clone()), *record);
        let old = before.or_else(|| self.at_checkpoint(located.as_ref(), record, &key));
        if let Some(old) = &old {
            self.forget(old)?;
        }
        self.remember(record)?;
        self.count(store, old.as_ref(), record)?;
        if located.is_none_or(|located| located.record.commit() <= record.commit()) {
            let slot = located.and_then(|located| located.slot);
            committer.point(&mut trees, medium, &key, slot, record.offset);
        }
        if record.is_deleted() {
            committer
                .deletions
                .push((Arc::clone(store), key, record.commit()));
        }
        Ok(())
    }

    /// Returns what the first record of a key behind the checkpoint superseded.
    fn at_checkpoint(&self, located: Option<&Located>, record: &RecordRef, key: &[u8]) -> Option<RecordRef> {
        let checkpoint = self.frozen.load(Ordering::Acquire);
        let is_of_checkpoint = |found: &RecordRef| found.commit() <= checkpoint;
        let entry = located.map(|located| located.record).filter(is_of_checkpoint);
        entry.or_else(|| match record.head.prev.get() {
            0 => None,
            prev => {
                let old = RecordRef::load(self.medium(), prev).filter(is_of_checkpoint);
                old.filter(|old| old.is_of(self.medium(), key))
            }
        })
    }

    fn replay_moved(
        &self,
        committer: &mut Committer,
        replayed: &mut Replayed,
        store: &Arc<StoreState>,
        record: &RecordRef,
    ) -> Result<(), Damage> {
        let medium = self.medium();
        let key = record.key(medium);
        let mut trees = store.write();
        let located = trees.locate(medium, &key)?;
        if let Some(before) = replayed.get_mut(&(store.id, key.clone()))
            && before.commit() == record.commit()
        {
            *before = *record;
        }
        let Some(located) = located else {
            return Ok(());
        };
        let is_same = located.record.commit() == record.commit() || injected(StoreFault::ReplayMoved);
        if is_same && located.record.offset != record.offset {
            self.forget(&located.record)?;
            self.remember(record)?;
            committer.point(&mut trees, medium, &key, located.slot, record.offset);
        }
        Ok(())
    }
}
