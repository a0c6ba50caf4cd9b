//! Reading a checkpoint. Anything that is not as expected makes it invalid, and the leaves are read instead.

use std::collections::HashSet;

use halocline_pool::Slab;
use xxhash_rust::xxh3::xxh3_64;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::fault::{CheckpointFault, injected};
use super::layout::{Anchor, CheckpointHead, CheckpointNode, MAGIC, VERSION};
use crate::hybrid::tree::UNIT;

/// A checkpoint that was read.
#[derive(Debug)]
pub(in super::super) struct Checkpoint {
    pub(in super::super) entries: u64,
    /// The blocks in key order, at least one.
    pub(in super::super) anchors: Vec<Anchor>,
    /// The nodes in use, without those of the checkpoint.
    pub(in super::super) usage: Vec<u64>,
    /// Number of chunks that the slab had.
    pub(in super::super) chunks: u64,
    /// The nodes of the checkpoint.
    pub(in super::super) nodes: Vec<u64>,
}

/// Reads the checkpoint of a slab whose owner's root leads to the leaf at `first`. Returns `None` if there is
/// no valid one. `O(bytes of the checkpoint)`.
pub(in super::super) fn read(slab: &Slab, first: u64) -> Option<Checkpoint> {
    if slab.owner_word() == 0 {
        return None;
    }
    let (bytes, nodes) = join(slab)?;
    let (head, rest) = CheckpointHead::read_from_prefix(&bytes).ok()?;
    let intact = head.sum.get() == sum_of(&bytes) || injected(CheckpointFault::IgnoreSums);
    if head.version.get() != VERSION || !intact {
        return None;
    }
    let anchors_len = (head.anchors.get() as usize).checked_mul(size_of::<Anchor>())?;
    let (anchors, usage) = rest.split_at_checked(anchors_len)?;
    let anchors = <[Anchor]>::ref_from_bytes(anchors).ok()?.to_vec();
    let (usage, rest) = usage.as_chunks::<8>();
    if !rest.is_empty() || usage.len() as u64 != head.usage.get() {
        return None;
    }
    let is_anchor =
        |anchor: &Anchor| anchor.leaves.get() > 0 && slab.is_node(u64::from(anchor.leaf.get()) * UNIT);
    let leaves: u64 = anchors.iter().map(|anchor| u64::from(anchor.leaves.get())).sum();
    let ascending = anchors
        .windows(2)
        .all(|pair| pair[0].low.get() < pair[1].low.get());
    let start = anchors.first()?;
    let starts_well = start.low.get() == 0 && u64::from(start.leaf.get()) * UNIT == first;
    let numbers: HashSet<u32> = anchors.iter().map(|anchor| anchor.leaf.get()).collect();
    let distinct = numbers.len() == anchors.len();
    if leaves != head.leaves.get()
        || !ascending
        || !distinct
        || !starts_well
        || !anchors.iter().all(is_anchor)
    {
        return None;
    }
    Some(Checkpoint {
        entries: head.entries.get(),
        chunks: head.chunks.get(),
        nodes,
        anchors,
        usage: usage.iter().map(|word| u64::from_le_bytes(*word)).collect(),
    })
}

/// Joins the payloads of all nodes. Returns the nodes too.
fn join(slab: &Slab) -> Option<(Vec<u8>, Vec<u64>)> {
    let most = slab.stats().capacity;
    let (mut bytes, mut nodes) = (Vec::new(), Vec::new());
    let mut node = vec![0; slab.node_size() as usize];
    let mut at = slab.owner_word();
    while at != 0 {
        // A slab that was not closed has no node checksums. Positions ascend, so a list that returns to
        // itself is noticed.
        let is_node = slab.is_node(at) && nodes.len() as u64 != most;
        let intact = || slab.sums().is_none_or(|sums| sums.matches(at));
        if !is_node || !(intact() || injected(CheckpointFault::IgnoreSums)) {
            return None;
        }
        slab.medium().load(at, &mut node);
        let mut head = CheckpointNode::new_zeroed();
        let (front, payload) = node.split_at_checked(size_of::<CheckpointNode>())?;
        head.as_mut_bytes().copy_from_slice(front);
        if head.magic.get() != MAGIC || head.position.get() != nodes.len() as u64 {
            return None;
        }
        bytes.extend_from_slice(payload.get(..head.len.get() as usize)?);
        nodes.push(at);
        at = head.next.get();
    }
    Some((bytes, nodes))
}

/// Returns the checksum of joined payloads, which begin with a head.
pub(super) fn sum_of(payloads: &[u8]) -> u64 {
    let mut bytes = payloads.to_vec();
    if let Some(sum) = bytes.get_mut(CheckpointHead::SUM..size_of::<CheckpointHead>()) {
        sum.fill(0);
    }
    xxh3_64(&bytes)
}
