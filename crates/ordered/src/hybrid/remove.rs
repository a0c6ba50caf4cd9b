//! Removing entries, and leaves that have none left.
//!
//! An empty leaf is unlinked by one store to the live link of the leaf before it, if both have the same parent. The first leaf
//! of a parent takes over its right neighbour instead ([`LeafFormat::take_over`]). A leaf that is freed has another version than before, so whoever
//! reads it still finds out.
//!
//! Leaves are freed when they are empty, as in the LB+-Tree, the wB+-Tree and the FPTree; leaves that have
//! entries are never merged. Inner nodes with a quarter of their entries or fewer join a neighbour.

use super::mistake::{Mistake, made};
use crate::TreeError;
use crate::inner::{LeafLocation, LockedNode};
use crate::locks::Backoff;

use super::leaves::LeafFormat;
use super::tree::{HybridTree, offset_of};

/// How often it is tried to give a leaf back when others come in between; if it fails, the leaf stays, empty, until the next
/// removal from it or the next opening.
const TRIES: usize = 256;

impl<L: LeafFormat> HybridTree<L> {
    /// Removes the entry of a key and returns its value.
    pub(crate) fn take_out(&self, key: u64) -> Result<Option<u64>, TreeError> {
        self.write_gate.check(&self.slab)?;
        let (place, locked) = self.lock_leaf(key)?;
        let at = self.at(place.leaf);
        let Some(slot) = L::locate(at, key) else {
            locked.unchanged();
            return Ok(None);
        };
        let value = L::value(at, slot);
        // Not afterwards: a line that was written back may have left the cache.
        let emptied = L::is_only(at, slot);
        let result = self.leaves.clear(at, slot);
        self.count.add(place.leaf, -1);
        drop(locked);
        self.write_gate.keep(result)?;
        if emptied {
            self.give_back(key)?;
        }
        Ok(Some(value))
    }

    /// Gives back the leaf that a key belongs to, or the one right of it, if the leaf is empty and not the only one.
    #[cold]
    fn give_back(&self, key: u64) -> Result<(), TreeError> {
        let mut backoff = Backoff::default();
        for _ in 0..TRIES {
            let place = self.inner.find(key);
            if let Some(parent) = self.inner.lock(&place) {
                match self.give_back_at(&place, parent)? {
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

    /// As [`give_back`](HybridTree::give_back), under the lock of the parent: whether a leaf is gone; nothing if others came in
    /// between.
    fn give_back_at(
        &self,
        place: &LeafLocation<'_>,
        parent: LockedNode<'_>,
    ) -> Result<Option<bool>, TreeError> {
        let slot = place.slot as usize;
        // The leaf that stays and the one that goes.
        let (left, right) = match slot {
            0 if parent.node().count() == 0 => {
                parent.unchanged();
                return Ok(Some(false));
            }
            0 => (place.leaf, parent.node().child(1)),
            _ => (parent.node().child(slot - 1), place.leaf),
        };
        let Some(locks) = self.lock_both(left, right) else {
            parent.unchanged();
            return Ok(None);
        };
        if L::count(&L::head(self.at(place.leaf))) > 0 {
            locks.0.unchanged();
            if let Some(second) = locks.1 {
                second.unchanged();
            }
            parent.unchanged();
            return Ok(Some(false));
        }
        self.intact(left)?;
        self.intact(right)?;
        let result = match slot {
            0 => L::take_over(self, self.at(left), self.at(right)),
            _ => self.unlink(left, right),
        };
        // Whatever the medium says, readers see one tree.
        parent.remove(slot.max(1));
        drop((parent, locks));
        result?;
        self.slab.free(offset_of(right));
        Ok(Some(true))
    }

    /// The locks of two leaves, or of the one number they share, if nobody has one of them.
    fn lock_both(
        &self,
        first: u32,
        second: u32,
    ) -> Option<(crate::locks::Locked<'_>, Option<crate::locks::Locked<'_>>)> {
        let one = self.locks.try_lock(first)?;
        if crate::locks::Locks::stripe(first) == crate::locks::Locks::stripe(second) {
            return Some((one, None));
        }
        match self.locks.try_lock(second) {
            Some(other) => Some((one, Some(other))),
            None => {
                one.unchanged();
                None
            }
        }
    }

    /// Makes the link of `left` lead past `right`, which is empty.
    fn unlink(&self, left: u32, right: u32) -> Result<(), TreeError> {
        let (left, right) = (self.at(left), self.at(right));
        let next = L::next(right);
        L::set_next(left, next);
        if made(Mistake::FreeBeforeUnlink) {
            return Ok(());
        }
        self.write_gate.keep(self.slab.medium().fence())
    }
}
