//! Checkpoints of the inner nodes, so that opening a closed tree need not read its leaves.
//!
//! Leaves are divided into *blocks* of successive ones. The first leaf of a block is its *anchor*. A
//! checkpoint has the lower bound and the number of each anchor, the number of entries, and the nodes in
//! use. It is written at closing, to free nodes of the tree's own slab, which form a list. They count as
//! free again after opening: the first write makes the checkpoint invalid before a node can be reused.
//! Opening builds inner nodes that lead to the anchors alone; [`lazy`](super::lazy) adds the other leaves
//! of a block when it is first used.
//!
//! A checkpoint is valid exactly as long as the slab is closed: the word of the slab's head that leads to it
//! becomes durable with the state, the next writer first revokes the state, and programs that know no
//! checkpoints close with a word of 0. Node checksums cover its nodes. A tree without a valid checkpoint is
//! opened by reading all leaves.

pub(crate) mod fault;
mod layout;
mod read;
mod write;

pub(super) use layout::Anchor;
pub(super) use read::{Checkpoint, read};
