//! The node format of the wB+-Tree, and changes within one node.

use halocline_pool::{Slab, SlabRecovery};

use crate::TreeError;
use crate::persistent::{
    NodeFormat, NodeHead, NodeHeadValues, NodeRef, NodeSplit, NodeSummary, NodeWriter, SortedEntries,
};

use super::fault::{WbFault, injected};
use super::layout::{
    ENTRIES, VALID, bitmap, entry_offset, free_entry, key_at, value_at, with_bitmap, write_entry,
};
use super::multi_node;
use super::redo_log::{self, RedoLogs};
use super::slot_array::SlotArray;

/// Nodes with unsorted entries, a bitmap and a slot array.
#[derive(Debug)]
pub(crate) enum WbFormat {}

/// Returns the rank of the last entry whose key is not greater than `key`, or 0 if there is none. The
/// binary search has no branches.
#[inline(always)]
fn last_up_to(node: NodeRef<'_>, slots: &SlotArray, key: u64) -> usize {
    let count = count_of(node);
    let mut rank = 0;
    for step in [16, 8, 4, 2, 1] {
        let probe = (rank + step).min(ENTRIES - 1);
        let up_to = (probe < count) & (key_at(node, slots.entry(probe)) <= key);
        rank += (probe - rank) * usize::from(up_to);
    }
    rank
}

#[inline(always)]
fn count_of(node: NodeRef<'_>) -> usize {
    bitmap(node.meta()).count_ones() as usize
}

/// Returns the number of entries with lesser keys.
#[inline]
pub(super) fn rank_of(node: NodeRef<'_>, key: u64) -> usize {
    let slots = SlotArray::from_node(node);
    let last = last_up_to(node, &slots, key);
    let below = last < count_of(node) && key_at(node, slots.entry(last)) < key;
    last + usize::from(below)
}

/// Invalidates and stores the slot array, then stores bitmap and validity bit, and flushes them. All of
/// these are in one line, whose stores arrive in order. Only the entry, which is in another line, must
/// be durable before the bitmap is stored.
#[inline]
fn publish(
    out: &mut NodeWriter<'_>,
    node: NodeRef<'_>,
    used: u64,
    slots: &SlotArray,
    entry: Option<(usize, (u64, u64))>,
) {
    let head = node.offset + NodeHead::META;
    let meta = node.meta();
    if !injected(WbFault::SlotsStillCount) {
        out.store(head, meta & !VALID);
    }
    if injected(WbFault::BitmapFirst) {
        out.store(head, with_bitmap(meta, used) | VALID);
    }
    slots.store(out, node);
    if let Some((entry, (key, value))) = entry {
        if injected(WbFault::EntryUnflushed) {
            out.store(node.offset + entry_offset(entry), key);
            out.store(node.offset + entry_offset(entry) + 8, value);
        } else {
            write_entry(out, node, entry, (key, value));
        }
        if !injected(WbFault::BitmapUnfenced) {
            out.fence();
        }
    }
    out.store(head, with_bitmap(meta, used) | VALID);
    out.flush(head);
}

impl NodeFormat for WbFormat {
    const OWNER: [u8; 8] = *b"wb-tree1";
    const TAG: u16 = 0xB377;
    const CAPACITY: usize = ENTRIES;
    type Log = RedoLogs;

    fn log(slab: &Slab) -> RedoLogs {
        RedoLogs::new(slab.root())
    }

    fn replay(recovery: &SlabRecovery) -> Result<(), TreeError> {
        redo_log::replay(recovery)
    }

    #[inline(always)]
    fn count(node: NodeRef<'_>) -> usize {
        count_of(node)
    }

    #[inline(always)]
    fn find(node: NodeRef<'_>, key: u64) -> Option<(usize, u64)> {
        let slots = SlotArray::from_node(node);
        let rank = last_up_to(node, &slots, key);
        let entry = slots.entry(rank);
        let there = key_at(node, entry) == key && rank < count_of(node);
        there.then(|| (entry, value_at(node, entry)))
    }

    #[inline(always)]
    fn child(node: NodeRef<'_>, key: u64) -> u64 {
        let slots = SlotArray::from_node(node);
        value_at(node, slots.entry(last_up_to(node, &slots, key)))
    }

    #[inline(always)]
    fn each(node: NodeRef<'_>, mut take: impl FnMut(u64, u64)) {
        let slots = SlotArray::from_node(node);
        for rank in 0..count_of(node) {
            let entry = slots.entry(rank);
            take(key_at(node, entry), value_at(node, entry));
        }
    }

