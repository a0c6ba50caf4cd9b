//! Splitting a leaf: selecting the entries to move and updating the inner nodes. The leaf format makes
//! the stores ([`LeafFormat::split`]).
//!
//! The locked parent is changed first, so that its stores in DRAM do not queue behind the split's
//! fences. The change is undone if the leaf format fails before the new leaf is linked.

use crate::TreeError;
use crate::inner::{LeafLocation, LockedNode};
use crate::kernel::UpperHalf;

use super::leaf_ref::LeafRef;
use super::leaves::LeafFormat;
use super::tree::{HybridTree, UNIT};

/// A split that failed.
pub(crate) struct FailedSplit {
    pub(crate) error: TreeError,
    /// The new node, if it is not referenced.
    pub(crate) spare: Option<u64>,
}

impl FailedSplit {
    /// Makes an error from a failure before anything but the new leaf was changed.
    pub(crate) fn before<L: LeafFormat>(error: TreeError, split: &LeafSplit<'_, L>) -> FailedSplit {
        FailedSplit {
            error,
            spare: Some(split.new.offset),
        }
    }
}

impl From<TreeError> for FailedSplit {
    /// Makes an error from a failure after the new leaf was linked.
    fn from(error: TreeError) -> FailedSplit {
        FailedSplit { error, spare: None }
    }
}

/// A split of a full leaf into itself and a new leaf on its right, with one additional entry.
pub(crate) struct LeafSplit<'a, L: LeafFormat> {
    pub(crate) old: LeafRef<'a>,
    /// The old leaf's head.
    pub(crate) head: L::LeafHead,
    pub(crate) new: LeafRef<'a>,
    /// The leaf to the right of both.
    pub(crate) next: u64,
    /// Bitmap of the slot numbers of the entries that move to the new leaf.
    pub(crate) moved: u64,
    /// The subset of `moved` that is written last.
    pub(crate) last: u64,
    /// The additional entry.
    pub(crate) key: u64,
    pub(crate) value: u64,
    /// True if the additional entry belongs to the new leaf.
    pub(crate) right: bool,
}

impl<L: LeafFormat> LeafSplit<'_, L> {
    /// Returns the entries of the new leaf. `entry` reads a slot.
    #[inline(always)]
    pub(crate) fn entries(&self, entry: impl Fn(usize) -> (u64, u64)) -> impl Iterator<Item = (u64, u64)> {
        let mut left = [self.moved & !self.last, self.moved & self.last];
        let mut added = self.right.then_some((self.key, self.value));
        std::iter::from_fn(move || {
            let left = &mut left[usize::from(left[0] == 0)];
            if *left == 0 {
                return added.take();
            }
            let slot = left.trailing_zeros() as usize;
            *left &= *left - 1;
            Some(entry(slot))
        })
    }
}

impl<L: LeafFormat> HybridTree<L> {
    /// Splits the full leaf at `place` into itself and `node`, and inserts an entry into one of them. The
    /// caller holds the locks of the leaf and of its parent, which has room.
    #[cold]
    pub(super) fn split(
        &self,
        place: &LeafLocation<'_>,
        parent: &LockedNode<'_>,
        node: u64,
        (key, value): (u64, u64),
    ) -> Result<(), FailedSplit> {
        const { assert!(L::ENTRIES <= u64::BITS as usize) };
        let old = self.at(place.leaf);
        let head = L::head(old);
        let next = L::next(old);
        // A key greater than all others is probably the next of an ascending sequence: nothing moves, so
        // leaves stay full.
        let upper = if next == 0 && is_greatest::<L>(old, &head, key) {
            UpperHalf {
                bits: 0,
                highest: 0,
                least: key,
            }
        } else {
            L::upper(old, self.inner.vectors())
        };
        let bound = upper.least;
        let split = LeafSplit {
            old,
            head,
            new: LeafRef {
                medium: old.medium,
                offset: node,
            },
            next,
            moved: upper.bits,
            last: upper.highest,
            key,
            value,
            right: key >= bound,
        };
        // Before the leaf is split: stores behind a fence would stall. Readers do not see this before the
        // lock is released.
        let right = (node / UNIT) as u32;
        parent.insert(place.slot as usize, bound, right, self.inner.vectors());
        let result = L::split(self, &split);
        if let Err(FailedSplit { spare: Some(_), .. }) = result {
            parent.remove(place.slot as usize + 1);
            return result;
        }
        self.count.add(place.leaf, 1);
        result
    }
}

/// Returns true if `key` is greater than all keys of a leaf.
fn is_greatest<L: LeafFormat>(at: LeafRef<'_>, head: &L::LeafHead, key: u64) -> bool {
    let mut greatest = true;
    L::each(at, head, |entry| greatest &= entry.key < key);
    greatest
}
