//! Publication: durable records are put into the trees, counted, and shown to readers.
//!
//! Where commits need not be durable when they return, a later fence makes them so. Until then trees on the
//! slow tier must not lead to their records, which power loss could take away: memtables do.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::append::Staged;
use crate::committer::{Committer, Deletion};
use crate::deleted_ranges::DeletedRange;
use crate::error::Result;
use crate::fault::{StoreFault, injected};
use crate::hiding_range::HidingRange;
use crate::recent::RecentWrite;
use crate::record::RecordRef;
use crate::snapshots::{KeptVersion, Snapshots};
use crate::state::{StoreState, StoresState};
use crate::tree::Damage;

impl StoresState {
    /// Lets deleted ranges hide the versions of older commits.
    pub(crate) fn hide(&self, ranges: Vec<(Arc<StoreState>, DeletedRange)>) {
        if ranges.is_empty() {
            return;
        }
        let _no_watch_begins = self.snapshots();
        let written = |(store, deleted): &(Arc<StoreState>, DeletedRange)| {
            RecentWrite::Range(store.id, deleted.range.clone())
        };
        self.recent.record(ranges.iter().map(written));
        for (store, deleted) in ranges {
            store.write().deleted.push(HidingRange::new(deleted));
        }
    }

    /// Puts the records into the trees and lets readers see them.
    pub(crate) fn publish(&self, committer: &mut Committer, staged: Vec<Staged>) {
        let mut snapshots = self.snapshots();
        if snapshots.oldest().is_some() {
            // Between versions that a snapshot sees, those that nobody sees are unlinked.
            self.look_for_readers(committer, &mut snapshots);
        }
        // The deletions of hidden keys change nothing that a reader sees.
        let visible = self.visible.load(Ordering::Acquire);
        let new = staged.iter().filter(|staged| staged.commit > visible);
        let written = |staged: &Staged| RecentWrite::Key(staged.store.id, staged.key.as_slice().into());
        self.recent.record(new.map(written));
        for record in staged {
            // The records were just written and the versions before them just read.
            if let Err(damage) = self.apply(committer, &mut snapshots, record) {
                self.poison(&self.damaged(damage));
            }
        }
        // Last: a reader that sees the commit finds all of its records in the trees.
        self.visible.store(committer.commit, Ordering::Release);
    }

    /// Puts a durable record into the tree of its store.
    fn apply(
        &self,
        committer: &mut Committer,
        snapshots: &mut Snapshots,
        staged: Staged,
    ) -> Result<(), Damage> {
        let medium = self.medium();
        let record = RecordRef::load(medium, staged.record).ok_or(Damage::record(staged.record))?;
        let store = &staged.store;
        let mut trees = store.write();
        trees.note_newer(&staged.key, &record);
        let located = if staged.after_staged {
            trees.locate(&self.pages(), &staged.key)?
        } else {
            staged.located
        };
        if let Some(old) = &located {
            self.supersede(snapshots, &old.record, &record)?;
        }
        self.remember(&record)?;
        self.count(store, located.as_ref().map(|located| &located.record), &record)?;
        let slot = located.and_then(|located| located.slot);
        committer.point(&mut trees, medium, &staged.key, slot, staged.record);
        if record.is_deleted() {
            committer.add_deletion(Deletion {
                store: Arc::clone(store),
                key: staged.key,
                commit: staged.commit,
            });
        }
        Ok(())
    }

    /// Keeps the version that a new one supersedes if a snapshot sees it, and otherwise forgets it.
    fn supersede(&self, snapshots: &mut Snapshots, old: &RecordRef, new: &RecordRef) -> Result<(), Damage> {
        let (commit, until) = (old.commit(), new.commit());
        if snapshots.sees(commit, until) && !injected(StoreFault::IgnoreSnapshots) {
            snapshots.keep(KeptVersion {
                record: old.offset,
                commit,
                until,
            });
            return self.count_kept(old, true);
        }
        // The newest version of a checkpoint stays linked: replay counts it.
        let is_of_checkpoint = commit <= self.frozen.load(Ordering::Acquire);
        if !is_of_checkpoint && snapshots.oldest().is_some_and(|oldest| oldest < commit) {
            // No snapshot sees the old version, but one may see those before it.
            new.set_prev(self.medium(), old.head.prev.get());
        }
        self.forget(old)
    }

    /// Adjusts the number of keys and bytes of a store.
    pub(crate) fn count(
        &self,
        store: &StoreState,
        old: Option<&RecordRef>,
        new: &RecordRef,
    ) -> Result<(), Damage> {
        let size = |record: &RecordRef| -> Result<u64, Damage> {
            Ok(record.key_len() as u64 + self.extent_of(record)?.0)
        };
        if let Some(old) = old.filter(|old| !old.is_deleted()) {
            store.keys.fetch_sub(1, Ordering::Relaxed);
            store.bytes.fetch_sub(size(old)?, Ordering::Relaxed);
        }
        if !new.is_deleted() {
            store.keys.fetch_add(1, Ordering::Relaxed);
            store.bytes.fetch_add(size(new)?, Ordering::Relaxed);
        }
        Ok(())
    }
}
