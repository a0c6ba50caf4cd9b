//! Reading a checkpoint. Anything that is not as expected makes it invalid, and the leaves are read instead.

use std::collections::HashSet;

use halocline_pool::Slab;
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
}

/// Reads the checkpoint of a closed slab whose owner's root leads to the leaf at `first`. Returns `None` if
/// there is no valid one. `O(bytes of the checkpoint)`.
pub(in super::super) fn read(slab: &Slab, first: u64) -> Option<Checkpoint> {
    if slab.sums().is_none() || slab.owner_word() == 0 {
        return None;
    }
    let bytes = join(slab)?;
    let (head, rest) = CheckpointHead::read_from_prefix(&bytes).ok()?;
    if head.version.get() != VERSION {
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
        anchors,
        usage: usage.iter().map(|word| u64::from_le_bytes(*word)).collect(),
    })
}

/// Joins the payloads of all nodes.
fn join(slab: &Slab) -> Option<Vec<u8>> {
    let sums = slab.sums()?;
    let most = slab.stats().capacity;
    let (mut bytes, mut nodes) = (Vec::new(), 0);
    let mut node = vec![0; slab.node_size() as usize];
    let mut at = slab.owner_word();
    while at != 0 {
        // Positions ascend, so a list that returns to itself is noticed.
        let trusted = slab.is_node(at) && (sums.matches(at) || injected(CheckpointFault::IgnoreSums));
        if !trusted || nodes >= most {
            return None;
        }
        slab.medium().load(at, &mut node);
        let mut head = CheckpointNode::new_zeroed();
        let (front, payload) = node.split_at_checked(size_of::<CheckpointNode>())?;
        head.as_mut_bytes().copy_from_slice(front);
        if head.magic.get() != MAGIC || head.position.get() != nodes {
            return None;
        }
        bytes.extend_from_slice(payload.get(..head.len.get() as usize)?);
        nodes += 1;
        at = head.next.get();
    }
    Some(bytes)
}
