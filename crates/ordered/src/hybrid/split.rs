//! Splitting: which entries move, and what follows in DRAM. The stores are the leaves' own ([`LeafFormat::split`]).
//!
//! A split changes the locked parent first, in DRAM, so that these stores do not queue behind its fences, and
//! undoes that if the leaf refuses.

use crate::TreeError;
use crate::inner::{LeafLocation, LockedNode};
use crate::kernel::UpperHalf;

use super::leaf_ref::LeafRef;
use super::leaves::LeafFormat;
use super::tree::{HybridTree, UNIT};

/// A split that failed.
pub(crate) struct FailedSplit {
    pub(crate) error: TreeError,
    /// The new node, if nothing leads to it.
    pub(crate) spare: Option<u64>,
}

impl FailedSplit {
    /// Before anything but the new leaf has been changed.
    pub(crate) fn before<L: LeafFormat>(error: TreeError, split: &LeafSplit<'_, L>) -> FailedSplit {
        FailedSplit {
            error,
            spare: Some(split.new.offset),
        }
    }
}

impl From<TreeError> for FailedSplit {
    /// After that.
    fn from(error: TreeError) -> FailedSplit {
        FailedSplit { error, spare: None }
    }
}

/// A full leaf that is to be split into itself and a new one right of it, with one entry more.
pub(crate) struct LeafSplit<'a, L: LeafFormat> {
    pub(crate) old: LeafRef<'a>,
    /// Of the old leaf.
    pub(crate) head: L::LeafHead,
    pub(crate) new: LeafRef<'a>,
    /// The leaf that is right of both.
    pub(crate) next: u64,
    /// Entries that go to the new leaf, a bit each by the number of its slot; all others stay.
    pub(crate) moved: u64,
    /// Those of them that are written last.
    pub(crate) last: u64,
    /// What is added.
    pub(crate) key: u64,
    pub(crate) value: u64,
    /// Whether it goes to the new leaf.
    pub(crate) right: bool,
}

impl<L: LeafFormat> LeafSplit<'_, L> {
    /// What the new leaf holds, if `entry` gives what is in a slot.
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
    /// Splits the full leaf of a place, whose lock and whose parent's lock the caller holds, into itself and `node`, and adds
    /// an entry to one of them. The parent has room.
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
        // Behind the last entry of all nothing is likely to come but more behind it.
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
        // First, as many stores behind a fence would be waited for; nobody sees it before the lock is gone.
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

/// Whether all keys of a leaf are less.
fn is_greatest<L: LeafFormat>(at: LeafRef<'_>, head: &L::LeafHead, key: u64) -> bool {
    let mut greatest = true;
    L::each(at, head, |entry| greatest &= entry.key < key);
    greatest
}
