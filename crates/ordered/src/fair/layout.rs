//! Durable layout of a node: the head, then the entries in ascending order of their keys.
//!
//! A node has no entries unless its head says that there is a first one. Otherwise the entries are the first
//! one, if its key belongs to the node, and all that follow it up to the first key that is 0 or greater than
//! the node's greatest key. All keys after that position are also 0 or greater than the node's greatest key.

use std::mem::offset_of;

use halocline_media::LINE;
use zerocopy::little_endian::U64;

use crate::persistent::{HEAD, NODE, NodeHead, NodeRef, NodeWriter};

/// Number of entries in a node.
pub(super) const SLOTS: usize = 30;

/// Bit of the head's first word: the node has a first entry.
pub(super) const FIRST: u64 = 1 << 8;

/// Position in the head's first word of a child's number, its offset divided by 256.
pub(super) const HINT: u32 = 32;

#[repr(C)]
pub(super) struct FairNode {
    head: NodeHead,
    entries: [[U64; 2]; SLOTS],
}

const _: () = {
    assert!(size_of::<FairNode>() as u64 == NODE);
    assert!(offset_of!(FairNode, entries) as u64 == HEAD);
    // No entry spans two lines.
    assert!(HEAD.is_multiple_of(16));
};

/// Returns the offset of a key in its node. The value follows the key.
#[inline(always)]
pub(crate) fn entry_offset(slot: usize) -> u64 {
    (offset_of!(FairNode, entries) + slot * 16) as u64
}

/// Returns true if the entry is the first one in its line.
#[inline(always)]
pub(super) fn starts_line(slot: usize) -> bool {
    entry_offset(slot).is_multiple_of(LINE)
}

#[inline(always)]
pub(super) fn key_at(node: NodeRef<'_>, slot: usize) -> u64 {
    node.load(entry_offset(slot))
}

#[inline(always)]
pub(super) fn value_at(node: NodeRef<'_>, slot: usize) -> u64 {
    node.load(entry_offset(slot) + 8)
}

#[inline(always)]
pub(super) fn store_key(out: &mut NodeWriter<'_>, node: NodeRef<'_>, slot: usize, key: u64) {
    out.store(node.offset + entry_offset(slot), key);
}

#[inline(always)]
pub(super) fn store_value(out: &mut NodeWriter<'_>, node: NodeRef<'_>, slot: usize, value: u64) {
    out.store(node.offset + entry_offset(slot) + 8, value);
}

/// Flushes the line of an entry.
#[inline(always)]
pub(super) fn flush_slot(out: &mut NodeWriter<'_>, node: NodeRef<'_>, slot: usize) {
    out.flush(node.offset + entry_offset(slot));
}

/// Returns true if the node has a first entry.
#[inline(always)]
pub(super) fn has_first(node: NodeRef<'_>) -> bool {
    node.meta() & FIRST != 0 && key_at(node, 0) <= node.high()
}

/// Returns the last slot after the first whose key is present and at most `key`, or 0 if there is none.
/// `key` belongs to the node. The binary search has no branches.
#[inline(always)]
pub(super) fn last_up_to(node: NodeRef<'_>, key: u64) -> usize {
    let mut slot = 0;
    for step in [16, 8, 4, 2, 1] {
        let probe = (slot + step).min(SLOTS - 1);
        // Key 0 means an empty slot; the subtraction turns it into the greatest key.
        let up_to = key_at(node, probe).wrapping_sub(1) < key;
        slot += (probe - slot) * usize::from(up_to);
    }
    slot
}

/// Returns the number of entries.
#[inline(always)]
pub(super) fn count(node: NodeRef<'_>) -> usize {
    match last_up_to(node, node.high()) {
        0 => usize::from(has_first(node)),
        last => last + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_as_documented() {
        let document = include_str!("../../../../docs/format/trees.md");
        let section = document.split("### FairNode (512 bytes)").nth(1).unwrap_or("");
        for (field, offset, size) in [
            ("head", offset_of!(FairNode, head), HEAD as usize),
            ("entries", offset_of!(FairNode, entries), 16 * SLOTS),
        ] {
            let row = format!("| {offset} | {size} | `{field}` |");
            assert!(section.contains(&row), "{row}");
        }
    }

    #[test]
    fn lines_start_where_they_are_said_to() {
        let starts: Vec<usize> = (0..SLOTS).filter(|slot| starts_line(*slot)).collect();
        assert_eq!(starts, [2, 6, 10, 14, 18, 22, 26]);
    }
}
