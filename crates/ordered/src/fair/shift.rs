//! FAST: entries are shifted by stores of 8 bytes, and after each of them the node holds what it held before the change, or what it
//! will hold after it.
//!
//! To the right, from the last entry on: an entry is copied, value first, to the slot right of it, and is there twice from the moment the
//! key is; the right one counts, so the left one can be overwritten. The insert counts when its key is stored. To the left:
//! the key of the next entry is stored over that of the one that goes, which ends to count at that moment, as the right one of two with the same key counts; then
//! the value. In either direction a line is durable before the next one is touched, so a copy is never lost before what it was
//! copied from.

use crate::persistent::{NodeHead, NodeRef, NodeWriter};

use super::layout::{
    FIRST, SLOTS, count, flush_slot, has_first, key_at, last_up_to, starts_line, store_key, store_value,
    value_at,
};
use super::mistake::{Mistake, made};

/// Adds an entry to a node that has room.
#[inline]
pub(super) fn insert(out: &mut NodeWriter<'_>, node: NodeRef<'_>, key: u64, value: u64) {
    let count = count(node);
    debug_assert!(count < SLOTS);
    let place = match last_up_to(node, key) {
        0 => usize::from(has_first(node) && key_at(node, 0) < key),
        last => last + 1,
    };
    for slot in (place + 1..=count).rev() {
        store_value(out, node, slot, value_at(node, slot - 1));
        store_key(out, node, slot, key_at(node, slot - 1));
        if starts_line(slot) {
            flush_slot(out, node, slot);
            if !made(Mistake::ShiftUnfenced) {
                out.fence();
            }
        }
    }
    if made(Mistake::KeyBeforeValue) {
        store_key(out, node, place, key);
    }
    store_value(out, node, place, value);
    store_key(out, node, place, key);
    if count == 0 {
        // In the line of the first entry.
        out.store(node.offset + NodeHead::META, node.meta() | FIRST);
    }
    if !made(Mistake::InsertUnflushed) {
        flush_slot(out, node, place);
    }
    out.fence();
}

/// Removes the entry of a slot.
#[inline]
pub(super) fn remove(out: &mut NodeWriter<'_>, node: NodeRef<'_>, place: usize) {
    let last = count(node).saturating_sub(1);
    for slot in place..last {
        if made(Mistake::ValueMovesFirst) {
            store_value(out, node, slot, value_at(node, slot + 1));
        }
        store_key(out, node, slot, key_at(node, slot + 1));
        store_value(out, node, slot, value_at(node, slot + 1));
        if starts_line(slot + 1) {
            flush_slot(out, node, slot);
            if !made(Mistake::ShiftUnfenced) {
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

/// Removes what a crash has left of a shift: the left one of two entries with the same key.
pub(super) fn mend(out: &mut NodeWriter<'_>, node: NodeRef<'_>) {
    let copy = (1..count(node)).find(|slot| key_at(node, slot - 1) == key_at(node, *slot));
    if let Some(copy) = copy {
        remove(out, node, copy - 1);
    }
}
