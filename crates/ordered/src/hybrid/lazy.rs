//! Blocks of leaves that the inner nodes do not contain yet, because the tree was opened from a
//! [checkpoint](super::checkpoint).
//!
//! The inner nodes assign the whole key range of such a block to its anchor. Every operation that reaches the
//! anchor first builds the block ([`HybridTree::ensure_built`]): it follows the links from the anchor and
//! inserts the leaves from the greatest to the least. So at any time each leaf in the inner nodes, except the
//! anchor, has its final range, and the anchor has the rest.
//!
//! Invariants: nobody stores to a leaf of a block that is not built. An anchor is not unlinked while any
//! block is pending, because the block before it may end there. No leaf is unlinked from an anchor whose
//! block is not built, because the leaves between them may be missing in the inner nodes. After a block is
//! marked as built, a place that was found while it was not is no longer current.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use super::checkpoint::Anchor;
use super::checkpoint::fault::{CheckpointFault, injected};

/// States of a block.
const PENDING: u8 = 0;
const BUILDING: u8 = 1;
const BUILT: u8 = 2;

/// The blocks of a tree that was opened from a checkpoint. All are built in a tree that was not.
#[derive(Debug, Default)]
pub(super) struct LazyBlocks {
    /// Number of blocks that are not built.
    pending: AtomicUsize,
    anchors: Box<[Anchor]>,
    states: Box<[AtomicU8]>,
    /// The block of each anchor.
    by_leaf: HashMap<u32, usize>,
    /// True if an attempt to build a block has failed.
    interrupted: AtomicBool,
}

/// Permission to build a block. Dropping it leaves the block pending.
#[derive(Debug)]
pub(super) struct BlockBuild<'a> {
    blocks: &'a LazyBlocks,
    block: usize,
}

impl LazyBlocks {
    pub(super) fn new(anchors: Vec<Anchor>) -> LazyBlocks {
        let by_leaf = (0..)
            .zip(&anchors)
            .map(|(block, anchor)| (anchor.leaf.get(), block));
        LazyBlocks {
            pending: AtomicUsize::new(anchors.len()),
            states: anchors.iter().map(|_| AtomicU8::new(PENDING)).collect(),
            by_leaf: by_leaf.collect(),
            interrupted: AtomicBool::new(false),
            anchors: anchors.into(),
        }
    }

    /// Returns true if some block is not built.
    #[inline(always)]
    pub(super) fn any(&self) -> bool {
        self.pending.load(Ordering::Acquire) > 0
    }

    /// Returns the number of the block whose anchor is this leaf, if the block is not built.
    #[inline(always)]
    pub(super) fn pending(&self, leaf: u32) -> Option<usize> {
        if self.any() { self.find_pending(leaf) } else { None }
    }

    #[cold]
    fn find_pending(&self, leaf: u32) -> Option<usize> {
        let block = *self.by_leaf.get(&leaf)?;
        // Acquire: whoever finds the block built also finds its leaves in the inner nodes.
        (self.states[block].load(Ordering::Acquire) != BUILT).then_some(block)
    }

    /// Returns the block whose anchor is this leaf, if it is not built.
    pub(super) fn pending_block(&self, leaf: u32) -> Option<&Anchor> {
        self.pending(leaf).map(|block| &self.anchors[block])
    }

    /// Returns true if a leaf must remain linked.
    pub(super) fn pins(&self, leaf: u32) -> bool {
        self.any() && self.by_leaf.contains_key(&leaf) && !injected(CheckpointFault::UnlinkAnchor)
    }

    /// Returns true if the next leaf in the inner nodes may not be the one that this leaf links to.
    pub(super) fn hides_leaves_after(&self, leaf: u32) -> bool {
        let broken = injected(CheckpointFault::UnlinkBehindAnchor) || injected(CheckpointFault::UnlinkAnchor);
        self.pending(leaf).is_some() && !broken
    }

    /// Returns true if an attempt to build a block has failed, so that the inner nodes may contain some of
    /// its leaves.
    pub(super) fn was_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// Returns the block of a number, and the anchor of the block after it.
    pub(super) fn block(&self, block: usize) -> (&Anchor, Option<&Anchor>) {
        (&self.anchors[block], self.anchors.get(block + 1))
    }

    /// Returns the number of blocks, built or not.
    pub(super) fn len(&self) -> usize {
        self.anchors.len()
    }

    /// Returns the permission to build a block, or `None` if it is built or being built.
    pub(super) fn begin(&self, block: usize) -> Option<BlockBuild<'_>> {
        let state = &self.states[block];
        let begun = state.compare_exchange(PENDING, BUILDING, Ordering::Acquire, Ordering::Relaxed);
        begun.ok().map(|_| BlockBuild { blocks: self, block })
    }

    pub(super) fn is_built(&self, block: usize) -> bool {
        self.states[block].load(Ordering::Acquire) == BUILT
    }

    /// Returns the size in bytes of DRAM.
    pub(super) fn bytes(&self) -> u64 {
        let each = size_of::<Anchor>() + size_of::<AtomicU8>() + size_of::<(u32, usize)>();
        (self.anchors.len() * each) as u64
    }
}

impl BlockBuild<'_> {
    /// Marks the block as built.
    pub(super) fn finish(self) {
        self.blocks.states[self.block].store(BUILT, Ordering::Release);
        self.blocks.pending.fetch_sub(1, Ordering::AcqRel);
        std::mem::forget(self);
    }
}

impl Drop for BlockBuild<'_> {
    fn drop(&mut self) {
        self.blocks.interrupted.store(true, Ordering::Release);
        self.blocks.states[self.block].store(PENDING, Ordering::Release);
    }
}
