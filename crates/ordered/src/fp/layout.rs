//! Durable layout of a leaf and of a micro-log.

use std::mem::offset_of;

use zerocopy::little_endian::U64;

/// Number of entries in a leaf.
pub(crate) const SLOTS: usize = 56;

/// Bitmap of a full leaf.
pub(crate) const ALL: u64 = (1 << SLOTS) - 1;

/// Bytes of a leaf.
pub(crate) const LEAF: u64 = size_of::<FpLeaf>() as u64;

/// A leaf. Its first line holds a bitmap of the entries in use and a fingerprint of each.
#[repr(C)]
pub(crate) struct FpLeaf {
    bitmap: U64,
    fingerprints: [u8; SLOTS],
    entries: [[U64; 2]; SLOTS],
    next: U64,
    reserved: [U64; 7],
}

/// Description of a split, or of a merge with the right neighbour, that is in progress.
#[repr(C)]
pub(crate) struct MicroLog {
    /// Offset of the leaf that is changed, plus the kind of change: 1 for a split, 2 for a merge. 0 if the
    /// log is unused.
    leaf: U64,
    /// The leaf on its right: the new one, or the one to be removed.
    right: U64,
    /// The leaf's bitmap before the change.
    bitmap: U64,
    reserved: [U64; 5],
}

/// Offset of the micro-logs in the root of the slab.
pub(crate) const LOGS_AT: u64 = 64;

/// Number of micro-logs, and thus of leaves that can be split at the same time.
pub(crate) const LOGS: u32 = 32;

/// Bytes of a micro-log, a line.
pub(crate) const LOG: u64 = size_of::<MicroLog>() as u64;

const _: () = {
    assert!(LEAF == 1024);
    assert!(offset_of!(FpLeaf, fingerprints) == 8);
    assert!(offset_of!(FpLeaf, entries) == 64);
    assert!(offset_of!(FpLeaf, next) == 960);
    assert!(LOG == 64);
    assert!(offset_of!(MicroLog, right) == 8);
    assert!(offset_of!(MicroLog, bitmap) == 16);
};

/// Returns the offset of an entry in its leaf.
#[inline(always)]
pub(crate) fn entry_offset(slot: usize) -> u64 {
    (offset_of!(FpLeaf, entries) + slot * 16) as u64
}

/// Offset of the link in its leaf.
pub(crate) const NEXT: u64 = offset_of!(FpLeaf, next) as u64;

/// Offsets of the words of a micro-log.
pub(crate) const LOG_RIGHT: u64 = offset_of!(MicroLog, right) as u64;
pub(crate) const LOG_BITMAP: u64 = offset_of!(MicroLog, bitmap) as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_as_documented() {
        let document = include_str!("../../../../docs/format/trees.md");
        let section = |title: &str| document.split(title).nth(1).unwrap_or("");
        let rows = [
            ("### FpLeaf (1024 bytes)", "bitmap", offset_of!(FpLeaf, bitmap), 8),
            (
                "### FpLeaf (1024 bytes)",
                "fingerprints",
                offset_of!(FpLeaf, fingerprints),
                SLOTS,
            ),
            (
                "### FpLeaf (1024 bytes)",
                "entries",
                offset_of!(FpLeaf, entries),
                16 * SLOTS,
            ),
            ("### FpLeaf (1024 bytes)", "next", offset_of!(FpLeaf, next), 8),
            (
                "### FpLeaf (1024 bytes)",
                "reserved",
                offset_of!(FpLeaf, reserved),
                56,
            ),
            ("### MicroLog (64 bytes)", "leaf", offset_of!(MicroLog, leaf), 8),
            ("### MicroLog (64 bytes)", "right", offset_of!(MicroLog, right), 8),
            (
                "### MicroLog (64 bytes)",
                "bitmap",
                offset_of!(MicroLog, bitmap),
                8,
            ),
            (
                "### MicroLog (64 bytes)",
                "reserved",
                offset_of!(MicroLog, reserved),
                40,
            ),
        ];
        for (title, field, offset, size) in rows {
            let row = format!("| {offset} | {size} | `{field}` |");
            assert!(section(title).contains(&row), "{title} {row}");
        }
    }
}
