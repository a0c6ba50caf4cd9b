//! The node format of FAST&FAIR.

use halocline_pool::{Slab, SlabRecovery};

use crate::TreeError;
use crate::persistent::{
    NodeFormat, NodeHead, NodeHeadValues, NodeRef, NodeSplit, NodeSummary, NodeWriter, SortedEntries,
    offset_of,
};

use super::fault::{FastFairFault, injected};
use super::layout::{
    FIRST, HINT, SLOTS, count, flush_slot, has_first, key_at, last_up_to, store_key, store_value, value_at,
};
use super::{shift, split};

/// Nodes with sorted entries.
#[derive(Debug)]
pub(crate) enum FairFormat {}

impl NodeFormat for FairFormat {
    const OWNER: [u8; 8] = *b"fastfair";
    const TAG: u16 = 0xFA17;
    const CAPACITY: usize = SLOTS;
    type Log = ();

    fn log(_: &Slab) {}

    fn replay(_: &SlabRecovery) -> Result<(), TreeError> {
        Ok(())
    }

    #[inline(always)]
    fn count(node: NodeRef<'_>) -> usize {
        count(node)
    }

    #[inline(always)]
    fn find(node: NodeRef<'_>, key: u64) -> Option<(usize, u64)> {
        let slot = last_up_to(node, key);
        let there = key_at(node, slot) == key && (slot > 0 || node.meta() & FIRST != 0);
        there.then(|| (slot, value_at(node, slot)))
    }

    #[inline(always)]
    fn child(node: NodeRef<'_>, key: u64) -> u64 {
        value_at(node, last_up_to(node, key))
    }

    #[inline(always)]
    fn each(node: NodeRef<'_>, mut take: impl FnMut(u64, u64)) {
        if !has_first(node) {
            return;
        }
        let high = node.high();
        take(key_at(node, 0), value_at(node, 0));
        for slot in 1..SLOTS {
            let key = key_at(node, slot);
            if key == 0 || key > high {
                return;
            }
            take(key, value_at(node, slot));
        }
    }

    fn write_new(out: &mut NodeWriter<'_>, offset: u64, head: &NodeHeadValues, entries: &[(u64, u64)]) {
        let node = out.node(offset);
        let first = if entries.is_empty() { 0 } else { FIRST };
        out.store(offset + NodeHead::SIBLING, head.sibling);
        out.store(offset + NodeHead::HIGH, head.high);
        out.store(offset + NodeHead::LOW, head.low);
        for slot in 0..SLOTS {
            let (key, value) = entries.get(slot).copied().unwrap_or((0, 0));
            store_key(out, node, slot, key);
            if slot < entries.len() {
                store_value(out, node, slot, value);
            }
        }
        out.store(offset + NodeHead::META, head.meta::<Self>() | first);
        out.flush_node(offset);
    }

    #[inline]
    fn insert(out: &mut NodeWriter<'_>, node: NodeRef<'_>, key: u64, value: u64) {
        shift::insert(out, node, key, value);
    }

    #[inline]
    fn set_value(out: &mut NodeWriter<'_>, node: NodeRef<'_>, at: usize, value: u64) {
        store_value(out, node, at, value);
        flush_slot(out, node, at);
        if !injected(FastFairFault::UpdateUnfenced) {
            out.fence();
        }
    }

    #[inline]
    fn remove(out: &mut NodeWriter<'_>, node: NodeRef<'_>, at: usize) {
        shift::remove(out, node, at);
    }

    fn split(out: &mut NodeWriter<'_>, (): &(), split: &NodeSplit<'_, '_>) {
        split::split(out, split);
    }

    fn join(out: &mut NodeWriter<'_>, (): &(), parent: NodeRef<'_>, left: NodeRef<'_>, right: NodeRef<'_>) {
        split::join(out, parent, left, right);
    }

    fn examine(node: NodeRef<'_>) -> Result<NodeSummary, &'static str> {
        let (low, high) = (node.low(), node.high());
        let mut summary = NodeSummary {
            entries: SortedEntries::new(),
            unfinished: false,
        };
        let mut ended = !has_first(node);
        let mut before = None;
        for slot in 0..SLOTS {
            let key = key_at(node, slot);
            ended |= slot > 0 && (key == 0 || key > high);
            if ended {
                if slot > 0 && key != 0 && key <= high {
                    return Err("there is a key after the last entry");
                }
                continue;
            }
            if key < low {
                return Err("a key is outside its key range");
            }
            match before {
                Some(before) if before > key => return Err("its keys are not in order"),
                Some(before) if before == key => {
                    if summary.unfinished {
                        return Err("two of its keys occur twice");
                    }
                    summary.unfinished = true;
                    summary.entries.replace_last((key, value_at(node, slot)));
                }
                _ => summary.entries.push((key, value_at(node, slot))),
            }
            before = Some(key);
        }
        let inner = node.level::<Self>() != Some(0);
        if inner && summary.entries.first().is_none_or(|first| first.0 != low) {
            return Err("its first child does not start at its least key");
        }
        if injected(FastFairFault::CopyStays) {
            summary.unfinished = false;
        }
        Ok(summary)
    }

    fn repair(out: &mut NodeWriter<'_>, node: NodeRef<'_>) {
        shift::repair(out, node);
    }

    fn unfinished_child(node: NodeRef<'_>) -> Option<u64> {
        let child = (node.meta() >> HINT) as u32;
        (child != 0 && !injected(FastFairFault::HintIgnored)).then(|| offset_of(child))
    }

    fn load_unfenced() -> bool {
        injected(FastFairFault::LoadUnfenced)
    }
}
