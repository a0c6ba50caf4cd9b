//! FAST: entries are shifted by stores of 8 bytes. After each store the node holds either its contents
//! before the change or those after it.
//!
//! Shifting to the right starts at the last entry. An entry is copied, value first, to the slot on its right
//! and is duplicated from the moment its key is stored. The right copy is the valid one, so the left one can
//! be overwritten. The insert takes effect when its key is stored. Shifting to the left stores the key of the
//! next entry over that of the removed one. The removed entry becomes invalid at that moment, because the
//! right one of two entries with the same key is valid; then the value is stored. In both directions a line
//! is durable before the next one is touched, so a copy is never lost before its original.

use crate::persistent::{NodeHead, NodeRef, NodeWriter};

use super::fault::{FastFairFault, injected};
use super::layout::{
    FIRST, SLOTS, count, flush_slot, has_first, key_at, last_up_to, starts_line, store_key, store_value,
    value_at,
};

/// Adds an entry to a node that has room.
#[inline]
pub(super) fn insert(out: &mut NodeWriter<'_>, node: NodeRef<'_>, key: u64, value: u64) {
    let count = count(node);
    debug_assert!(count < SLOTS);
    let place = match last_up_to(node, key) {
        0 => usize::from(has_first(node) && key_at(node, 0) < key),
        last => last + 1,
    };
    // From the end, so that no entry is overwritten before it has been copied.
    for slot in (place + 1..=count).rev() {
        store_value(out, node, slot, value_at(node, slot - 1));
        store_key(out, node, slot, key_at(node, slot - 1));
        if starts_line(slot) {
            flush_slot(out, node, slot);
            if !injected(FastFairFault::ShiftUnfenced) {
                out.fence();
            }
        }
    }
    if injected(FastFairFault::KeyBeforeValue) {
        store_key(out, node, place, key);
    }
    store_value(out, node, place, value);
    store_key(out, node, place, key);
    if count == 0 {
        // The flag is in the line of the first entry, which is flushed below.
        out.store(node.offset + NodeHead::META, node.meta() | FIRST);
    }
    if !injected(FastFairFault::InsertUnflushed) {
        flush_slot(out, node, place);
    }
    out.fence();
}

/// Removes the entry in a slot.
#[inline]
pub(super) fn remove(out: &mut NodeWriter<'_>, node: NodeRef<'_>, place: usize) {
    let last = count(node).saturating_sub(1);
    for slot in place..last {
        if injected(FastFairFault::ValueMovesFirst) {
            store_value(out, node, slot, value_at(node, slot + 1));
        }
        store_key(out, node, slot, key_at(node, slot + 1));
        store_value(out, node, slot, value_at(node, slot + 1));
        if starts_line(slot + 1) {
            flush_slot(out, node, slot);
            if !injected(FastFairFault::ShiftUnfenced) {
                out.fence();
            }
        }
    }
    match last {
        0 => out.store(node.offset + NodeHead::META, node.meta() & !FIRST),
        _ => store_key(out, node, last, 0),
    }
    flush_slot(out, node, last);
    out.fence();
}

/// Removes the duplicate that an interrupted shift has left: the left one of two entries with the same key.
pub(super) fn repair(out: &mut NodeWriter<'_>, node: NodeRef<'_>) {
    let copy = (1..count(node)).find(|slot| key_at(node, slot - 1) == key_at(node, *slot));
    if let Some(copy) = copy {
        remove(out, node, copy - 1);
    }
}
