//! Writing a checkpoint when a tree is closed.
//!
//! The slab counts as open until all nodes of the checkpoint are durable, so a crash in between leaves no
//! checkpoint.

use zerocopy::IntoBytes;

use super::fault::{CheckpointFault, injected};
use super::layout::{Anchor, BLOCK_LEAVES, CheckpointHead, CheckpointNode, MAGIC, MIN_LEAVES, VERSION};
use super::read::sum_of;
use crate::hybrid::leaves::LeafFormat;
use crate::hybrid::tree::HybridTree;

/// A tree of which more than one in this many blocks is there only because of an empty leaf gets no
/// checkpoint, so that the next opening removes the empty leaves.
const EMPTY_SHARE: u64 = 16;

/// The anchors of a tree and its number of leaves.
#[derive(Debug, Default)]
pub(super) struct Anchors {
    pub(super) anchors: Vec<Anchor>,
    pub(super) leaves: u64,
    /// Number of empty leaves, without the first one.
    empty: u64,
}

impl Anchors {
    /// Adds a leaf, or several that follow it in a block that is not built.
    pub(super) fn add(&mut self, low: u64, leaf: u32, leaves: u32, is_anchor: bool) {
        self.leaves += u64::from(leaves);
        match self.anchors.last_mut() {
            Some(last) if !is_anchor => last.leaves += leaves,
            _ => self.anchors.push(Anchor {
                low: low.into(),
                leaf: leaf.into(),
                leaves: leaves.into(),
            }),
        }
    }

    /// Removes the last leaves and the anchors from number `anchors` on.
    pub(super) fn undo(&mut self, anchors: usize, leaves: u64) {
        let removed: u64 = self
            .anchors
            .drain(anchors..)
            .map(|each| u64::from(each.leaves.get()))
            .sum();
        self.leaves -= leaves;
        if let Some(last) = self.anchors.last_mut() {
            last.leaves -= (leaves - removed) as u32;
        }
    }
}

impl<L: LeafFormat> HybridTree<L> {
    /// Writes a checkpoint for closing if the tree is large enough, intact and has changed, and flushes it.
    /// Sealing the slab makes it durable and valid. If the slab has too few
    /// free nodes, it grows; if it cannot, there is no checkpoint. There must be no concurrent operations.
    /// Returns the nodes of the checkpoint.
    pub(in super::super) fn write_checkpoint(&mut self) -> Vec<u64> {
        let mut nodes = Vec::new();
        if !self.slab.is_changed() {
            return nodes;
        }
        if self.slab.can_close() && self.close_with_checkpoint(&mut nodes).is_none() {
            nodes.drain(..).for_each(|node| self.slab.free(node));
        }
        // Only now: until the slab is closed the previous checkpoint must not be overwritten.
        self.pins.nodes().iter().for_each(|node| self.slab.free(*node));
        self.slab.set_owner_word(nodes.first().copied().unwrap_or(0));
        nodes
    }

    /// Stores the checkpoint of a tree that is about to be closed. Returns `None` if there is none; some
    /// nodes may have been allocated.
    fn close_with_checkpoint(&self, nodes: &mut Vec<u64>) -> Option<()> {
        if self.damaged_nodes.any() || self.lazy.was_interrupted() {
            // The next opening has to see all links again.
            return None;
        }
        let most = |found: &Anchors| found.leaves / BLOCK_LEAVES / EMPTY_SHARE + 1;
        let mut found = self.anchors();
        if found.empty > most(&found) {
            // Most of them are anchors of the previous checkpoint.
            self.write_gate.check(&self.slab).ok()?;
            self.forget_checkpoint().ok()?;
            found = self.anchors();
        }
        if found.leaves < MIN_LEAVES || found.empty > most(&found) {
            return None;
        }
        // Without the nodes of the checkpoints: those of the previous one are free after closing, and
        // opening marks those of this one.
        let mut needed = 0;
        while nodes.len() < needed || needed == 0 {
            // Growth adds to what is to be stored.
            let usage = self.slab.usage(&[]).len();
            needed = self.nodes_needed(found.anchors.len(), usage);
            while nodes.len() < needed {
                nodes.push(self.slab.alloc().ok()?);
            }
            needed = self.nodes_needed(found.anchors.len(), self.slab.usage(&[]).len());
        }
        let usage = self.slab.usage(&[self.pins.nodes(), nodes.clone()].concat());
        self.store_checkpoint(&found, &usage, nodes)
    }

