//! What all nodes begin with.

use std::mem::offset_of;

use zerocopy::little_endian::U64;

/// Bytes of a node.
pub(crate) const NODE: u64 = 512;

/// Bytes of a head.
pub(crate) const HEAD: u64 = 32;

/// Levels are below this, that of leaves being 0: more than a slab has nodes for.
pub(crate) const TOP: u32 = 24;

/// The first bytes of a node.
#[repr(C)]
pub(crate) struct NodeHead {
    meta: U64,
    sibling: U64,
    high: U64,
    low: U64,
}

const _: () = assert!(size_of::<NodeHead>() as u64 == HEAD);

impl NodeHead {
    /// The level in byte 0, the format's tag in bytes 2 and 3, the rest as the format says; 0 in a node that is none.
    pub(crate) const META: u64 = offset_of!(NodeHead, meta) as u64;
    /// Offset of the node right of it on its level, or 0.
    pub(crate) const SIBLING: u64 = offset_of!(NodeHead, sibling) as u64;
    /// The greatest key that belongs to it.
    pub(crate) const HIGH: u64 = offset_of!(NodeHead, high) as u64;
    /// The least.
    pub(crate) const LOW: u64 = offset_of!(NodeHead, low) as u64;
}

/// What the head of a new node is to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeHeadValues {
    pub(crate) level: u32,
    pub(crate) sibling: u64,
    pub(crate) low: u64,
    pub(crate) high: u64,
}

/// What level and tag make of a head's first word.
pub(crate) const fn kind(tag: u16, level: u32) -> u64 {
    (tag as u64) << 16 | level as u64
}

/// The bits of [`kind`].
pub(crate) const KIND: u64 = 0xFFFF_00FF;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_as_documented() {
        let document = include_str!("../../../../docs/format.md");
        let section = document.split("#### NodeHead (32 bytes)").nth(1).unwrap_or("");
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
