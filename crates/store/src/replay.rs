//! Replay: the records of the log after a checkpoint are put into the memtables, and counted.
//!
//! Opening reads no leaf for it, so it takes as long for large stores as for small ones: the newest record of
//! each key is in the log, and what it superseded there is, too. What the first record of a key after the
//! checkpoint superseded is looked up [later](crate::settle). Until then the key counts twice.
//!
//! Invariant: a record of the log is counted as needed when the stores are open, so that a commit that
//! supersedes it can count it as not needed.

use std::collections::HashMap;
use std::sync::Arc;

use crate::committer::Deletion;
use crate::fault::{StoreFault, injected};
use crate::log::LogFrame;
use crate::memtable::MemEntry;
use crate::record::RecordRef;
use crate::settle::UnsettledKey;
use crate::state::{StoreState, StoresState};
use crate::tree::Damage;

/// The records of a key in the log after the checkpoint.
struct ReplayedKey {
    store: Arc<StoreState>,
    /// The first version after the checkpoint.
    first: Option<RecordRef>,
    /// The newest one.
    newest: Option<RecordRef>,
    /// Copies of versions of the checkpoint.
    copies: Vec<RecordRef>,
}

/// The keys so far, by store and key.
type Replayed = HashMap<(u32, Vec<u8>), ReplayedKey>;

impl StoresState {
    /// Puts the records of the log after the checkpoint into the memtables.
    pub(crate) fn replay(&self, batches: &[Vec<LogFrame>]) -> Result<(), Damage> {
        let mut committer = self.committer();
        let records: usize = batches.iter().flatten().map(|frame| frame.records.len()).sum();
        let mut replayed = Replayed::with_capacity(records);
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
                if record.is_range() {
                    self.replay_range(store, record)?;
                    continue;
                }
                let key = record.key(self.medium());
                if record.is_deleted() && !frame.is_moved() {
                    committer.add_deletion(Deletion {
                        store: Arc::clone(store),
                        key: key.clone(),
                        commit: record.commit(),
                    });
                }
                let key = replayed.entry((id, key)).or_insert_with(|| ReplayedKey {
                    store: Arc::clone(store),
                    first: None,
                    newest: None,
                    copies: Vec::new(),
                });
                if frame.is_moved() {
                    self.replay_moved(key, record)?
                } else {
                    self.replay_record(key, record)?;
                    committer.pending_records += 1;
                }
            }
        }
        let mut unsettled = Vec::with_capacity(replayed.len());
        for ((_, key), replayed) in replayed {
            let ReplayedKey {
                store,
                first,
                newest,
                copies,
            } = replayed;
            if let Some(newest) = newest {
                let mut trees = store.write();
                trees.note_newer(&key, &newest);
                trees.active.set(&key, MemEntry::Record(newest.offset));
            }
            unsettled.push(UnsettledKey {
                store,
                key,
                first,
                copies,
            });
        }
        self.set_unsettled(unsettled);
        Ok(())
    }

    fn replay_record(&self, replayed: &mut ReplayedKey, record: &RecordRef) -> Result<(), Damage> {
        let before = replayed.newest.replace(*record);
        match &before {
            Some(before) => self.forget(before)?,
            None => replayed.first = Some(*record),
        }
        self.remember(record)?;
        self.count(&replayed.store, before.as_ref(), record)
    }

    fn replay_moved(&self, replayed: &mut ReplayedKey, copy: &RecordRef) -> Result<(), Damage> {
        match &mut replayed.newest {
            // Of which version of the checkpoint it is, and whether an entry leads to it, is looked up later.
            None => replayed.copies.push(*copy),
            Some(newest) if newest.commit() == copy.commit() || injected(StoreFault::ReplayMoved) => {
                self.forget(newest)?;
                *newest = *copy;
            }
            Some(_) => return Ok(()),
        }
        self.remember(copy)
    }
}