    /// Returns the number of nodes of a checkpoint.
    fn nodes_needed(&self, anchors: usize, usage: usize) -> usize {
        let room = self.slab.node_size() as usize - size_of::<CheckpointNode>();
        let bytes = size_of::<CheckpointHead>() + anchors * size_of::<Anchor>() + usage * 8;
        bytes.div_ceil(room)
    }

    /// Allocates, stores and flushes the nodes of a checkpoint. Returns `None` if there are too few free
    /// nodes; some may have been allocated.
    pub(super) fn store_checkpoint(
        &self,
        found: &Anchors,
        usage: &[u64],
        nodes: &mut Vec<u64>,
    ) -> Option<()> {
        let head = CheckpointHead {
            version: VERSION.into(),
            anchors: u32::try_from(found.anchors.len()).ok()?.into(),
            entries: self.count.get().into(),
            leaves: found.leaves.into(),
            usage: (usage.len() as u64).into(),
            chunks: self.slab.stats().chunks.into(),
            sum: 0.into(),
        };
        let mut bytes = head.as_bytes().to_vec();
        bytes.extend_from_slice(found.anchors.as_bytes());
        usage
            .iter()
            .for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        let sum = sum_of(&bytes).to_le_bytes();
        bytes[CheckpointHead::SUM..size_of::<CheckpointHead>()].copy_from_slice(&sum);
        let room = self.slab.node_size() as usize - size_of::<CheckpointNode>();
        while nodes.len() < bytes.len().div_ceil(room) {
            nodes.push(self.slab.alloc_ready()?);
        }
        let medium = self.slab.medium();
        for (position, payload) in bytes.chunks(room).enumerate() {
            let offset = nodes[position];
            let node = CheckpointNode {
                magic: MAGIC.into(),
                next: nodes.get(position + 1).copied().unwrap_or(0).into(),
                position: (position as u64).into(),
                len: (payload.len() as u32).into(),
                reserved: 0.into(),
            };
            let mut stored = node.as_bytes().to_vec();
            stored.extend_from_slice(payload);
            // The node's checksum covers all of it.
            stored.resize(self.slab.node_size() as usize, 0);
            medium.store(offset, &stored);
            if !injected(CheckpointFault::Unflushed) {
                medium.flush(offset, stored.len() as u64);
            }
        }
        Some(())
    }

    /// Divides the leaves into blocks. A block that has not been built since opening remains as it is.
    fn anchors(&self) -> Anchors {
        let mut found = Anchors::default();
        let mut from = 0;
        // False if the next leaf has to be an anchor.
        let mut extends = false;
        loop {
            let snapshot = self.inner.parent_snapshot(from);
            for (slot, leaf) in snapshot.leaves().iter().enumerate() {
                let pending = self.lazy.pending_block(*leaf);
                let empty = pending.is_none() && L::count(&L::head(self.at(*leaf))) == 0;
                let leaves = pending.map_or(1, |anchor| anchor.leaves.get());
                found.empty += u64::from(empty && !found.anchors.is_empty());
                let full = found
                    .anchors
                    .last()
                    .is_none_or(|last| u64::from(last.leaves.get()) >= BLOCK_LEAVES);
                // An empty leaf has no key from which its bound could be found again.
                let is_anchor = !extends || empty || pending.is_some() || full;
                found.add(snapshot.low(slot), *leaf, leaves, is_anchor);
                extends = pending.is_none();
            }
            match snapshot.keys().1.checked_add(1) {
                Some(next) => from = next,
                None => return found,
            }
        }
    }
}
