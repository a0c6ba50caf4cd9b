//! The state that only one thread at a time changes: [`Committer`].

use std::collections::BTreeMap;
use std::sync::Arc;

use halocline_media::Medium;

use crate::catalog::Catalog;
use crate::fault::{StoreFault, injected};
use crate::leaf::EntrySlot;
use crate::log::LogWriter;
use crate::memtable::MemEntry;
use crate::segments::Freed;
use crate::state::{StoreState, StoreTrees};

/// A key that a commit has deleted.
pub(crate) struct Deletion {
    pub(crate) store: Arc<StoreState>,
    pub(crate) key: Vec<u8>,
    pub(crate) commit: u64,
}

/// Keys that a commit has deleted, with their stores.
pub(crate) type DeletedKeys = Vec<(Arc<StoreState>, Vec<u8>)>;

/// Free segments for a checkpoint in progress, which commits beside it must not take.
#[derive(Default)]
pub(crate) struct MergeRoom {
    /// Segments that it may need in all.
    pub(crate) needed: u64,
    /// Segments with pages when it began.
    pub(crate) with_pages: u64,
}

/// The state that only one thread at a time changes.
pub(crate) struct Committer {
    pub(crate) log: LogWriter,
    /// The newest commit.
    pub(crate) commit: u64,
    /// The checkpoint that copies leaves now, which must not change meanwhile.
    pub(crate) merging: Option<MergeRoom>,
    /// Entries that were changed in place since the last checkpoint.
    pub(crate) dirty: Vec<EntrySlot>,
    /// Pages and segments that become free with the next checkpoint.
    pub(crate) freed: Freed,
    /// Pages and segments that no checkpoint needs any more, but readers beside the writer may.
    pub(crate) waiting: Freed,
    /// A commit that was there when no reader was opening: each one that opens later sees it.
    pub(crate) readers_since: u64,
    /// Number of records since the last checkpoint.
    pub(crate) pending_records: usize,
    /// Bytes of log since the last checkpoint.
    pub(crate) pending_bytes: u64,
    /// Deletions that were not purged yet, by their commits.
    pub(crate) deletions: BTreeMap<u64, DeletedKeys>,
    /// The newest catalog.
    pub(crate) catalog: Catalog,
    /// Number of the newest checkpoint.
    pub(crate) checkpoint: u64,
    pub(crate) next_store: u32,
}

impl Committer {
    /// Adds a deletion to be purged.
    pub(crate) fn add_deletion(&mut self, deletion: Deletion) {
        let Deletion { store, key, commit } = deletion;
        self.deletions.entry(commit).or_default().push((store, key));
    }

    /// Takes deletions that the oldest snapshot sees, at most `most`.
    pub(crate) fn take_deletions(&mut self, oldest: Option<u64>, most: usize) -> Vec<Deletion> {
        let mut taken = Vec::new();
        while let Some(mut first) = self.deletions.first_entry() {
            let commit = *first.key();
            // An older snapshot finds the version before the deletion only through the record of the
            // deletion.
            if oldest.is_some_and(|oldest| oldest < commit) || taken.len() == most {
                break;
            }
            let of_commit = first.get_mut();
            let from = of_commit.len().saturating_sub(most - taken.len());
            let some = of_commit.drain(from..);
            taken.extend(some.map(|(store, key)| Deletion { store, key, commit }));
            if of_commit.is_empty() {
                first.remove();
            }
        }
        taken
    }

    /// Lets the entry of a key lead to a record: in place, or in the memtable.
    pub(crate) fn point(
        &mut self,
        trees: &mut StoreTrees,
        medium: &Medium,
        key: &[u8],
        slot: Option<EntrySlot>,
        record: u64,
    ) {
        self.pending_records += 1;
        // Leaves are on the slow tier: an entry that is changed there may survive a power loss that the
        // record does not. During a checkpoint the leaf may have been copied already, and the change would be
        // lost.
        let is_durable =
            self.log.is_fenced() || injected(StoreFault::ApplyEarly) || injected(StoreFault::MoveUnfenced);
        match slot {
            Some(slot) if self.merging.is_none() && is_durable => {
                slot.set_record(medium, record);
                self.dirty.push(slot);
            }
            _ => {
                trees.active.set(key, MemEntry::Record(record));
            }
        }
    }
}
