//! Durable layout of a node and of a redo log.
//!
//! The head's first word also holds the bitmap of the used entries and the bit that validates the slot array.
//! The slot array is in the head's line: its byte `i` is the number of the entry with the `i`-th least key.

use std::mem::offset_of;

use zerocopy::little_endian::U64;

use crate::persistent::{NODE, NodeHead, NodeRef, NodeWriter};

/// Number of entries in a node.
pub(super) const ENTRIES: usize = 28;

/// Position of the bitmap in the head's first word.
pub(super) const BITMAP: u32 = 32;

/// Bit of the head's first word: the slot array is valid.
pub(super) const VALID: u64 = 1 << 63;

/// Bitmap of a full node.
pub(super) const ALL: u64 = (1 << ENTRIES) - 1;

/// Number of words in a slot array.
pub(super) const WORDS: usize = 4;

#[repr(C)]
pub(super) struct WbNode {
    head: NodeHead,
    slots: [u8; WORDS * 8],
    entries: [[U64; 2]; ENTRIES],
}

/// Number of pairs in a log.
pub(super) const PAIRS: usize = 15;

/// A list of words to be stored together.
#[repr(C)]
pub(super) struct RedoLog {
    /// Number of valid pairs, or 0 if the log is unused.
    count: U64,
    reserved: U64,
    /// Offset and new value of each word.
    pairs: [[U64; 2]; PAIRS],
}

/// Size of a log in bytes.
pub(super) const LOG: u64 = size_of::<RedoLog>() as u64;

/// Offset of the first log in the slab's root, and number of logs.
pub(super) const LOGS_AT: u64 = 64;
pub(super) const LOGS: usize = 8;

const _: () = {
    assert!(size_of::<WbNode>() as u64 == NODE);
    assert!(offset_of!(WbNode, slots) == 32);
    assert!(offset_of!(WbNode, entries) == 64);
    assert!(ENTRIES <= WORDS * 8 && BITMAP as usize + ENTRIES < 63);
    assert!(LOG == 256 && offset_of!(RedoLog, pairs) == 16);
    assert!(LOGS_AT + LOGS as u64 * LOG <= 3840);
};

/// Returns the offset of an entry's key in its node. The value follows the key.
#[inline(always)]
pub(crate) fn entry_offset(entry: usize) -> u64 {
    (offset_of!(WbNode, entries) + entry * 16) as u64
}

/// Returns the offset of a word of the slot array.
#[inline(always)]
pub(super) fn slots_offset(word: usize) -> u64 {
    (offset_of!(WbNode, slots) + word * 8) as u64
}

/// Returns the offset of a pair in its log.
pub(super) fn pair_offset(pair: usize) -> u64 {
    (offset_of!(RedoLog, pairs) + pair * 16) as u64
}

#[inline(always)]
pub(super) fn key_at(node: NodeRef<'_>, entry: usize) -> u64 {
    node.load(entry_offset(entry))
}

#[inline(always)]
pub(super) fn value_at(node: NodeRef<'_>, entry: usize) -> u64 {
    node.load(entry_offset(entry) + 8)
}

/// Stores and flushes an entry.
#[inline(always)]
pub(super) fn write_entry(
    out: &mut NodeWriter<'_>,
    node: NodeRef<'_>,
    entry: usize,
    (key, value): (u64, u64),
) {
    let at = node.offset + entry_offset(entry);
    out.store(at, key);
    out.store(at + 8, value);
    out.flush(at);
}

/// Returns a bitmap of the used entries.
#[inline(always)]
pub(super) fn bitmap(meta: u64) -> u64 {
    meta >> BITMAP & ALL
}

/// Returns the head's first word with another bitmap.
#[inline(always)]
pub(super) fn with_bitmap(meta: u64, bitmap: u64) -> u64 {
    meta & !(ALL << BITMAP) | bitmap << BITMAP
}

/// Returns the number of a free entry, of which there must be one.
#[inline(always)]
pub(super) fn free_entry(bitmap: u64) -> usize {
    (!bitmap).trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_logs_are_as_documented() {
        let document = include_str!("../../../../docs/format/trees.md");
        let has = |heading: &str, rows: &[(&str, usize, usize)]| {
            let section = document.split(heading).nth(1).unwrap_or("");
            for (field, offset, size) in rows {
                let row = format!("| {offset} | {size} | `{field}` |");
                assert!(section.contains(&row), "{row}");
            }
        };
        let node = [
            ("head", offset_of!(WbNode, head), 32),
            ("slots", offset_of!(WbNode, slots), 32),
            ("entries", offset_of!(WbNode, entries), 16 * ENTRIES),
        ];
        has("### WbNode (512 bytes)", &node);
        let log = [
            ("count", offset_of!(RedoLog, count), 8),
            ("reserved", offset_of!(RedoLog, reserved), 8),
            ("pairs", offset_of!(RedoLog, pairs), 16 * PAIRS),
        ];
        has("### RedoLog (256 bytes)", &log);
    }

    #[test]
    fn a_first_word_keeps_its_parts_apart() {
        let meta = VALID | 0xB377_0003;
        let full = with_bitmap(meta, ALL);
        assert_eq!((bitmap(full), bitmap(meta)), (ALL, 0));
        assert_eq!(with_bitmap(full, 0b101) & !(0b101 << BITMAP), meta);
        assert_eq!(free_entry(0b1011), 2);
    }
}
