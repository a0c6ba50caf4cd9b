//! Writing a checkpoint when a tree is closed.
//!
//! The slab counts as open until all nodes of the checkpoint are durable, so a crash in between leaves no
//! checkpoint.

use zerocopy::IntoBytes;

use super::fault::{CheckpointFault, injected};
use super::layout::{Anchor, BLOCK_LEAVES, CheckpointHead, CheckpointNode, LEAST_LEAVES, MAGIC, VERSION};
use crate::hybrid::leaves::LeafFormat;
use crate::hybrid::tree::HybridTree;

/// A tree of which more than one in this many blocks is there only because of an empty leaf gets no
/// checkpoint, so that the next opening removes the empty leaves.
const EMPTY_SHARE: u64 = 16;

/// The anchors of a tree and its number of leaves.
#[derive(Debug, Default)]
struct Anchors {
    anchors: Vec<Anchor>,
    leaves: u64,
    /// Number of empty leaves, without the first one.
    empty: u64,
}

impl<L: LeafFormat> HybridTree<L> {
    /// Writes a checkpoint if the tree is large enough, intact and has changed, and flushes it. Sealing
    /// the slab makes it durable and valid. Waits for no other writer of the pool: if the slab has too few
    /// free nodes, there is no checkpoint. There must be no concurrent operations. Returns the nodes of the
    /// checkpoint.
    pub(in super::super) fn write_checkpoint(&mut self) -> Vec<u64> {
        let mut nodes = Vec::new();
        if self.slab.is_changed() && self.slab.can_close() && self.store_checkpoint(&mut nodes).is_none() {
            nodes.drain(..).for_each(|node| self.slab.free(node));
        }
        self.slab.set_owner_word(nodes.first().copied().unwrap_or(0));
        nodes
    }

    /// Allocates, stores and flushes the nodes of a checkpoint. Returns `None` if there is none; some nodes
    /// may have been allocated.
    fn store_checkpoint(&self, nodes: &mut Vec<u64>) -> Option<()> {
        if self.damaged_nodes.any() || self.lazy.was_interrupted() {
            // The next opening has to see all links again.
            return None;
        }
        let Anchors {
            anchors,
            leaves,
            empty,
        } = self.anchors();
        if leaves < LEAST_LEAVES || empty > leaves / BLOCK_LEAVES / EMPTY_SHARE + 1 {
            return None;
        }
        let room = self.slab.node_size() as usize - size_of::<CheckpointNode>();
        let fixed = size_of::<CheckpointHead>() + anchors.as_bytes().len();
        // Before the checkpoint's own nodes are allocated, which are free again after opening.
        let usage = self.slab.usage();
        let needed = (fixed + usage.len() * 8).div_ceil(room);
        while nodes.len() < needed {
            nodes.push(self.slab.alloc_ready()?);
        }
        let head = CheckpointHead {
            version: VERSION.into(),
            anchors: u32::try_from(anchors.len()).ok()?.into(),
            entries: self.count.get().into(),
            leaves: leaves.into(),
            usage: (usage.len() as u64).into(),
        };
        let mut bytes = Vec::with_capacity(fixed + usage.len() * 8);
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(anchors.as_bytes());
        usage
            .iter()
            .for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
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
                found.leaves += u64::from(leaves);
                found.empty += u64::from(empty && !found.anchors.is_empty());
                match found.anchors.last_mut() {
                    // An empty leaf has no key from which its bound could be found again.
                    Some(last)
                        if extends
                            && !empty
                            && pending.is_none()
                            && u64::from(last.leaves.get()) < BLOCK_LEAVES =>
                    {
                        last.leaves += 1;
                    }
                    _ => found.anchors.push(Anchor {
                        low: snapshot.low(slot).into(),
                        leaf: (*leaf).into(),
                        leaves: leaves.into(),
                    }),
                }
                extends = pending.is_none();
            }
            match snapshot.keys().1.checked_add(1) {
                Some(next) => from = next,
                None => return found,
            }
        }
    }
}
