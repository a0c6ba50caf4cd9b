//! Evictions when a commit fails.
//!
//! The eviction policy learns of a commit before it is made, because it chooses what leaves. When the commit
//! fails, it is told what the storage has: items that are there count, others do not, and those that were to
//! leave do so with a later commit, or in the background.

use super::Items;
use super::staged::{StagedChange, StagedChanges};
use crate::error::Result;
use crate::eviction::{Evictor, LeavingItem};
use crate::expiry::has_passed;
use crate::fault::{MemcachedFault, injected};
use crate::storage::ItemGeneration;

impl Items {
    /// Corrects what the eviction policy knows of the items of changes that were not made. The caller holds
    /// the locks of all keys but those that leave.
    pub(super) fn reconcile(&self, generation: &dyn ItemGeneration, changes: &[&StagedChange<'_>]) {
        let Some(evictor) = &self.evictor else {
            return;
        };
        if injected(MemcachedFault::ForgetLeaving) {
            return;
        }
        for change in changes {
            if change.is_eviction() {
                evictor.leave_later([change.key().into()]);
            } else {
                self.tell(evictor, generation, change.key());
            }
        }
    }

    /// Tells the eviction policy of an item, or that there is none.
    fn tell(&self, evictor: &Evictor, generation: &dyn ItemGeneration, key: &[u8]) {
        match generation.get(key) {
            Ok(Some(stored)) if !has_passed(stored.expires, self.now()) => {
                let bytes = self.storage.footprint(key.len(), stored.value.len());
                let leaving = evictor.stored(key, bytes, stored.expires, self.now());
                evictor.leave_later(leaving.into_iter().map(|item| item.key));
            }
            Ok(_) => evictor.removed(key),
            // What cannot be read leaves at some time as any other item does.
            Err(error) => tracing::debug!(%error, "the size of an item is not known"),
        }
    }

    /// Removes items that the eviction policy has chosen apart from a store.
    pub(super) fn evict(&self, generation: &dyn ItemGeneration, evicted: Vec<LeavingItem>) -> Result<()> {
        self.commit(generation, &StagedChanges::of_evictions(evicted))?;
        Ok(())
    }

    /// Removes some of the items that were to leave with commits that have failed. Returns true if there are
    /// more.
    pub(super) fn evict_late(&self) -> Result<bool> {
        let Some(evictor) = &self.evictor else {
            return Ok(false);
        };
        let generation = self.present();
        let late = evictor.late();
        if late.is_empty() {
            return Ok(false);
        }
        self.evict(&**generation, late)?;
        Ok(evictor.has_late())
    }
}
