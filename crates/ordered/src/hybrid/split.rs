//! Splitting: which entries move, and what follows in DRAM. The stores are the leaves' own ([`Leaves::split`]).

use halocline_media::Medium;
use smallvec::SmallVec;

use crate::TreeError;
use crate::inner::{LockedNode, Place};
use crate::kernel::{RANKED, Unsorted};

use super::leaves::{At, Entry, Leaves};
use super::tree::{Hybrid, UNIT};

/// Entries that a leaf has at most, of any kind.
const MOST: usize = 64;

/// A split that failed.
pub(crate) struct Refused {
    pub(crate) error: TreeError,
    /// The new node, if nothing leads to it.
    pub(crate) spare: Option<u64>,
}

impl Refused {
    /// Before anything but the new leaf has been changed.
    pub(crate) fn before<M: Medium, L: Leaves>(error: TreeError, split: &Split<'_, M, L>) -> Refused {
        Refused {
            error,
            spare: Some(split.new.offset),
        }
    }
}

impl From<TreeError> for Refused {
    /// After that.
    fn from(error: TreeError) -> Refused {
        Refused { error, spare: None }
    }
}

/// A full leaf that is to be split into itself and a new one right of it, with one entry more.
pub(crate) struct Split<'a, M, L: Leaves> {
    pub(crate) old: At<'a, M>,
    /// Of the old leaf.
    pub(crate) head: L::Head,
    pub(crate) new: At<'a, M>,
    /// The leaf that is right of both.
    pub(crate) next: u64,
    /// Entries that go to the new leaf, in no order; all others stay.
    pub(crate) moved: &'a [Entry<L::Slot>],
    /// What is added.
    pub(crate) key: u64,
    pub(crate) value: u64,
    /// Whether it goes to the new leaf.
    pub(crate) right: bool,
}

impl<M, L: Leaves> Split<'_, M, L> {
    /// What the new leaf holds.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        let moved = self.moved.iter().map(|entry| (entry.key, entry.value));
        moved.chain(self.right.then_some((self.key, self.value)))
    }
}

impl<M: Medium, L: Leaves> Hybrid<M, L> {
    /// Splits the full leaf of a place, whose lock and whose parent's lock the caller holds, into itself and `node`, and adds
    /// an entry to one of them. The parent has room.
    #[cold]
    pub(super) fn split(
        &self,
        place: &Place<'_>,
        parent: &LockedNode<'_>,
        node: u64,
        (key, value): (u64, u64),
    ) -> Result<(), Refused> {
        const { assert!(L::ENTRIES <= MOST) };
        let old = self.at(place.leaf);
        let head = L::head(old);
        let next = L::next(old);
        let mut keys = Unsorted::<{ MOST / RANKED }>::new();
        let mut greatest = 0;
        L::each(old, &head, |entry| {
            keys.push(entry.key, entry.value);
            greatest = greatest.max(entry.key);
        });
        // Behind the last entry of all nothing is likely to come but more behind it.
        let append = next == 0 && greatest < key;
        let middle = if append { keys.len() } else { keys.len() / 2 };
        let (mut moved, bound) = keys.upper(middle, self.inner.vectors());
        let bound = bound.unwrap_or(key);
        let mut entries = SmallVec::<[Entry<L::Slot>; MOST]>::new();
        L::each(old, &head, |entry| {
            if moved & 1 == 1 {
                entries.push(entry);
            }
            moved >>= 1;
        });
        let split = Split {
            old,
            head,
            new: At {
                medium: old.medium,
                offset: node,
            },
            next,
            moved: &entries,
            key,
            value,
            right: key >= bound,
        };
        // First, as many stores behind a fence would be waited for; nobody sees it before the lock is gone.
        parent.insert(place.slot as usize, bound, (node / UNIT) as u32);
        let result = L::split(self, &split);
        if let Err(Refused { spare: Some(_), .. }) = result {
            parent.remove(place.slot as usize + 1);
            return result;
        }
        self.count.add(place.leaf, 1);
        result
    }
}
