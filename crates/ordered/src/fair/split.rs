//! FAIR: nodes are split and joined without a log.
//!
//! *Split*: (1) the new node, whole, and in the parent the number of the old one; (2) the old one's link to the new one, and then where its keys
//! end, in one line; (3) an entry of the parent. A crash before (2) leaves a node that nobody knows. After the link the old node may have
//! entries that the new one has too; that those end to count is (2)'s second store, which opening makes up for, as it does for (3).
//!
//! *Join*: (1) the right node's entries, in free slots of the left one, where they do not count as their keys are greater than its
//! greatest, and in the parent the number of the left one; (2) the parent forgets the right one; (3) the left one's keys end where the right one's did, and then its link
//! leads past it, in one line. A crash before the last store leaves the right one linked and whole: opening takes the change back.

use halocline_media::LINE;

use crate::persistent::{NODE, NodeFormat, NodeHead, NodeRef, NodeSplit, NodeWriter, SortedEntries};

use super::layout::{FIRST, HINT, SLOTS, count, entry_offset, key_at, last_up_to, store_key, store_value};
use super::mistake::{Mistake, made};
use super::nodes::FairFormat;
use super::shift;

pub(super) fn split(out: &mut NodeWriter<'_>, split: &NodeSplit<'_, '_>) {
    let NodeSplit {
        parent, node, new, ..
    } = *split;
    FairFormat::write_new(out, new, &split.head(), &split.moved());
    if !made(Mistake::NoHint) {
        store_hint(out, parent, node);
    }
    if made(Mistake::ParentFirst) {
        shift::insert(out, parent, split.bound, new);
    }
    if !made(Mistake::LinkBeforeNew) {
        out.fence();
    }
    if made(Mistake::EndBeforeLink) {
        out.store(node.offset + NodeHead::HIGH, split.bound - 1);
    }
    out.store(node.offset + NodeHead::SIBLING, new);
    out.store(node.offset + NodeHead::HIGH, split.bound - 1);
    out.flush(node.offset);
    out.fence();
    if let Some((key, value)) = split.stays() {
        shift::insert(out, node, key, value);
    }
    if !made(Mistake::ParentFirst) {
        shift::insert(out, parent, split.bound, new);
    }
}

pub(super) fn join(out: &mut NodeWriter<'_>, parent: NodeRef<'_>, left: NodeRef<'_>, right: NodeRef<'_>) {
    let entries = SortedEntries::of::<FairFormat>(right);
    append(out, left, &entries);
    store_hint(out, parent, left);
    if !made(Mistake::JoinUnfenced) {
        out.fence();
    }
    shift::remove(out, parent, last_up_to(parent, right.low()));
    out.store(left.offset + NodeHead::HIGH, right.high());
    out.store(left.offset + NodeHead::SIBLING, right.sibling());
    if !made(Mistake::FreeBeforeUnlink) {
        out.flush(left.offset);
        out.fence();
    }
}

/// Stores and flushes entries behind those that a node has, and no others behind them.
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
        if key_at(node, slot) != 0 && !made(Mistake::StaleEntries) {
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

/// Says in a parent which child is about to be changed together with its sibling; flushed, and durable with the next fence.
fn store_hint(out: &mut NodeWriter<'_>, parent: NodeRef<'_>, child: NodeRef<'_>) {
    let number = child.offset / 256;
    let meta = parent.meta() & ((1 << HINT) - 1) | number << HINT;
    if meta != parent.meta() {
        out.store(parent.offset + NodeHead::META, meta);
        out.flush(parent.offset);
    }
}
