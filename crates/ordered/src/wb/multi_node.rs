//! Changes of several nodes. The new node, or the copied entries, are written to places that are not
//! valid yet. The words that make them valid are stored through a redo log.

use crate::persistent::{NodeFormat, NodeHead, NodeRef, NodeSplit, NodeWriter, SortedEntries};

use super::fault::{WbFault, injected};
use super::layout::{bitmap, entry_offset, free_entry, slots_offset, with_bitmap, write_entry};
use super::nodes::{WbFormat, rank_of};
use super::redo_log::RedoLogs;
use super::slot_array::SlotArray;

/// A list of words to store.
#[derive(Default)]
struct WordUpdates(Vec<(u64, u64)>);

impl WordUpdates {
    /// Adds a node's bitmap and slot array.
    fn order(&mut self, node: NodeRef<'_>, bitmap: u64, slots: &SlotArray) {
        let meta = with_bitmap(node.meta(), bitmap);
        self.0.push((node.offset + NodeHead::META, meta));
        for (word, value) in slots.words().into_iter().enumerate() {
            self.0.push((node.offset + slots_offset(word), value));
        }
    }

    /// Adds a node's greatest key and right sibling.
    fn end(&mut self, node: NodeRef<'_>, high: u64, sibling: u64) {
        self.0.push((node.offset + NodeHead::HIGH, high));
        self.0.push((node.offset + NodeHead::SIBLING, sibling));
    }
}

pub(super) fn split(out: &mut NodeWriter<'_>, logs: &RedoLogs, split: &NodeSplit<'_, '_>) {
    let NodeSplit {
        parent, node, new, ..
    } = *split;
    WbFormat::write_new(out, new, &split.head(), &split.moved());

    let mut words = WordUpdates::default();
    let mut slots = SlotArray::from_node(node);
    let mut used = (0..split.middle).fold(0, |used, rank| used | 1 << slots.entry(rank));
    if let Some((key, value)) = split.stays() {
        let entry = free_entry(used);
        used |= 1 << entry;
        slots.insert(split.entries.rank(key), split.middle, entry);
        let at = node.offset + entry_offset(entry);
        words.0.extend([(at, key), (at + 8, value)]);
    }
    words.end(node, split.bound - 1, new);
    words.order(node, used, &slots);

    let mut slots = SlotArray::from_node(parent);
    let used = bitmap(parent.meta());
    let entry = free_entry(used);
    write_entry(out, parent, entry, (split.bound, new));
    slots.insert(rank_of(parent, split.bound), used.count_ones() as usize, entry);
    words.order(parent, used | 1 << entry, &slots);
    logs.commit(out, &words.0);
}

pub(super) fn join(
    out: &mut NodeWriter<'_>,
    logs: &RedoLogs,
    parent: NodeRef<'_>,
    left: NodeRef<'_>,
    right: NodeRef<'_>,
) {
    let mut words = WordUpdates::default();
    words.end(left, right.high(), right.sibling());
    let mut slots = SlotArray::from_node(left);
    let mut used = bitmap(left.meta());
    for (key, value) in SortedEntries::from_node::<WbFormat>(right).iter() {
        let entry = free_entry(used);
        let count = used.count_ones() as usize;
        if injected(WbFault::CopiesUnflushed) {
            out.store(left.offset + entry_offset(entry), *key);
            out.store(left.offset + entry_offset(entry) + 8, *value);
        } else {
            write_entry(out, left, entry, (*key, *value));
        }
        slots.insert(count, count, entry);
        used |= 1 << entry;
    }
    words.order(left, used, &slots);

    let mut slots = SlotArray::from_node(parent);
    let used = bitmap(parent.meta());
    let rank = rank_of(parent, right.low());
    let gone = 1 << slots.entry(rank);
    slots.remove(rank, used.count_ones() as usize);
    words.order(parent, used & !gone, &slots);
    logs.commit(out, &words.0);
}
