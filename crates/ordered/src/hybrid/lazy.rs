//! Blocks of leaves that the inner nodes do not contain yet, because the tree was opened from a
//! [checkpoint](super::checkpoint).
//!
//! The inner nodes assign the whole key range of such a block to its anchor. Every operation that reaches the
//! anchor first builds the block ([`HybridTree::ensure_built`]): it follows the links from the anchor and
//! inserts the leaves from the greatest to the least. So at any time each leaf in the inner nodes, except the
//! anchor, has its final range, and the anchor has the rest.
//!
//! After a crash, blocks hold changes that are unfinished, and the nodes in use are known only when all
//! blocks are built; until then new nodes come from a further chunk.
//!
//! Invariants: nobody but who builds it stores to a leaf of a block that is not built. Anchors are
//! [pinned](super::pins) while any block is pending, because the block before them may end there. No leaf is
//! unlinked from an anchor whose block is not built, because the leaves between them may be missing in the
//! inner nodes. After a block is marked as built, a place that was found while it was not is no longer
//! current.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use halocline_pool::{NodeSet, Slab};

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
    /// The bounds and numbers of the leaves of blocks that were read but not entirely inserted.
    interrupted: Mutex<HashMap<usize, Vec<(u64, u32)>>>,
    /// After a crash: what is known of the nodes in use.
    after_crash: Option<AfterCrash>,
}

/// The nodes of a tree that was opened after a crash.
#[derive(Debug)]
pub(super) struct AfterCrash {
    /// The nodes that links were found to lead to.
    pub(super) reached: NodeSet,
    /// True if the slab has grown since the checkpoint was written. It does not grow again before all blocks
    /// are built, so that a process that is killed again and again does not take ever more space.
    pub(super) has_grown: bool,
}

/// Permission to build a block. Dropping it leaves the block pending.
#[derive(Debug)]
pub(super) struct BlockBuild<'a> {
    blocks: &'a LazyBlocks,
    block: usize,
}

impl LazyBlocks {
    pub(super) fn new(anchors: Vec<Anchor>, after_crash: Option<AfterCrash>) -> LazyBlocks {
        let by_leaf = (0..)
            .zip(&anchors)
            .map(|(block, anchor)| (anchor.leaf.get(), block));
        LazyBlocks {
            pending: AtomicUsize::new(anchors.len()),
            states: anchors.iter().map(|_| AtomicU8::new(PENDING)).collect(),
            by_leaf: by_leaf.collect(),
            interrupted: Mutex::default(),
            after_crash,
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

    /// Returns true if the next leaf in the inner nodes may not be the one that this leaf links to.
    pub(super) fn hides_leaves_after(&self, leaf: u32) -> bool {
        let broken = injected(CheckpointFault::UnlinkBehindAnchor) || injected(CheckpointFault::UnlinkAnchor);
        self.pending(leaf).is_some() && !broken
    }

    /// Returns true if the inner nodes may contain some of the leaves of a block that is not built.
    pub(super) fn was_interrupted(&self) -> bool {
        !self.interrupted().is_empty()
    }

    fn interrupted(&self) -> MutexGuard<'_, HashMap<usize, Vec<(u64, u32)>>> {
        self.interrupted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is known of the nodes in use, if the tree was opened after a crash and some blocks are
    /// not built.
    #[inline]
    pub(super) fn after_crash(&self) -> Option<&AfterCrash> {
        self.after_crash.as_ref().filter(|_| self.any())
    }

    /// Frees the nodes that no link was found to lead to, once all blocks are built.
    pub(super) fn free_unreached(&self, slab: &Slab) {
        if let Some(after_crash) = &self.after_crash {
            slab.retain(&after_crash.reached);
        }
    }

    /// Returns a block that is not built.
    pub(super) fn next_pending(&self) -> Option<usize> {
        (0..self.len()).find(|block| self.any() && !self.is_built(*block))
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
        let reached = self.after_crash.as_ref().map_or(0, |crash| crash.reached.bytes());
        (self.anchors.len() * each) as u64 + reached
    }
}

impl BlockBuild<'_> {
    /// Returns the leaves of the block if an earlier attempt has read them. Other threads may have changed
    /// those that it has inserted into the inner nodes.
    pub(super) fn read_before(&self) -> Option<Vec<(u64, u32)>> {
        self.blocks.interrupted().remove(&self.block)
    }

    /// Keeps the leaves of the block for the next attempt.
    pub(super) fn give_up(self, leaves: Vec<(u64, u32)>) {
        self.blocks.interrupted().insert(self.block, leaves);
    }

    /// Marks the block as built. Returns true if it was the last one.
    pub(super) fn finish(self) -> bool {
        self.blocks.states[self.block].store(BUILT, Ordering::Release);
        let last = self.blocks.pending.fetch_sub(1, Ordering::AcqRel) == 1;
        std::mem::forget(self);
        last
    }
}

impl Drop for BlockBuild<'_> {
    fn drop(&mut self) {
        self.blocks.states[self.block].store(PENDING, Ordering::Release);
    }
}
