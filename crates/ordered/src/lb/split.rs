//! Logless split of a full leaf.
//!
//! Order: (1) the whole new leaf, and the link to it in the link of the old leaf that is not live; (2) one
//! store to the first header of the old leaf, which makes that link live and frees the moved entries of the
//! first block; (3) in leaves of several blocks, the other headers. A crash before (2) leaves the old leaf
//! unchanged and the new one unreferenced. A crash after (2) may leave moved entries in other blocks of the
//! old leaf. All of them are also in the new leaf and not below its least key, so recovery recognizes and
//! clears them.

use crate::hybrid::{FailedSplit, LeafSplit, StoreWords};
use crate::kernel::fingerprint;
use crate::write_gate::WriteGate;

use super::fault::{LbFault, injected};
use super::layout::{ALL, LINES, LbHeader, SLOTS};
use super::leaf::{LbLeafRef, slot_of};
use super::leaves::LbLeafFormat;

/// Splits a full leaf. `moving` is as in [`LbLeafRef::put`].
pub(super) fn split<const B: usize>(
    write_gate: &WriteGate,
    moving: bool,
    split: &LeafSplit<'_, LbLeafFormat<B>>,
) -> Result<(), FailedSplit> {
    match (LbLeafRef::mapped(split.old), LbLeafRef::mapped(split.new)) {
        (Some(leaf), Some(new)) => split_into(leaf, new, write_gate, moving, split),
        _ => split_into(
            LbLeafRef(split.old),
            LbLeafRef(split.new),
            write_gate,
            moving,
            split,
        ),
    }
}

fn split_into<W: StoreWords, const B: usize>(
    leaf: LbLeafRef<W, B>,
    new: LbLeafRef<W, B>,
    write_gate: &WriteGate,
    moving: bool,
    split: &LeafSplit<'_, LbLeafFormat<B>>,
) -> Result<(), FailedSplit> {
    let headers = &split.head.0;
    let (key, value) = (split.key, split.value);
    let live = headers[0].alt();
    let gone: [u32; B] = std::array::from_fn(|block| (split.moved >> (block * SLOTS)) as u32 & ALL);
    let entry = |number| {
        let slot = slot_of::<B>(number);
        (leaf.key(slot), leaf.value(slot))
    };

    if injected(LbFault::AltFlippedEarly) {
        leaf.store_low(0, headers[0].flipped());
        leaf.flush_line(0, 0);
    }
    new.write_new(split.entries(entry), split.next, false);
    let link = if injected(LbFault::LinkOverLive) {
        live
    } else {
        1 - live
    };
    if !injected(LbFault::LinkAfterHeader) {
        leaf.store_link(link, split.new.offset);
        leaf.flush_line(0, 3);
    }
    if !injected(LbFault::NewLeafUnfenced)
        && let Err(error) = write_gate.keep(leaf.0.fence())
    {
        // The new link is not live, so the old leaf is unchanged.
        return Err(FailedSplit::before(error, split));
    }

    // From here on all stores are made even if the medium fails, so that readers see a consistent tree.
    let mut left = *headers;
    left[0] = headers[0].flipped().without(gone[0]);
    leaf.store_low(0, left[0]);
    if injected(LbFault::LinkAfterHeader) {
        leaf.store_link(link, split.new.offset);
        leaf.flush_line(0, 3);
    }
    let mut placed = split.right || place(&leaf, &mut left, 0, gone[0], (key, value));
    leaf.flush_line(0, 0);
    let mut result = write_gate.keep(leaf.0.fence());
    if gone[1..].iter().any(|gone| *gone != 0) {
        for block in 1..B {
            if gone[block] != 0 {
                left[block] = headers[block].without(gone[block]);
                leaf.store_low(block, left[block]);
                placed = placed || place(&leaf, &mut left, block, gone[block], (key, value));
                leaf.flush_line(block, 0);
            }
        }
        result = result.and(write_gate.keep(leaf.0.fence()));
    }
    if !placed {
        let put = leaf.put(&left, key, value, moving);
        result = result.and(write_gate.keep(put.map(drop).map_err(|error| *error)));
    }
    Ok(result?)
}

/// Inserts an entry into a slot of the header's line that has just been freed. Stores to one line
/// arrive in order, so this needs no flush or fence of its own.
fn place<W: StoreWords, const B: usize>(
    leaf: &LbLeafRef<W, B>,
    headers: &mut [LbHeader; B],
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
