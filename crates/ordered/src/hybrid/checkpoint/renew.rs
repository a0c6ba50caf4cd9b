//! Checkpoints of a tree that is in use, so that it need not read its leaves when it is opened after a crash.
//!
//! Order: (1) the anchors are pinned; (2) the nodes of the checkpoint; (3) the word in the head that leads to
//! them; (4) the nodes of the previous checkpoint are freed, its anchors are no longer pinned, and those that
//! are empty are freed. Each step is durable before the next begins. A crash leaves either checkpoint.

use halocline_pool::PoolError;

use super::fault::{CheckpointFault, injected};
use super::layout::{BLOCK_LEAVES, MIN_LEAVES, MIN_SPLITS, RETRY_SPLITS, SPLIT_SHARE};
use super::write::Anchors;
use crate::TreeError;
use crate::hybrid::leaves::LeafFormat;
use crate::hybrid::pins::NamedCheckpoint;
use crate::hybrid::tree::HybridTree;

impl<L: LeafFormat> HybridTree<L> {
    /// Counts a split and writes a checkpoint if one is due. No lock may be held.
    #[inline]
    pub(in super::super) fn after_split(&self) {
        if self.pins.count_split() {
            self.renew_checkpoint();
        }
    }

    /// Writes a checkpoint, unless another thread does. In a tree of which some blocks are not built, builds
    /// one of them instead: a tree that was opened after a crash knows its free nodes only when all are
    /// built. Errors are not reported, as the previous checkpoint stays valid.
    #[cold]
    pub(in super::super) fn renew_checkpoint(&self) {
        let Some(_renewal) = self.pins.begin_renewal() else {
            return;
        };
        if !self.build_next() {
            let due = self.try_renew();
            self.pins.set_due(due);
        }
    }

    /// Returns the number of splits until the next attempt.
    fn try_renew(&self) -> u64 {
        if !self.slab.can_close() {
            return u64::MAX;
        }
        if self.damaged_nodes.any() || self.write_gate.has_failed() {
            return RETRY_SPLITS;
        }
        let found = self.pin_anchors();
        let leaves = found.leaves;
        if leaves < MIN_LEAVES {
            self.pins.unpin(&found.anchors);
            return MIN_LEAVES - leaves;
        }
        let mut nodes = Vec::new();
        if self.store_checkpoint(&found, &[], &mut nodes).is_none() {
            nodes.drain(..).for_each(|node| self.slab.free(node));
            self.pins.unpin(&found.anchors);
            return RETRY_SPLITS;
        }
        let anchors = found.anchors;
        match self.name_checkpoint(NamedCheckpoint { anchors, nodes }) {
            Ok(()) => MIN_SPLITS.max(leaves / SPLIT_SHARE),
            // Either of the two may be named, so both stay as they are.
            Err(_) => RETRY_SPLITS,
        }
    }

    /// Makes the head name a checkpoint whose nodes are flushed, and frees what only the previous one
    /// needed.
    fn name_checkpoint(&self, next: NamedCheckpoint) -> Result<(), TreeError> {
        if !injected(CheckpointFault::NamedUnfenced) {
            self.write_gate.keep(self.slab.medium().fence())?;
        }
        let word = next.nodes.first().copied().unwrap_or(0);
        if injected(CheckpointFault::UnpinnedEarly) {
            let previous = self.pins.replace(next);
            self.release(&previous)?;
            return Ok(self.slab.replace_open_word(word)?);
        }
        match self.slab.replace_open_word(word) {
            Err(PoolError::Media(error)) => self.write_gate.keep(Err(error))?,
            other => other?,
        }
        let previous = self.pins.replace(next);
        self.release(&previous)
    }

    /// Makes the head name no checkpoint. The tree must be marked as being written.
    pub(in super::super) fn forget_checkpoint(&self) -> Result<(), TreeError> {
        if self.pins.nodes().is_empty() {
            Ok(())
        } else {
            self.name_checkpoint(NamedCheckpoint::default())
        }
    }

    /// Frees the nodes of a checkpoint that is no longer named, and its anchors that are empty.
    fn release(&self, previous: &NamedCheckpoint) -> Result<(), TreeError> {
        previous.nodes.iter().for_each(|node| self.slab.free(*node));
        for anchor in &previous.anchors {
            let place = self.inner.find(anchor.low.get());
            if place.leaf == anchor.leaf.get() && L::count(&L::head(self.at(place.leaf))) == 0 {
                self.free_leaf(anchor.low.get())?;
            }
        }
        Ok(())
    }

    /// Selects anchors among leaves that other threads may free, and pins them.
    fn pin_anchors(&self) -> Anchors {
        let mut found = Anchors::default();
        let mut from = 0;
        loop {
            let snapshot = self.inner.parent_snapshot(from);
            let (pinned, before) = (found.anchors.len(), found.leaves);
            for (slot, leaf) in snapshot.leaves().iter().enumerate() {
                // Inner nodes that were merged meanwhile also have leaves that have been seen.
                if snapshot.low(slot) < from {
                    continue;
                }
                let full = found
                    .anchors
                    .last()
                    .is_none_or(|last| u64::from(last.leaves.get()) >= BLOCK_LEAVES);
                // An empty anchor would have to stay.
                let is_anchor = full && (from == 0 && slot == 0 || L::count(&L::head(self.at(*leaf))) > 0);
                found.add(snapshot.low(slot), *leaf, 1, is_anchor);
            }
            self.pins.pin(&found.anchors[pinned..]);
            if !self.inner.is_current_snapshot(&snapshot) && !injected(CheckpointFault::PinUnchecked) {
                self.pins.unpin(&found.anchors[pinned..]);
                found.undo(pinned, found.leaves - before);
                continue;
            }
            match snapshot.keys().1.checked_add(1) {
                Some(next) => from = next,
                None => return found,
            }
        }
    }
}
