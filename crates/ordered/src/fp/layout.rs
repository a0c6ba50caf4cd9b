//! The durable bytes of a leaf and of a micro-log.

use std::mem::offset_of;

use zerocopy::little_endian::U64;

/// Entries of a leaf.
pub(crate) const SLOTS: usize = 56;

/// One bit for each entry.
pub(crate) const ALL: u64 = (1 << SLOTS) - 1;

/// Bytes of a leaf.
pub(crate) const LEAF: u64 = size_of::<FpLeaf>() as u64;

/// A leaf. Its first line has the entries in use, a bit each, and a fingerprint for each.
#[repr(C)]
pub(crate) struct FpLeaf {
    bitmap: U64,
    fingerprints: [u8; SLOTS],
    entries: [[U64; 2]; SLOTS],
    next: U64,
    reserved: [U64; 7],
}

/// What a split, or a leaf that takes over its right neighbour, is about to do.
#[repr(C)]
pub(crate) struct MicroLog {
    /// The offset of the leaf that is changed, plus what is done with it: 1 a split, 2 taking over. 0 if the log is not in use.
    leaf: U64,
    /// The leaf right of it: the new one, or the one that goes.
    right: U64,
    /// The leaf's bitmap before.
    bitmap: U64,
    reserved: [U64; 5],
}

/// Where the micro-logs are in the root of the slab.
pub(crate) const LOGS_AT: u64 = 64;

/// How many there are: as many leaves can be split at a time.
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

/// Offset of an entry in its leaf.
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
        let document = include_str!("../../../../docs/format.md");
        let section = |title: &str| document.split(title).nth(1).unwrap_or("");
        let rows = [
            (
                "#### FpLeaf (1024 bytes)",
                "bitmap",
                offset_of!(FpLeaf, bitmap),
                8,
            ),
            (
                "#### FpLeaf (1024 bytes)",
                "fingerprints",
                offset_of!(FpLeaf, fingerprints),
                SLOTS,
            ),
            (
                "#### FpLeaf (1024 bytes)",
                "entries",
                offset_of!(FpLeaf, entries),
                16 * SLOTS,
            ),
            ("#### FpLeaf (1024 bytes)", "next", offset_of!(FpLeaf, next), 8),
            (
                "#### FpLeaf (1024 bytes)",
                "reserved",
                offset_of!(FpLeaf, reserved),
                56,
            ),
            ("#### MicroLog (64 bytes)", "leaf", offset_of!(MicroLog, leaf), 8),
            (
                "#### MicroLog (64 bytes)",
                "right",
                offset_of!(MicroLog, right),
                8,
            ),
            (
                "#### MicroLog (64 bytes)",
                "bitmap",
                offset_of!(MicroLog, bitmap),
                8,
            ),
            (
                "#### MicroLog (64 bytes)",
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
