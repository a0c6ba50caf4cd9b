//! Durable layout of a leaf, and its header.
//!
//! A leaf consists of one or more blocks of 256 bytes. Line 0 of a block has the header and entries 0 to 2,
//! lines 1 and 2 have four entries each, and line 3 has three entries and two links. Only the links of the
//! first block are used: the one selected by the header's `alt` bit leads to the next leaf, the other one is
//! free.

use std::mem::offset_of;

use zerocopy::little_endian::U64;

use crate::kernel;

/// Size of a block in bytes.
pub(crate) const BLOCK: u64 = 256;

/// Number of entries in a block.
pub(crate) const SLOTS: usize = 14;

/// Bitmap of a full block.
pub(crate) const ALL: u32 = (1 << SLOTS) - 1;

const LOCK: u64 = 1 << 14;
const ALT: u64 = 1 << 15;

/// Bitmaps of the entries in each line.
pub(crate) const LINES: [u32; 4] = [0b111, 0b1111 << 3, 0b1111 << 7, 0b111 << 11];

/// A block of a leaf.
#[repr(C)]
pub(crate) struct LeafBlock {
    header: [U64; 2],
    entries: [[U64; 2]; SLOTS],
    links: [U64; 2],
}

const _: () = {
    assert!(size_of::<LeafBlock>() as u64 == BLOCK);
    assert!(offset_of!(LeafBlock, entries) == 16);
    assert!(offset_of!(LeafBlock, links) == 240);
};

/// Returns the offset of an entry in its block.
#[inline(always)]
pub(crate) fn entry_offset(slot: usize) -> u64 {
    (offset_of!(LeafBlock, entries) + slot * 16) as u64
}

/// Returns the offset of a link in its block.
#[inline(always)]
pub(crate) fn link_offset(which: usize) -> u64 {
    (offset_of!(LeafBlock, links) + which * 8) as u64
}

/// Returns the line of its block that an entry is in.
#[inline(always)]
pub(crate) fn line_of(slot: usize) -> usize {
    (slot + 1) / 4
}

/// The first 16 bytes of a block: a bitmap of the entries in use, a lock bit, which is ignored, the
/// `alt` bit, and the fingerprint of each entry in bytes 2 to 15.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LbHeader {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl LbHeader {
    /// Makes a header from a bitmap of used entries and their fingerprints.
    #[inline(always)]
    pub(crate) fn new(used: u32, fingerprints: &[u8; SLOTS]) -> LbHeader {
        let mut bytes = [[0; 8]; 2];
        bytes.as_flattened_mut()[2..].copy_from_slice(fingerprints);
        let [low, high] = bytes.map(u64::from_le_bytes);
        LbHeader {
            low: low | u64::from(used),
            high,
        }
    }

    /// Returns a bitmap of the used entries.
    #[inline(always)]
    pub(crate) fn used(self) -> u32 {
        self.low as u32 & ALL
    }

    /// Returns a bitmap of the free slots.
    #[inline(always)]
    pub(crate) fn free(self) -> u32 {
        !(self.low as u32) & ALL
    }

    /// Returns the index of the live link.
    #[inline(always)]
    pub(crate) fn alt(self) -> usize {
        usize::from(self.low & ALT != 0)
    }

    /// Returns true if the lock bit is set, which this implementation never does.
    pub(crate) fn is_locked(self) -> bool {
        self.low & LOCK != 0
    }

    /// Returns a bitmap of the used entries with this fingerprint.
    #[inline(always)]
    pub(crate) fn matches(self, fingerprint: u8) -> u32 {
        kernel::matches(self.low, self.high, fingerprint) & self.used()
    }

    /// Returns the header with the other link live.
    pub(crate) fn flipped(self) -> LbHeader {
        LbHeader {
            low: self.low ^ ALT,
            ..self
        }
    }

    /// Returns the header with some entries marked as free.
    #[inline(always)]
    pub(crate) fn without(self, slots: u32) -> LbHeader {
        LbHeader {
            low: self.low & !u64::from(slots & ALL),
            ..self
        }
    }

    /// Returns the header with one more entry in use.
    #[inline(always)]
    pub(crate) fn with(self, slot: usize, fingerprint: u8) -> LbHeader {
        let (mut low, mut high) = (self.low | 1 << slot, self.high);
        let (word, byte) = if slot < 6 {
            (&mut low, slot + 2)
        } else {
            (&mut high, slot - 6)
        };
        *word = *word & !(0xFF << (byte * 8)) | u64::from(fingerprint) << (byte * 8);
        LbHeader { low, high }
    }

    /// Returns the header with the used entries and fingerprints of `other` and its own live link.
    pub(crate) fn replaced_by(self, other: LbHeader) -> LbHeader {
        LbHeader {
            low: other.low & !(ALT | LOCK) | self.low & ALT,
            high: other.high,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_the_lines_they_are_said_to_be_in() {
        for slot in 0..SLOTS {
            assert_eq!(entry_offset(slot) / 64, line_of(slot) as u64);
            assert_eq!(entry_offset(slot) / 64, (entry_offset(slot) + 15) / 64);
            assert!(LINES[line_of(slot)] >> slot & 1 == 1);
        }
        assert_eq!(LINES.iter().sum::<u32>(), ALL);
        assert_eq!((link_offset(0) / 64, link_offset(1) + 8), (3, BLOCK));
    }

    #[test]
    fn a_block_is_as_documented() {
        let document = include_str!("../../../../docs/format/trees.md");
        let section = document.split("### LeafBlock (256 bytes)").nth(1).unwrap_or("");
        for (field, offset, size) in [
            ("header", offset_of!(LeafBlock, header), 16),
            ("entries", offset_of!(LeafBlock, entries), 16 * SLOTS),
            ("links", offset_of!(LeafBlock, links), 16),
        ] {
            let row = format!("| {offset} | {size} | `{field}` |");
            assert!(section.contains(&row), "{row}");
        }
    }

    #[test]
    fn a_header_keeps_its_parts_apart() {
        let mut header = LbHeader::default().flipped();
        for slot in 0..SLOTS {
            header = header.with(slot, 0xA0 + slot as u8);
        }
        assert_eq!((header.used(), header.free(), header.alt()), (ALL, 0, 1));
        for slot in 0..SLOTS {
            assert_eq!(header.matches(0xA0 + slot as u8), 1 << slot);
        }
        let half = header.without(0b1111);
        assert_eq!((half.used(), half.matches(0xA1)), (ALL & !0b1111, 0));
        assert_eq!(half.flipped().alt(), 0);
        assert_eq!(half.with(2, 7).matches(7), 1 << 2);
        let other = LbHeader {
            low: half.low | LOCK,
            ..half
        }
        .flipped();
        assert_eq!(half.replaced_by(other), half);
        assert!(other.is_locked() && !half.is_locked());
    }
}
