//! Durable layout of a checkpoint: a list of nodes whose payloads, joined, are a head, the anchors in key
//! order, and the words of [`Slab::usage`](halocline_pool::Slab::usage).

use std::mem::offset_of;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Number of leaves in a block, on average 170 KiB of entries in leaves of 256 bytes. In tests so few that
/// small trees have several blocks.
pub(super) const BLOCK_LEAVES: u64 = if cfg!(test) { 4 } else { 1024 };

/// Minimum number of leaves of a tree that gets a checkpoint. Smaller ones are read in less than a
/// millisecond.
pub(super) const MIN_LEAVES: u64 = if cfg!(test) { 12 } else { 4096 };

/// Minimum number of splits between two checkpoints of a running tree.
pub(in super::super) const MIN_SPLITS: u64 = if cfg!(test) { 6 } else { 1 << 16 };

/// Number of splits after which a checkpoint that could not be written is tried again.
pub(in super::super) const RETRY_SPLITS: u64 = if cfg!(test) { 2 } else { 1 << 10 };

/// A running tree gets a checkpoint when there were as many splits as this part of its leaves.
pub(in super::super) const SPLIT_SHARE: u64 = 16;

/// Version of this layout.
pub(super) const VERSION: u32 = 2;

/// The first bytes of each node.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"treeckpt");

/// The header of a node of a checkpoint. The payload follows.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct CheckpointNode {
    pub(super) magic: U64,
    /// Offset of the next node, or 0.
    pub(super) next: U64,
    /// Position in the list, from 0.
    pub(super) position: U64,
    /// Length of the payload in bytes.
    pub(super) len: U32,
    pub(super) reserved: U32,
}

/// The beginning of the joined payloads.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct CheckpointHead {
    pub(super) version: U32,
    /// Number of anchors.
    pub(super) anchors: U32,
    /// Number of entries of the tree.
    pub(super) entries: U64,
    /// Number of leaves of the tree.
    pub(super) leaves: U64,
    /// Number of words that describe the nodes in use; 0 in a checkpoint of a running tree.
    pub(super) usage: U64,
    /// Number of chunks of the slab.
    pub(super) chunks: U64,
    /// Checksum of the joined payloads, with 0 in this field.
    pub(super) sum: U64,
}

impl CheckpointHead {
    /// Offset of the checksum.
    pub(super) const SUM: usize = offset_of!(CheckpointHead, sum);
}

/// The first leaf of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(in super::super) struct Anchor {
    /// The least key that belongs to the block.
    pub(in super::super) low: U64,
    /// Number of the leaf.
    pub(in super::super) leaf: U32,
    /// Number of leaves of the block when the checkpoint was written.
    pub(in super::super) leaves: U32,
}

const _: () = {
    assert!(size_of::<CheckpointNode>() == 32);
    assert!(offset_of!(CheckpointNode, next) == 8);
    assert!(offset_of!(CheckpointNode, position) == 16);
    assert!(offset_of!(CheckpointNode, len) == 24);
    assert!(size_of::<CheckpointHead>() == 48);
    assert!(offset_of!(CheckpointHead, anchors) == 4);
    assert!(offset_of!(CheckpointHead, entries) == 8);
    assert!(offset_of!(CheckpointHead, leaves) == 16);
    assert!(offset_of!(CheckpointHead, usage) == 24);
    assert!(offset_of!(CheckpointHead, chunks) == 32);
    assert!(offset_of!(CheckpointHead, sum) == 40);
    assert!(size_of::<Anchor>() == 16);
    assert!(offset_of!(Anchor, leaf) == 8);
    assert!(offset_of!(Anchor, leaves) == 12);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_as_documented() {
        let document = include_str!("../../../../../docs/format/trees.md");
        let check = |title: &str, fields: &[(&str, usize, usize)]| {
            let section = document.split(title).nth(1).unwrap_or("");
            for (field, offset, size) in fields {
                let row = format!("| {offset} | {size} | `{field}` |");
                assert!(section.contains(&row), "{title}: {row}");
            }
        };
        check(
            "### CheckpointNode (32 bytes)",
            &[
                ("magic", 0, 8),
                ("next", offset_of!(CheckpointNode, next), 8),
                ("position", offset_of!(CheckpointNode, position), 8),
                ("len", offset_of!(CheckpointNode, len), 4),
                ("reserved", offset_of!(CheckpointNode, reserved), 4),
            ],
        );
        check(
            "### CheckpointHead (48 bytes)",
            &[
                ("version", 0, 4),
                ("anchors", offset_of!(CheckpointHead, anchors), 4),
                ("entries", offset_of!(CheckpointHead, entries), 8),
                ("leaves", offset_of!(CheckpointHead, leaves), 8),
                ("usage", offset_of!(CheckpointHead, usage), 8),
                ("chunks", offset_of!(CheckpointHead, chunks), 8),
                ("sum", offset_of!(CheckpointHead, sum), 8),
            ],
        );
        check(
            "### Anchor (16 bytes)",
            &[
                ("low", 0, 8),
                ("leaf", offset_of!(Anchor, leaf), 4),
                ("leaves", offset_of!(Anchor, leaves), 4),
            ],
        );
    }
}
