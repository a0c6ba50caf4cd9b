//! Splitting: which entries move, and what follows in DRAM. The stores are the leaves' own ([`Leaves::split`]).

use halocline_media::Medium;

use crate::TreeError;
use crate::inner::{LockedNode, Place};
use crate::kernel::Unsorted;

use super::leaves::{At, Entry, Leaves};
use super::tree::{Hybrid, UNIT};

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
    /// Entries that go to the new leaf; all others stay.
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
        place: &Place,
        parent: &LockedNode<'_>,
        node: u64,
        (key, value): (u64, u64),
    ) -> Result<(), Refused> {
        let old = self.at(place.leaf);
        let head = L::head(old);
        let entries = sorted::<M, L>(old, &head, self.inner.vectors());
        let next = L::next(old);
        // Behind the last entry of all nothing is likely to come but more behind it.
        let append = next == 0 && entries.last().is_some_and(|last| last.key < key);
        let middle = if append { entries.len() } else { entries.len() / 2 };
        let bound = entries.get(middle).map_or(key, |entry| entry.key);
        let split = Split {
            old,
            head,
            new: At {
                medium: old.medium,
                offset: node,
            },
            next,
            moved: &entries[middle..],
            key,
            value,
            right: key >= bound,
        };
        let result = L::split(self, &split);
        if let Err(Refused { spare: Some(_), .. }) = result {
            return result;
        }
        parent.insert(place.slot as usize, bound, (node / UNIT) as u32);
        self.count.add(place.leaf, 1);
        result
    }
}

/// The entries of a leaf in ascending order of their keys.
fn sorted<M: Medium, L: Leaves>(at: At<'_, M>, head: &L::Head, vectors: bool) -> Vec<Entry<L::Slot>> {
    let entries: Vec<Entry<L::Slot>> = L::entries(at, head).collect();
    let mut unsorted = Unsorted::<4>::new();
    for (number, entry) in entries.iter().enumerate() {
        unsorted.push(entry.key, number as u64);
    }
    let mut order = Vec::with_capacity(entries.len());
    unsorted.append_to(&mut order, vectors);
    order
        .iter()
        .map(|(_, number)| entries[*number as usize])
        .collect()
}
