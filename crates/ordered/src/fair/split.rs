//! FAIR: splitting and merging nodes without a log.
//!
//! *Split*: (1) write the new node and store the number of the old node in the parent; (2) link the new node
//! from the old one, then lower the old node's greatest key, in one line; (3) insert an entry into the
//! parent. A crash before (2) leaves a node that is not referenced. After the link is stored, the old node
//! may hold entries that the new node also holds; the second store of (2) invalidates them. The
//! first visit of the parent repeats that store and (3) if they are missing.
//!
//! *Merge*: (1) copy the right node's entries into free slots of the left one, where they are invalid because
//! their keys exceed its greatest key, and store the number of the left node in the parent; (2) remove the
//! right node from the parent; (3) raise the left node's greatest key, then change its link to skip the right
//! one, in one line. A crash before the last store leaves the right node linked and complete, and the
//! first visit of the parent undoes the merge.

use halocline_media::LINE;

use crate::persistent::{NODE, NodeFormat, NodeHead, NodeRef, NodeSplit, NodeWriter, SortedEntries};

use super::fault::{FastFairFault, injected};
use super::layout::{FIRST, HINT, SLOTS, count, entry_offset, key_at, last_up_to, store_key, store_value};
use super::nodes::FairFormat;
use super::shift;

pub(super) fn split(out: &mut NodeWriter<'_>, split: &NodeSplit<'_, '_>) {
    let NodeSplit {
        parent, node, new, ..
    } = *split;
    FairFormat::write_new(out, new, &split.head(), &split.moved());
    if !injected(FastFairFault::NoHint) {
        store_hint(out, parent, node);
    }
    if injected(FastFairFault::ParentFirst) {
        shift::insert(out, parent, split.bound, new);
    }
    if !injected(FastFairFault::LinkBeforeNew) {
        out.fence();
    }
    if injected(FastFairFault::EndBeforeLink) {
        out.store(node.offset + NodeHead::HIGH, split.bound - 1);
    }
    // The link first: the moved entries must be reachable before the old node disclaims their keys.
    out.store(node.offset + NodeHead::SIBLING, new);
    out.store(node.offset + NodeHead::HIGH, split.bound - 1);
    out.flush(node.offset);
    out.fence();
    if let Some((key, value)) = split.stays() {
        shift::insert(out, node, key, value);
    }
    if !injected(FastFairFault::ParentFirst) {
        shift::insert(out, parent, split.bound, new);
    }
}

pub(super) fn join(out: &mut NodeWriter<'_>, parent: NodeRef<'_>, left: NodeRef<'_>, right: NodeRef<'_>) {
    let entries = SortedEntries::from_node::<FairFormat>(right);
    append(out, left, &entries);
    store_hint(out, parent, left);
    if !injected(FastFairFault::JoinUnfenced) {
        out.fence();
    }
    // The hint is durable, so it is found unfinished until the left node's head is complete.
    shift::remove(out, parent, last_up_to(parent, right.low()));
    out.store(left.offset + NodeHead::HIGH, right.high());
    out.store(left.offset + NodeHead::SIBLING, right.sibling());
    if !injected(FastFairFault::FreeBeforeUnlink) {
        out.flush(left.offset);
        out.fence();
    }
}

/// Stores and flushes entries after those of the node, and clears the remaining slots.
fn append(out: &mut NodeWriter<'_>, node: NodeRef<'_>, entries: &[(u64, u64)]) {
    let count = count(node);
    let mut changed = [false; (NODE / LINE) as usize];
    let mut touch = |slot: usize| changed[(entry_offset(slot) / LINE) as usize] = true;
    for (slot, (key, value)) in (count..).zip(entries) {
        store_value(out, node, slot, *value);
        store_key(out, node, slot, *key);
        touch(slot);
    }
    for slot in (count + entries.len()).max(1)..SLOTS {
        if key_at(node, slot) != 0 && !injected(FastFairFault::StaleEntries) {
            store_key(out, node, slot, 0);
            touch(slot);
        }
    }
    let meta = match count + entries.len() {
        0 => node.meta() & !FIRST,
        _ => node.meta() | FIRST,
    };
    if meta != node.meta() {
        out.store(node.offset + NodeHead::META, meta);
        touch(0);
    }
    for (line, _) in (0..).zip(changed).filter(|(_, changed)| *changed) {
        out.flush(node.offset + line * LINE);
    }
}

/// Stores in the parent which child is about to be changed together with its sibling. The line is
/// flushed and becomes durable with the next fence.
fn store_hint(out: &mut NodeWriter<'_>, parent: NodeRef<'_>, child: NodeRef<'_>) {
    let number = child.offset / 256;
    let meta = parent.meta() & ((1 << HINT) - 1) | number << HINT;
    if meta != parent.meta() {
        out.store(parent.offset + NodeHead::META, meta);
        out.flush(parent.offset);
    }
}
