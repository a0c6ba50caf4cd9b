//! Removing entries, and leaves that have none left.
//!
//! An empty leaf is unlinked by one store to the live link of the leaf before it, if both have the same parent. The first leaf
//! of a parent takes over its right neighbour instead: its entries and the link over it are stored to free slots and the link that
//! is not live, and one store to the header makes them count. A leaf that is freed has another version than before, so whoever
//! reads it still finds out.

use halocline_media::{LINE, Medium};

use super::mistake::{Mistake, made};
use crate::TreeError;
use crate::inner::{LockedNode, Place};
use crate::locks::Backoff;

use super::layout::LINES;
use super::tree::{LbTree, offset_of};

/// How often it is tried to give a leaf back when others come in between; if it fails, the leaf stays, empty, until the next
/// removal from it or the next opening.
const TRIES: usize = 256;

impl<M: Medium, const B: usize> LbTree<M, B> {
    /// Removes the entry of a key and returns its value.
    pub(super) fn take(&self, key: u64) -> Result<Option<u64>, TreeError> {
        self.latch.check(self.name())?;
        let (place, locked) = self.lock_leaf(key)?;
        let leaf = self.leaf(place.leaf);
        let headers = leaf.headers();
        let Some(at) = leaf.find(&headers, key) else {
            locked.unchanged();
            return Ok(None);
        };
        let value = leaf.value(at);
        let (block, slot) = at;
        let result = leaf.clear(block, headers[block], 1 << slot);
        let used: u32 = headers.iter().map(|header| header.used().count_ones()).sum();
        drop(locked);
        self.count.add(place.leaf, -1);
        self.latch.keep(result)?;
        if used == 1 {
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

    /// As [`give_back`](LbTree::give_back), under the lock of the parent: whether a leaf is gone; nothing if others came in
    /// between.
    fn give_back_at(&self, place: &Place, parent: LockedNode<'_>) -> Result<Option<bool>, TreeError> {
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
        let empty = |leaf| self.leaf(leaf).headers().iter().all(|header| header.used() == 0);
        if !empty(place.leaf) {
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
            0 => self.take_over(left, right),
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
        let (left, right) = (self.leaf(left), self.leaf(right));
        let next = right.next(right.header(0));
        left.store_link(left.header(0).alt(), next);
        if made(Mistake::FreeBeforeUnlink) {
            return Ok(());
        }
        left.flush_line(0, 3);
        self.latch.keep(self.slab.medium().fence())
    }

    /// Moves all entries of `right` to `left`, which is empty, and makes its link lead past `right`.
    fn take_over(&self, left: u32, right: u32) -> Result<(), TreeError> {
        let medium = self.slab.medium();
        let (left, right) = (self.leaf(left), self.leaf(right));
        let (own, others) = (left.headers(), right.headers());
        for entry in right.entries(&others) {
            left.store_entry(entry.at, entry.key, entry.value);
        }
        left.store_link(1 - own[0].alt(), right.next(others[0]));
        for (block, header) in others.iter().enumerate() {
            for (line, slots) in LINES.iter().enumerate().skip(1) {
                let links = (block, line) == (0, 3);
                if (header.used() & slots != 0 || links) && !(links && made(Mistake::AbsorbUnflushed)) {
                    left.flush_line(block, line);
                }
            }
        }
        let mut result = self.latch.keep(medium.fence());
        if others[1..].iter().any(|header| header.used() != 0) {
            for block in 1..B {
                // Until the switch, these are entries that belong to the next leaf: recovery clears them.
                left.store_header(block, own[block].replaced_by(others[block]));
                left.flush_line(block, 0);
            }
            result = result.and(self.latch.keep(medium.fence()));
        }
        // Entries of this line need no flush of their own.
        left.store_header(0, own[0].replaced_by(others[0]).flipped());
        medium.flush(left.offset, LINE);
        result.and(self.latch.keep(medium.fence()))
    }
}
