//! Building the inner nodes of one block of leaves when it is first used.
//!
//! Blocks are pending only in trees that were closed, so nothing in them is unfinished, and what contradicts
//! the checkpoint or a checksum is damage. If the links of a block do not lead to the next block, its anchor
//! counts as damaged and stands for the whole block.

use crate::TreeError;
use crate::hybrid::checkpoint::fault::{CheckpointFault, injected};
use crate::locks::Backoff;

use super::checkpoint::Anchor;
use super::leaf_ref::LeafRef;
use super::leaves::LeafFormat;
use super::recover::{RecoveredLeaf, summarize_leaves};
use super::tree::{HybridTree, number_of, offset_of};

/// The damage of a block whose leaves are not those of the checkpoint.
const OTHER_LEAVES: &str = "the links of the leaves after it do not lead to those of the checkpoint";

impl<L: LeafFormat> HybridTree<L> {
    /// Builds the block of a leaf that was found in the inner nodes, if it is pending. Returns false if the
    /// caller must search again.
    ///
    /// # Errors
    /// [`TreeError::Media`] if there is no memory for inner nodes. The next operation tries again.
    #[inline(always)]
    pub(super) fn ensure_built(&self, leaf: u32) -> Result<bool, TreeError> {
        match self.lazy.pending(leaf) {
            None => Ok(true),
            Some(block) => self.build_block(block).map(|()| false),
        }
    }

    /// Builds all blocks that are pending.
    ///
    /// # Errors
    /// As [`ensure_built`](HybridTree::ensure_built).
    pub(super) fn build_all(&self) -> Result<(), TreeError> {
        if !self.lazy.any() {
            return Ok(());
        }
        (0..self.lazy.len()).try_for_each(|block| self.build_block(block))
    }

    /// Builds a block, or waits until another thread has built it.
    #[cold]
    fn build_block(&self, block: usize) -> Result<(), TreeError> {
        let mut backoff = Backoff::default();
        while !self.lazy.is_built(block) {
            let Some(build) = self.lazy.begin(block) else {
                backoff.wait();
                continue;
            };
            let (anchor, next) = self.lazy.block(block);
            let found = self.read_block(anchor, next);
            if injected(CheckpointFault::BuiltEarly) {
                build.finish();
                return self.insert_leaves(anchor.low.get(), &found);
            }
            self.insert_leaves(anchor.low.get(), &found)?;
            build.finish();
        }
        Ok(())
    }

    /// Reads the leaves of a block and records which are damaged. Returns the bounds and numbers of those
    /// behind the anchor.
    fn read_block(&self, anchor: &Anchor, next: Option<&Anchor>) -> Vec<(u64, u32)> {
        let low = anchor.low.get();
        let high = next.map(|next| next.low.get());
        let Some(leaves) = self.follow_block(anchor, next) else {
            self.damaged_nodes.add(anchor.leaf.get(), OTHER_LEAVES.to_owned());
            return Vec::new();
        };
        let mut found = summarize_leaves::<L>(self.slab.medium(), self.slab.sums(), &leaves);
        let mut greatest: Option<u64> = None;
        for (at, leaf) in found.iter_mut().enumerate() {
            let summary = &mut leaf.summary;
            let outside = summary.count > 0
                && (summary.least < low
                    || high.is_some_and(|high| summary.greatest >= high)
                    || greatest.is_some_and(|greatest| summary.least <= greatest));
            if summary.damage.is_none() && (outside || summary.count == 0 && at > 0) {
                summary.damage = Some("its keys are not in the range that they had when the tree was closed");
            }
            match summary.damage {
                Some(damage) => self.damaged_nodes.add(leaf.number, damage.to_owned()),
                None if summary.count > 0 => greatest = Some(summary.greatest),
                None => {}
            }
        }
        bounds_after(low, &found)
    }

    /// Returns the leaves of a block, or `None` if they do not end at the next anchor.
    fn follow_block(&self, anchor: &Anchor, next: Option<&Anchor>) -> Option<Vec<u32>> {
        let end = next.map_or(0, |next| offset_of(next.leaf.get()));
        let mut at = offset_of(anchor.leaf.get());
        let mut leaves = Vec::new();
        for _ in 0..anchor.leaves.get() {
            if !self.slab.is_used(at) {
                return None;
            }
            leaves.push(number_of(at, self.name()).ok()?);
            at = L::next(LeafRef {
                medium: self.slab.medium(),
                offset: at,
            });
        }
        (at == end).then_some(leaves)
    }

    /// Inserts leaves behind the anchor with the bound `low` into the inner nodes, the greatest first.
    /// Those that an earlier attempt has inserted are skipped.
    fn insert_leaves(&self, low: u64, leaves: &[(u64, u32)]) -> Result<(), TreeError> {
        let snapshot = self.inner.parent_snapshot(low);
        let high = snapshot.high(snapshot.slot);
        for (bound, leaf) in leaves.iter().rev().filter(|(bound, _)| *bound <= high) {
            let mut backoff = Backoff::default();
            loop {
                self.inner.make_room(low)?;
                let place = self.inner.find(low);
                if let Some(parent) = self.inner.lock(&place) {
                    if !parent.is_full() {
                        parent.insert(place.slot as usize, *bound, *leaf, self.inner.vectors());
                        break;
                    }
                    parent.unchanged();
                }
                backoff.wait();
            }
        }
        Ok(())
    }
}

/// Returns the bounds of the leaves behind an anchor with the bound `low`. A damaged leaf begins after the
/// greatest key before it, as the keys that it may have held are unknown. Keys up to `low` are not among
/// them, even if the anchor is empty.
fn bounds_after(low: u64, found: &[RecoveredLeaf]) -> Vec<(u64, u32)> {
    let mut index: Vec<(u64, u32)> = Vec::with_capacity(found.len());
    let mut greatest = low;
    for (at, leaf) in found.iter().enumerate() {
        let summary = &leaf.summary;
        let bound = match summary.damage {
            Some(_) => greatest.checked_add(1),
            None => Some(summary.least),
        };
        let before = index.last().map_or(low, |(bound, _)| *bound);
        if let Some(bound) = bound.filter(|bound| at > 0 && *bound > before) {
            index.push((bound, leaf.number));
        }
        if summary.damage.is_none() && summary.count > 0 {
            greatest = summary.greatest;
        }
    }
    index
}
