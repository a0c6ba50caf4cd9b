//! Replay: the records of the log behind a checkpoint are put into the memtables, and counted.
//!
//! Opening reads no leaf for it, so it takes as long for large stores as for small ones: the newest record of
//! each key is in the log, and what it superseded there is, too. What the first record of a key behind the
//! checkpoint superseded is looked up [later](crate::settle). Until then the key counts twice.
//!
//! Invariant: a record of the log is counted as needed when the stores are open, so that a commit that
//! supersedes it can count it as not needed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::commit::Committer;
use crate::fault::{StoreFault, injected};
use crate::log::FoundFrame;
use crate::memtable::MemEntry;
use crate::record::RecordRef;
use crate::settle::UnsettledKey;
use crate::state::{StoreState, StoresState};
use crate::tree::Damage;

/// A key of the log behind the checkpoint.
struct ReplayedKey {
    unsettled: UnsettledKey,
    /// The newest version behind the checkpoint, if there is one.
    newest: Option<RecordRef>,
}

/// The keys so far, by store and key.
type Replayed = HashMap<(u32, Vec<u8>), ReplayedKey>;

impl StoresState {
    /// Puts the records of the log behind the checkpoint into the memtables.
    pub(crate) fn replay(&self, batches: &[Vec<FoundFrame>]) -> Result<(), Damage> {
        let mut committer = self.committer();
        let mut replayed = Replayed::new();
        let mut of_before: Option<Arc<StoreState>> = None;
        for frame in batches.iter().flatten() {
            for record in frame.records.iter().filter(|record| !record.is_chunk()) {
                let id = record.head.store.get();
                of_before = of_before
                    .filter(|store| store.id == id)
                    .or_else(|| self.store_of(id));
                let Some(store) = &of_before else {
                    continue;
                };
                let key = match replayed.entry((id, record.key(self.medium()))) {
                    Entry::Occupied(entry) => entry.into_mut(),
                    Entry::Vacant(entry) => {
                        let unsettled = UnsettledKey::new(store, &entry.key().1);
                        entry.insert(ReplayedKey {
                            unsettled,
                            newest: None,
                        })
                    }
                };
                match frame.is_moved() {
                    true => self.replay_moved(key, record)?,
                    false => self.replay_record(&mut committer, key, record)?,
                }
            }
        }
        let mut unsettled = Vec::with_capacity(replayed.len());
        for ReplayedKey {
            unsettled: key,
            newest,
        } in replayed.into_values()
        {
            if let Some(newest) = newest {
                let entry = MemEntry::Record(newest.offset);
                key.store.write().active.set(&key.key, entry);
            }
            unsettled.push(key);
        }
        self.set_unsettled(unsettled);
        Ok(())
    }

    fn replay_record(
        &self,
        committer: &mut Committer,
        replayed: &mut ReplayedKey,
        record: &RecordRef,
    ) -> Result<(), Damage> {
        let UnsettledKey {
            store, key, first, ..
        } = &mut replayed.unsettled;
        let before = replayed.newest.replace(*record);
        match &before {
            Some(before) => self.forget(before)?,
            None => *first = Some(*record),
        }
        self.remember(record)?;
        self.count(store, before.as_ref(), record)?;
        committer.pending_records += 1;
        if record.is_deleted() {
            committer
                .deletions
                .push((Arc::clone(store), key.clone(), record.commit()));
        }
        Ok(())
    }

    fn replay_moved(&self, replayed: &mut ReplayedKey, copy: &RecordRef) -> Result<(), Damage> {
        match &mut replayed.newest {
            // Of which version of the checkpoint it is, and whether an entry leads to it, is looked up later.
            None => replayed.unsettled.copies.push(*copy),
            Some(newest) if newest.commit() == copy.commit() || injected(StoreFault::ReplayMoved) => {
                self.forget(newest)?;
                *newest = *copy;
            }
            Some(_) => return Ok(()),
        }
        self.remember(copy)
    }
}
