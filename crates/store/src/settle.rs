//! Settling: what the records of the log after a checkpoint superseded there is looked up, after the stores
//! were opened.
//!
//! That reads a leaf and a record for each key, which a large store has on the disk only. So the keeper does
//! it, or whoever first needs the counters or changes leaves. Commits and readers go on meanwhile.
//!
//! Invariants: before all keys are settled no checkpoint is made and no segment emptied. So all versions
//! since the checkpoint are where they were, and the leaf of a key that has a record in the log is not
//! changed. Whatever a commit supersedes meanwhile was counted at the opening. A key is settled before the
//! deletion that a deleted range owes it is appended, whose commit does not tell that it came later.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::error::Result;
use crate::record::RecordRef;
use crate::state::{StoreState, StoresState};
use crate::tree::Damage;

/// A key of the log after the checkpoint, whose version at the checkpoint is not known yet.
pub(crate) struct UnsettledKey {
    pub(crate) store: Arc<StoreState>,
    pub(crate) key: Vec<u8>,
    /// Its first version after the checkpoint. It counts as the first one of all.
    pub(crate) first: Option<RecordRef>,
    /// Copies of versions of the checkpoint. All count as needed.
    pub(crate) copies: Vec<RecordRef>,
}

impl StoresState {
    /// Sets the keys that have to be settled.
    pub(crate) fn set_unsettled(&self, keys: Vec<UnsettledKey>) {
        self.is_settled.store(keys.is_empty(), Ordering::Release);
        *self.unsettled.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Settles all keys, unless that was done since the opening.
    ///
    /// # Errors
    /// Damage; the keys after it are settled by the next call.
    pub(crate) fn settle(&self) -> Result<()> {
        if self.is_settled.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        // Keys of one leaf are one after the other.
        unsettled.sort_unstable_by(|a, b| (a.store.id, &a.key).cmp(&(b.store.id, &b.key)));
        while let Some(key) = unsettled.last() {
            self.settle_key(key).map_err(|damage| self.damaged(damage))?;
            unsettled.pop();
        }
        self.is_settled.store(true, Ordering::Release);
        Ok(())
    }

    /// Settles a key, unless that was done since the opening.
    ///
    /// # Errors
    /// Damage; the key is settled later.
    pub(crate) fn settle_now(&self, store: &StoreState, key: &[u8]) -> Result<()> {
        if self.is_settled.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |unsettled: &UnsettledKey| unsettled.store.id == store.id && unsettled.key == key;
        if let Some(at) = unsettled.iter().position(is_it) {
            self.settle_key(&unsettled[at])
                .map_err(|damage| self.damaged(damage))?;
            unsettled.swap_remove(at);
        }
        Ok(())
    }

    /// Settles all keys for the counters, and deletes those of deleted ranges, as far as there is no damage.
    pub(crate) fn settle_counters(&self) {
        if let Err(error) = self.settle() {
            tracing::warn!(%error, "keys that the log replaced count twice");
        }
        if let Err(error) = self.finish_deleted_ranges() {
            tracing::warn!(%error, "keys of a deleted range count");
        }
    }

    fn settle_key(&self, key: &UnsettledKey) -> Result<(), Damage> {
        // Nothing is locked while pages are read from the disk.
        let tree = key.store.read().tree.clone();
        let entry = tree.find(&self.pages(), &key.key)?.map(|(_, record)| record);
        let Some(first) = &key.first else {
            return self.settle_copies(key);
        };
        let superseded = self.at_checkpoint(entry, first, &key.key);
        if let Some(superseded) = &superseded {
            if !superseded.is_deleted() {
                self.uncount(&key.store, superseded)?;
            }
            if !key.copies.iter().any(|copy| copy.offset == superseded.offset) {
                self.forget(superseded)?;
            }
        }
        key.copies.iter().try_for_each(|copy| self.forget(copy))
    }

    /// Counts the copies as not needed that no entry leads to, of a key of which the log has no new version.
    fn settle_copies(&self, key: &UnsettledKey) -> Result<(), Damage> {
        // Locked so that no commit supersedes a version before it is compared.
        let trees = key.store.read();
        let newest = trees.locate(&self.pages(), &key.key)?;
        let needed = self.at_opening(newest.map(|located| located.record))?;
        let is_needed = |copy: &RecordRef| needed.is_some_and(|needed| needed.offset == copy.offset);
        let mut unneeded = key.copies.iter().filter(|copy| !is_needed(copy));
        unneeded.try_for_each(|copy| self.forget(copy))
    }

    /// Returns what the first record of a key after the checkpoint superseded.
    ///
    /// It is the leaf's entry of the checkpoint. If commits have replaced that entry since, `prev` leads
    /// there: the first version of a key after a checkpoint keeps it.
    pub(crate) fn at_checkpoint(
        &self,
        entry: Option<RecordRef>,
        first: &RecordRef,
        key: &[u8],
    ) -> Option<RecordRef> {
        let checkpoint = self.frozen.load(Ordering::Acquire);
        let is_of_checkpoint = |found: &RecordRef| found.commit() <= checkpoint;
        // The deletion of a hidden key has the commit of the range, which may be one before the checkpoint.
        let entry = entry.filter(|found| is_of_checkpoint(found) && found.offset != first.offset);
        entry.or_else(|| match first.head.prev.get() {
            0 => None,
            prev => {
                let old = RecordRef::load(self.medium(), prev).filter(is_of_checkpoint);
                old.filter(|old| old.head.store == first.head.store && old.is_of(self.medium(), key))
            }
        })
    }

    /// Returns the version that was the newest one at the opening: a commit that has superseded it since has
    /// counted it as not needed.
    fn at_opening(&self, newest: Option<RecordRef>) -> Result<Option<RecordRef>, Damage> {
        let mut version = newest;
        while let Some(newer) = version.filter(|version| version.commit() > self.first_commit) {
            version = match newer.head.prev.get() {
                0 => None,
                prev => Some(RecordRef::load(self.medium(), prev).ok_or(Damage::record(prev))?),
            };
        }
        Ok(version)
    }
}
