//! Building the inner nodes of one block of leaves when it is first used.
//!
//! In a tree that was closed nothing is unfinished, and what contradicts the checkpoint or a checksum is
//! damage. After a crash, a block is settled before its leaves are inserted, like a whole tree that is opened
//! without a checkpoint: all leaves that an unfinished change involves are in one block. If the links of a
//! block do not lead to the next block, its anchor counts as damaged and stands for the whole block.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use halocline_pool::NodeSet;

use crate::TreeError;
use crate::hybrid::checkpoint::fault::{CheckpointFault, injected};
use crate::locks::Backoff;

use super::checkpoint::Anchor;
use super::leaf_ref::LeafRef;
use super::leaves::LeafFormat;
use super::recover::{RecoveredLeaf, settle, summarize_leaves};
use super::tree::{HybridTree, number_of, offset_of};

/// Number of blocks that are worth other threads.
const PARALLEL: usize = 64;

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
        let blocks = self.lazy.len();
        if blocks < PARALLEL {
            return (0..blocks).try_for_each(|block| self.build_block(block));
        }
        let next = AtomicUsize::new(0);
        let build = || {
            let mut numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
            numbers
                .by_ref()
                .take_while(|block| *block < blocks)
                .try_for_each(|block| self.build_block(block))
        };
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(8);
        thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(build)).collect();
            let result = build();
            let joined = others.into_iter().map(|other| other.join());
            // A thread that has panicked leaves its block pending.
            joined.filter_map(Result::ok).fold(result, Result::and)
        })?;
        // Another thread of the program may still be building one.
        (0..blocks).try_for_each(|block| self.build_block(block))
    }

    /// Builds one of the blocks that are pending. Returns false if there is none. Errors are left to the
    /// operations that need the block.
    pub(super) fn build_next(&self) -> bool {
        let block = self.lazy.next_pending();
        block.is_some_and(|block| {
            let _ = self.build_block(block);
            true
        })
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
            let found = match build.read_before() {
                Some(found) => found,
                None => self.read_block(anchor, next)?,
            };
            if injected(CheckpointFault::BuiltEarly) {
                build.finish();
                return self.insert_leaves(anchor.low.get(), &found);
            }
            if let Err(error) = self.insert_leaves(anchor.low.get(), &found) {
                build.give_up(found);
                return Err(error);
            }
            let is_last = build.finish();
            if is_last && !self.damaged_nodes.any() {
                // The links of a damaged leaf are unknown, so then no node may be freed.
                self.lazy.free_unreached(&self.slab);
            }
        }
        Ok(())
    }

    /// Reads the leaves of a block, completes changes that a crash has interrupted, and records which leaves
    /// are damaged. Returns the bounds and numbers of those after the anchor.
    ///
    /// # Errors
    /// [`TreeError::NeedsRecovery`] in a tree that is opened read-only, [`TreeError::Media`]: the block has
    /// not been read.
    fn read_block(&self, anchor: &Anchor, next: Option<&Anchor>) -> Result<Vec<(u64, u32)>, TreeError> {
        let after_crash = self.lazy.after_crash();
        let reached = after_crash.map(|crash| &crash.reached);
        let Some(leaves) = self.follow_block(anchor, next, reached) else {
            self.damaged_nodes.add(anchor.leaf.get(), OTHER_LEAVES.to_owned());
            return Ok(Vec::new());
        };
        let mut found = summarize_leaves::<L>(self.slab.medium(), self.slab.sums(), &leaves);
        if let Some(reached) = reached
            && !injected(CheckpointFault::IgnoreUnfinished)
            && let Err(error) = settle::<L>(&self.slab, &mut found, &self.damaged_nodes)
        {
            leaves.iter().for_each(|leaf| reached.remove(offset_of(*leaf)));
            return Err(error);
        }
        let (low, high) = (anchor.low.get(), next.map(|next| next.low.get()));
        let (mut greatest, mut entries): (Option<u64>, u64) = (None, 0);
        for (at, leaf) in found.iter_mut().enumerate() {
            let summary = &mut leaf.summary;
            let outside = summary.count > 0
                && (summary.least < low
                    || high.is_some_and(|high| summary.greatest >= high)
                    || greatest.is_some_and(|greatest| summary.least <= greatest));
            // After a crash, empty leaves after damaged ones, and all in a tree that is opened read-only,
            // stay.
            let stays = at == 0 || after_crash.is_some();
            if summary.damage.is_none() && (outside || summary.count == 0 && !stays) {
                summary.damage = Some("its keys are not in the range of its block");
            }
            match summary.damage {
                Some(damage) => self.damaged_nodes.add(leaf.number, damage.to_owned()),
                None if summary.count > 0 => {
                    entries += summary.count;
                    greatest = Some(summary.greatest);
                }
                None => {}
            }
        }
        if after_crash.is_some() {
            self.count.add_found(entries);
        }
        Ok(bounds_after(low, &found))
    }

    /// Returns the leaves of a block, or `None` if they do not end at the next anchor. After a crash their
    /// number is unknown, and each is noted as reached, which it must not have been before.
    fn follow_block(
        &self,
        anchor: &Anchor,
        next: Option<&Anchor>,
        reached: Option<&NodeSet>,
    ) -> Option<Vec<u32>> {
        let end = next.map_or(0, |next| offset_of(next.leaf.get()));
        let mut at = offset_of(anchor.leaf.get());
        let mut leaves = Vec::new();
        let is_inside = |at: u64, leaves: &[u32]| match reached {
            Some(reached) => at != end && reached.insert(at),
            None => leaves.len() < anchor.leaves.get() as usize && self.slab.is_used(at),
        };
        while is_inside(at, &leaves) {
            let Ok(number) = number_of(at, self.name()) else {
                break;
            };
            leaves.push(number);
            at = L::next(LeafRef {
                medium: self.slab.medium(),
                offset: at,
            });
        }
        let complete = at == end && (reached.is_some() || leaves.len() == anchor.leaves.get() as usize);
        if let Some(reached) = reached.filter(|_| !complete) {
            leaves.iter().for_each(|leaf| reached.remove(offset_of(*leaf)));
        }
        complete.then_some(leaves)
    }

    /// Inserts leaves after the anchor with the bound `low` into the inner nodes, the greatest first.
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

/// Returns the bounds of the leaves after an anchor with the bound `low`. A damaged leaf begins after the
/// greatest key before it, as the keys that it may have held are unknown. Keys up to `low` are not among
/// them, even if the anchor is empty.
fn bounds_after(low: u64, found: &[RecoveredLeaf]) -> Vec<(u64, u32)> {
    let mut index: Vec<(u64, u32)> = Vec::with_capacity(found.len());
    let mut greatest = low;
    for (at, leaf) in found.iter().enumerate() {
        let summary = &leaf.summary;
        let bound = match (summary.damage, summary.count) {
            (Some(_), _) => greatest.checked_add(1),
            (None, 0) => None,
            (None, _) => Some(summary.least),
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
