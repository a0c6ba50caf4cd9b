//! The head that all nodes have in common.

use std::mem::offset_of;

use zerocopy::little_endian::U64;

/// Size of a node in bytes.
pub(crate) const NODE: u64 = 512;

/// Size of a head in bytes.
pub(crate) const HEAD: u64 = 32;

/// Upper bound of levels; leaves have level 0. A slab has too few nodes to reach it.
pub(crate) const TOP: u32 = 24;

/// The head of a node.
#[repr(C)]
pub(crate) struct NodeHead {
    meta: U64,
    sibling: U64,
    high: U64,
    low: U64,
}

const _: () = assert!(size_of::<NodeHead>() as u64 == HEAD);

impl NodeHead {
    /// Offset of the word with the level in byte 0 and the format's tag in bytes 2 and 3. The format
    /// defines the rest. The word is 0 in a freed node.
    pub(crate) const META: u64 = offset_of!(NodeHead, meta) as u64;
    /// Offset of the link to the right sibling, which is 0 if there is none.
    pub(crate) const SIBLING: u64 = offset_of!(NodeHead, sibling) as u64;
    /// Offset of the greatest key that belongs to the node.
    pub(crate) const HIGH: u64 = offset_of!(NodeHead, high) as u64;
    /// Offset of the least key that belongs to the node.
    pub(crate) const LOW: u64 = offset_of!(NodeHead, low) as u64;
}

/// Values for the head of a new node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeHeadValues {
    pub(crate) level: u32,
    pub(crate) sibling: u64,
    pub(crate) low: u64,
    pub(crate) high: u64,
}

/// Returns the bits of a head's first word that encode tag and level.
pub(crate) const fn kind(tag: u16, level: u32) -> u64 {
    (tag as u64) << 16 | level as u64
}

/// Mask of the bits that [`kind`] sets.
pub(crate) const KIND: u64 = 0xFFFF_00FF;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_as_documented() {
        let document = include_str!("../../../../docs/format/trees.md");
        let section = document.split("### NodeHead (32 bytes)").nth(1).unwrap_or("");
        for (field, offset) in [
            ("meta", NodeHead::META),
            ("sibling", NodeHead::SIBLING),
            ("high", NodeHead::HIGH),
            ("low", NodeHead::LOW),
        ] {
            let row = format!("| {offset} | 8 | `{field}` |");
            assert!(section.contains(&row), "{row}");
        }
    }
}
