//! Removing entries, and freeing leaves that become empty.
//!
//! An empty leaf is unlinked by one store to the live link of the leaf before it if both have the same
//! parent. The first leaf of a parent takes over its right neighbour instead ([`LeafFormat::take_over`]). The
//! version of a freed leaf has changed, so readers that still hold its number notice.
//!
//! As in the LB+-Tree, the wB+-Tree and the FPTree, only empty leaves are freed; leaves with entries
//! are never merged. Inner nodes with at most a quarter of their entries are merged with a neighbour.

use super::fault::{HybridFault, injected};
use crate::TreeError;
use crate::inner::{LeafLocation, LockedNode};
use crate::locks::Backoff;

use super::leaves::LeafFormat;
use super::tree::{HybridTree, offset_of};

/// Maximum number of attempts to free a leaf despite concurrent changes. If all fail, the empty leaf remains
/// until the next removal from it or the next opening.
const MAX_ATTEMPTS: usize = 256;

impl<L: LeafFormat> HybridTree<L> {
    /// Removes the entry of a key and returns its value.
    pub(crate) fn remove(&self, key: u64) -> Result<Option<u64>, TreeError> {
        self.write_gate.check(&self.slab)?;
        let (place, locked) = self.lock_leaf(key)?;
        let at = self.at(place.leaf);
        let Some(slot) = L::locate(at, key) else {
            locked.unchanged();
            return Ok(None);
        };
        let value = L::value(at, slot);
        // Tested before the removal: the flushed line may have left the cache afterwards.
        let emptied = L::is_only(at, slot);
        let result = self.leaves.clear(at, slot);
        self.count.add(place.leaf, -1);
        drop(locked);
        self.write_gate.keep(result)?;
        if emptied {
            self.free_leaf(key)?;
        }
        Ok(Some(value))
    }

    /// Frees the leaf of a key, or its right neighbour, if the leaf is empty and not the only one.
    #[cold]
    pub(super) fn free_leaf(&self, key: u64) -> Result<(), TreeError> {
        let mut backoff = Backoff::default();
        for _ in 0..MAX_ATTEMPTS {
            let place = self.inner.find(key);
            if let Some(parent) = self.inner.lock(&place) {
                match self.free_leaf_locked(&place, parent)? {
                    Some(true) => {
                        self.inner.shrink(key);
                        return Ok(());
                    }
                    Some(false) => return Ok(()),
                    None => {}
                }
            }
            backoff.wait();
        }
        Ok(())
    }

    /// Frees the leaves that a tree without entries still has, except for the first one. There must be no
    /// concurrent operations.
    pub(super) fn free_empty_leaves(&self) -> Result<(), TreeError> {
        let first = self.inner.find(0).leaf;
        let mut last = self.inner.find(u64::MAX).leaf;
        while last != first {
            self.free_leaf(u64::MAX)?;
            let now = self.inner.find(u64::MAX).leaf;
            if now == last {
                break;
            }
            last = now;
        }
        Ok(())
    }

    /// Does the work of [`free_leaf`](HybridTree::free_leaf) under the lock of the parent. Returns true if
    /// a leaf was freed and `None` if a concurrent change interfered.
    fn free_leaf_locked(
        &self,
        place: &LeafLocation<'_>,
        parent: LockedNode<'_>,
    ) -> Result<Option<bool>, TreeError> {
        let slot = place.slot as usize;
        // The leaf that stays and the one that is removed.
        let (left, right) = match slot {
            0 if parent.node().count() == 0 => {
                parent.unchanged();
                return Ok(Some(false));
            }
            0 => (place.leaf, parent.node().child(1)),
            _ => (parent.node().child(slot - 1), place.leaf),
        };
        if self.pins.contains(right) || self.lazy.hides_leaves_after(left) {
            // The leaf that becomes or is empty stays until another checkpoint is named or the tree is opened
            // without one.
            parent.unchanged();
            return Ok(Some(false));
        }
        let Some(locks) = self.locks.try_lock_all([left, right]) else {
            parent.unchanged();
            return Ok(None);
        };
        if L::count(&L::head(self.at(place.leaf))) > 0 {
            locks.unchanged();
            parent.unchanged();
            return Ok(Some(false));
        }
        self.intact(left)?;
        self.intact(right)?;
        let result = match slot {
            0 => L::take_over(self, self.at(left), self.at(right)),
            _ => self.unlink(left, right),
        };
        // Done even if the medium failed, so that readers see a consistent tree.
        parent.remove(slot.max(1));
        drop((parent, locks));
        result?;
        self.slab.free(offset_of(right));
        Ok(Some(true))
    }

    /// Links `left` to the leaf after `right`, which is empty.
    fn unlink(&self, left: u32, right: u32) -> Result<(), TreeError> {
        let (left, right) = (self.at(left), self.at(right));
        let next = L::next(right);
        L::set_next(left, next);
        if injected(HybridFault::FreeBeforeUnlink) {
            return Ok(());
        }
        self.write_gate.keep(self.slab.medium().fence())
    }
}
