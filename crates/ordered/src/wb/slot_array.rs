//! Slot arrays, in private memory.

use crate::persistent::{NodeRef, NodeWriter};

use super::layout::{ENTRIES, WORDS, slots_offset};

/// Numbers of entries in the order of their keys; behind the last one anything.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotArray([u8; WORDS * 8]);

impl SlotArray {
    /// Entries in the order of their numbers.
    pub(super) fn in_order() -> SlotArray {
        SlotArray(std::array::from_fn(|rank| rank as u8))
    }

    #[inline(always)]
    pub(super) fn of(node: NodeRef<'_>) -> SlotArray {
        let mut slots = [0; WORDS * 8];
        for (word, bytes) in slots.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&node.load(slots_offset(word)).to_le_bytes());
        }
        SlotArray(slots)
    }

    /// The entry of a rank; some entry if what was read is being changed.
    #[inline(always)]
    pub(super) fn entry(&self, rank: usize) -> usize {
        usize::from(self.0[rank]).min(ENTRIES - 1)
    }

    /// As it was stored.
    pub(super) fn raw(&self, rank: usize) -> usize {
        usize::from(self.0[rank])
    }

    /// Puts an entry at a rank below `count`, or at it.
    #[inline]
    pub(super) fn insert(&mut self, rank: usize, count: usize, entry: usize) {
        self.0.copy_within(rank..count, rank + 1);
        self.0[rank] = entry as u8;
    }

    /// Takes out the entry of a rank.
    #[inline]
    pub(super) fn remove(&mut self, rank: usize, count: usize) {
        self.0.copy_within(rank + 1..count, rank);
    }

    /// Its words.
    pub(super) fn words(&self) -> [u64; WORDS] {
        std::array::from_fn(|word| {
            let bytes = self.0[word * 8..word * 8 + 8].try_into();
            u64::from_le_bytes(bytes.unwrap_or_default())
        })
    }

    /// Stores it; it is in the line of the node's head.
    pub(super) fn store(&self, out: &mut NodeWriter<'_>, node: NodeRef<'_>) {
        for (word, value) in self.words().into_iter().enumerate() {
            out.store(node.offset + slots_offset(word), value);
        }
    }
}
