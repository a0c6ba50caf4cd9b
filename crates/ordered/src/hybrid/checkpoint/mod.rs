//! Checkpoints of the inner nodes, so that opening a tree need not read its leaves.
//!
//! Leaves are divided into *blocks* of successive ones. The first leaf of a block is its *anchor*. A
//! checkpoint has the lower bound and the number of each anchor. It is written to free nodes of the tree's
//! own slab, which form a list; the owner's word in the slab's head leads to them. Opening builds inner nodes
//! that lead to the anchors alone; [`lazy`](super::lazy) adds the other leaves of a block when it is first
//! used.
//!
//! A tree that is closed gets a checkpoint that also has the number of leaves of each block, the number of
//! entries, and the nodes in use, all of which is exact as long as the slab is closed. While the tree is
//! written, its anchors stay valid, because they are [pinned](super::pins), and a new checkpoint replaces the
//! previous one after a number of splits. After a crash, the other leaves of a block and the nodes in use are
//! found only by following links.
//!
//! A tree without a valid checkpoint is opened by reading all leaves.

pub(crate) mod fault;
mod layout;
mod read;
mod renew;
mod write;

pub(super) use layout::{Anchor, MIN_SPLITS};
pub(super) use read::{Checkpoint, read};
