//! Splitting a full leaf without a log.
//!
//! Order: (1) the new leaf, whole, and the link to it in the old leaf's link that is not live; (2) one store to the header of the old
//! leaf's first block, which makes the link live and forgets the entries of that block that have moved; (3) in leaves of several
//! blocks, the same entries of the others. A crash before (2) leaves the old leaf as it was, and a node that nobody knows; one
//! after (2) leaves both leaves, the old one perhaps with entries of other blocks that belong to the new one: as every one of them is
//! in the new leaf, and not below its least key, recovery clears them.

use halocline_media::Medium;

use super::mistake::{Mistake, made};
use crate::TreeError;
use crate::inner::{LockedNode, Place};
use crate::kernel::fingerprint;

use super::layout::{Header, LINES};
use super::leaf::{Entry, Leaf};
use super::tree::{LbTree, offset_of};

/// A split that failed.
pub(super) struct Refused {
    pub(super) error: TreeError,
    /// The new node, if nothing leads to it.
    pub(super) spare: Option<u64>,
}

impl<M: Medium, const B: usize> LbTree<M, B> {
    /// Splits the full leaf of a place, whose lock and whose parent's lock the caller holds, into itself and `node`, and adds
    /// an entry to one of them. The parent has room.
    #[cold]
    pub(super) fn split(
        &self,
        place: &Place,
        parent: &LockedNode<'_>,
        headers: &[Header; B],
        node: u64,
        (key, value): (u64, u64),
    ) -> Result<(), Refused> {
        let medium = self.slab.medium();
        let leaf = self.leaf(place.leaf);
        let new = Leaf::<M, B> { medium, offset: node };
        let mut entries: Vec<Entry> = leaf.entries(headers).collect();
        entries.sort_unstable_by_key(|entry| entry.key);
        let next = leaf.next(headers[0]);
        // Behind the last entry of all nothing is likely to come but more behind it.
        let append = next == 0 && entries.last().is_some_and(|last| last.key < key);
        let middle = if append { entries.len() } else { entries.len() / 2 };
        let bound = entries.get(middle).map_or(key, |entry| entry.key);
        let moved = &entries[middle..];
        let own = (key >= bound).then_some((key, value));
        let live = headers[0].alt();
        let mut gone = [0; B];
        for entry in moved {
            gone[entry.at.0] |= 1 << entry.at.1;
        }

        if made(Mistake::AltFlippedEarly) {
            leaf.store_low(0, headers[0].flipped());
            leaf.flush_line(0, 0);
        }
        let moved = moved.iter().map(|entry| (entry.key, entry.value));
        new.write_new(moved.chain(own), next, false);
        let link = if made(Mistake::LinkOverLive) {
            live
        } else {
            1 - live
        };
        if !made(Mistake::LinkAfterHeader) {
            leaf.store_link(link, node);
            leaf.flush_line(0, 3);
        }
        if !made(Mistake::NewLeafUnfenced)
            && let Err(error) = self.latch.keep(medium.fence())
        {
            // The link is not live, so nothing has changed.
            return Err(Refused {
                error,
                spare: Some(node),
            });
        }

        // From here on everything is done, whatever the medium says, so that readers see one tree.
        let mut left = *headers;
        left[0] = headers[0].flipped().without(gone[0]);
        leaf.store_low(0, left[0]);
        if made(Mistake::LinkAfterHeader) {
            leaf.store_link(link, node);
            leaf.flush_line(0, 3);
        }
        let mut placed = own.is_some() || self.place(&leaf, &mut left, 0, gone[0], (key, value));
        leaf.flush_line(0, 0);
        let mut result = self.latch.keep(medium.fence());
        if gone[1..].iter().any(|gone| *gone != 0) {
            for block in 1..B {
                if gone[block] != 0 {
                    left[block] = headers[block].without(gone[block]);
                    leaf.store_low(block, left[block]);
                    placed = placed || self.place(&leaf, &mut left, block, gone[block], (key, value));
                    leaf.flush_line(block, 0);
                }
            }
            result = result.and(self.latch.keep(medium.fence()));
        }
        if !placed {
            let put = leaf.put(&left, key, value, self.options.moving);
            result = result.and(self.latch.keep(put.map(drop)));
        }
        let new = (node / super::layout::BLOCK) as u32;
        debug_assert_eq!(offset_of(new), node);
        parent.insert(place.slot as usize, bound, new);
        self.count.add(place.leaf, 1);
        result.map_err(|error| Refused { error, spare: None })
    }

    /// Puts an entry into a slot of the header's line that has just been freed: as the stores to a line arrive in order, that
    /// needs no flush of its own.
    fn place(
        &self,
        leaf: &Leaf<'_, M, B>,
        headers: &mut [Header; B],
        block: usize,
        freed: u32,
        (key, value): (u64, u64),
    ) -> bool {
        let free = freed & LINES[0];
        if free == 0 {
            return false;
        }
        let slot = free.trailing_zeros() as usize;
        headers[block] = headers[block].with(slot, fingerprint(key));
        leaf.store_entry((block, slot), key, value);
        leaf.store_low(block, headers[block]);
        true
    }
}