    fn write_new(out: &mut NodeWriter<'_>, offset: u64, head: &NodeHeadValues, entries: &[(u64, u64)]) {
        let node = out.node(offset);
        out.store(offset + NodeHead::SIBLING, head.sibling);
        out.store(offset + NodeHead::HIGH, head.high);
        out.store(offset + NodeHead::LOW, head.low);
        SlotArray::in_order().store(out, node);
        let flushed = !injected(WbFault::NewUnflushed);
        for (entry, (key, value)) in entries.iter().enumerate() {
            let at = offset + entry_offset(entry);
            out.store(at, *key);
            out.store(at + 8, *value);
            // A line holds four entries.
            if flushed && (entry % 4 == 3 || entry + 1 == entries.len()) {
                out.flush(at);
            }
        }
        let meta = with_bitmap(head.meta::<Self>(), (1 << entries.len()) - 1);
        out.store(offset + NodeHead::META, meta | VALID);
        out.flush(offset);
    }

    #[inline]
    fn insert(out: &mut NodeWriter<'_>, node: NodeRef<'_>, key: u64, value: u64) {
        let used = bitmap(node.meta());
        let entry = free_entry(used);
        let mut slots = SlotArray::from_node(node);
        slots.insert(rank_of(node, key), used.count_ones() as usize, entry);
        publish(out, node, used | 1 << entry, &slots, Some((entry, (key, value))));
        out.fence();
    }

    #[inline]
    fn set_value(out: &mut NodeWriter<'_>, node: NodeRef<'_>, at: usize, value: u64) {
        let at = node.offset + entry_offset(at);
        out.store(at + 8, value);
        out.flush(at);
        if !injected(WbFault::UpdateUnfenced) {
            out.fence();
        }
    }

    #[inline]
    fn remove(out: &mut NodeWriter<'_>, node: NodeRef<'_>, at: usize) {
        let used = bitmap(node.meta());
        let mut slots = SlotArray::from_node(node);
        slots.remove(rank_of(node, key_at(node, at)), used.count_ones() as usize);
        publish(out, node, used & !(1 << at), &slots, None);
        if !injected(WbFault::RemoveUnfenced) {
            out.fence();
        }
    }

    fn split(out: &mut NodeWriter<'_>, logs: &RedoLogs, split: &NodeSplit<'_, '_>) {
        multi_node::split(out, logs, split);
    }

    fn join(
        out: &mut NodeWriter<'_>,
        logs: &RedoLogs,
        parent: NodeRef<'_>,
        left: NodeRef<'_>,
        right: NodeRef<'_>,
    ) {
        multi_node::join(out, logs, parent, left, right);
    }

    fn examine(node: NodeRef<'_>) -> Result<NodeSummary, &'static str> {
        let meta = node.meta();
        let used = bitmap(meta);
        let unfinished = meta & VALID == 0;
        let slots = if unfinished {
            sorted(node)
        } else {
            SlotArray::from_node(node)
        };
        let mut listed = 0;
        let mut entries = SortedEntries::new();
        for rank in 0..used.count_ones() as usize {
            let entry = slots.raw(rank);
            if entry >= ENTRIES || listed >> entry & 1 == 1 {
                return Err("its slot array is invalid");
            }
            listed |= 1 << entry;
            let key = key_at(node, entry);
            if entries.last().is_some_and(|last| last.0 >= key) {
                return Err("its keys are not in order");
            }
            if key < node.low() || key > node.high() {
                return Err("a key is outside its key range");
            }
            entries.push((key, value_at(node, entry)));
        }
        if listed != used {
            return Err("its slot array and its bitmap list different entries");
        }
        let inner = node.level::<Self>() != Some(0);
        if inner && entries.first().is_none_or(|first| first.0 != node.low()) {
            return Err("its first child does not start at its least key");
        }
        Ok(NodeSummary {
            entries,
            unfinished: unfinished && !injected(WbFault::SlotsNotMended),
        })
    }

    fn repair(out: &mut NodeWriter<'_>, node: NodeRef<'_>) {
        let slots = sorted(node);
        publish(out, node, bitmap(node.meta()), &slots, None);
        out.fence();
    }

    fn unfinished_child(_: NodeRef<'_>) -> Option<u64> {
        None
    }

    fn load_unfenced() -> bool {
        injected(WbFault::LoadUnfenced)
    }
}

/// Computes the slot array from a node's entries.
fn sorted(node: NodeRef<'_>) -> SlotArray {
    let used = bitmap(node.meta());
    let mut entries: Vec<(u64, usize)> = (0..ENTRIES)
        .filter(|entry| used >> entry & 1 == 1)
        .map(|entry| (key_at(node, entry), entry))
        .collect();
    entries.sort_unstable();
    let mut slots = SlotArray::in_order();
    for (rank, (_, entry)) in entries.iter().enumerate() {
        slots.insert(rank, rank, *entry);
    }
    slots
}
