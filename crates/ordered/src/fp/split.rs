//! Changes of two leaves: splitting a full one, and merging an empty one with its right neighbour.
//!
//! Order: (1) the copies and the log; (2) the leaf's bitmap and link, in any order; (3) clearing the
//! log. Each step is durable before the next begins.

use crate::TreeError;
use crate::hybrid::{FailedSplit, HybridTree, LeafSplit};

use super::fault::{FpFault, injected};
use super::leaf::FpLeafRef;
use super::leaves::FpLeafFormat;
use super::micro_log::LeafChange;

type FpHybrid = HybridTree<FpLeafFormat>;

pub(super) fn split(tree: &FpHybrid, split: &LeafSplit<'_, FpLeafFormat>) -> Result<(), FailedSplit> {
    let medium = tree.slab.medium();
    let (leaf, new) = (FpLeafRef(split.old), FpLeafRef(split.new));
    // If nothing moves, only the link changes, by one store, and no log is needed.
    let log = (split.moved != 0).then(|| tree.leaves.logs.take(&tree.slab));
    new.write_new(
        split.entries(|slot| (leaf.key(slot), leaf.value(slot))),
        split.next,
    );
    if let Some(log) = &log {
        log.begin(LeafChange::Split, leaf, new.0.offset);
    }
    if !injected(FpFault::LogUnfenced)
        && let Err(error) = tree.write_gate.keep(medium.fence())
    {
        // The leaf is unchanged, so replaying the log would do nothing.
        return Err(FailedSplit::before(error, split));
    }

    // From here on all stores are made even if the medium fails, so that readers see a consistent tree.
    leaf.set_next(new.0.offset);
    let Some(log) = log else {
        return Ok(tree.write_gate.keep(medium.fence())?);
    };
    let mut head = split.head;
    head.0[0] = head.used() & !split.moved;
    leaf.store_bitmap(head.used());
    leaf.flush_head();
    if injected(FpFault::LogClearedEarly) {
        log.end();
    }
    let mut result = tree.write_gate.keep(medium.fence());
    log.end();
    let slot = head.free().trailing_zeros() as usize;
    if !split.right {
        // The slot has become free durably, so it can be overwritten.
        leaf.store_entry(slot, split.key, split.value);
        leaf.flush_entry(slot);
    }
    result = result.and(tree.write_gate.keep(medium.fence()));
    if !split.right {
        result = result.and(tree.write_gate.keep(leaf.set(&head, slot, split.key, 0)));
    }
    Ok(result?)
}

/// Moves all entries of `right` to the empty leaf `left` and links `left` to the leaf after `right`.
pub(super) fn take_over(tree: &FpHybrid, left: FpLeafRef<'_>, right: FpLeafRef<'_>) -> Result<(), TreeError> {
    let medium = tree.slab.medium();
    let log = tree.leaves.logs.take(&tree.slab);
    let head = right.head();
    let mut lines = 0_u64;
    for entry in right.entries(&head) {
        left.store_entry(entry.slot, entry.key, entry.value);
        lines |= 1 << (entry.slot / 4);
    }
    if !injected(FpFault::TakenUnflushed) {
        (0..16)
            .filter(|line| lines >> line & 1 == 1)
            .for_each(|line| left.flush_entry(line * 4));
    }
    log.begin(LeafChange::TakeOver, left, right.0.offset);
    let mut result = tree.write_gate.keep(medium.fence());
    left.store_head(&head);
    left.flush_head();
    left.set_next(right.next());
    result = result.and(tree.write_gate.keep(medium.fence()));
    log.end();
    result.and(tree.write_gate.keep(medium.fence()))
}
