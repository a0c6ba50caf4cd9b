//! A slot array in private memory.

use crate::persistent::{NodeRef, NodeWriter};

use super::layout::{ENTRIES, WORDS, slots_offset};

/// The numbers of entries in key order. Values after the last entry are arbitrary.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotArray([u8; WORDS * 8]);

impl SlotArray {
    /// Creates the slot array of entries that are stored in key order.
    pub(super) fn in_order() -> SlotArray {
        SlotArray(std::array::from_fn(|rank| rank as u8))
    }

    #[inline(always)]
    pub(super) fn from_node(node: NodeRef<'_>) -> SlotArray {
        let mut slots = [0; WORDS * 8];
        for (word, bytes) in slots.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&node.load(slots_offset(word)).to_le_bytes());
        }
        SlotArray(slots)
    }

    /// Returns the entry of a rank. The result is a valid number even if the node is being changed.
    #[inline(always)]
    pub(super) fn entry(&self, rank: usize) -> usize {
        usize::from(self.0[rank]).min(ENTRIES - 1)
    }

    /// Returns the stored number without the range check.
    pub(super) fn raw(&self, rank: usize) -> usize {
        usize::from(self.0[rank])
    }

    /// Inserts an entry at `rank`, which is at most `count`.
    #[inline]
    pub(super) fn insert(&mut self, rank: usize, count: usize, entry: usize) {
        self.0.copy_within(rank..count, rank + 1);
        self.0[rank] = entry as u8;
    }

    /// Removes the entry at `rank`.
    #[inline]
    pub(super) fn remove(&mut self, rank: usize, count: usize) {
        self.0.copy_within(rank + 1..count, rank);
    }

    /// Returns the array as words.
    pub(super) fn words(&self) -> [u64; WORDS] {
        std::array::from_fn(|word| {
            let bytes = self.0[word * 8..word * 8 + 8].try_into();
            u64::from_le_bytes(bytes.unwrap_or_default())
        })
    }

    /// Stores the array in the line of the node's head. The caller flushes the line.
    pub(super) fn store(&self, out: &mut NodeWriter<'_>, node: NodeRef<'_>) {
        for (word, value) in self.words().into_iter().enumerate() {
            out.store(node.offset + slots_offset(word), value);
        }
    }
}
