//! The word that the owner of a slab leaves in its head, and the nodes in use as words, from which the next
//! opening can restore them without following links.
//!
//! Invariants: the word of a closing is available only if nothing was stored to the slab since. A word of a
//! slab that is open is available only if the program that wrote last keeps it valid: it has a state of its
//! own, which earlier programs refuse. They store 0 when they close a slab.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Slab, SlabRecovery};
use crate::PoolError;
use crate::layout::{SLAB_OPEN, SLAB_OPEN_WORD, SlabHead};

impl Slab {
    /// Returns the word that the owner left in the head, or 0 if there is none or it was not kept valid.
    pub fn owner_word(&self) -> u64 {
        self.owner_word
    }

    /// Sets the word that [`seal`](Slab::seal) stores with the next closing. A slab that has not been
    /// written keeps the previous one.
    pub fn set_owner_word(&mut self, word: u64) {
        self.next_owner_word = word;
    }

    /// Replaces durably the word that is valid while the slab is open; 0 stands for none. What it leads to
    /// must be durable. The slab must be [marked](Slab::begin_writing) as being written, and no other
    /// thread may be in this method.
    ///
    /// # Errors
    /// [`PoolError::Media`]: the previous word or this one is in the head.
    pub fn replace_open_word(&self, word: u64) -> Result<(), PoolError> {
        let medium = &self.medium;
        self.open_word.store(word, Ordering::Release);
        let (_, state) = self.open_state();
        // Stores to one line arrive in order: a crash never finds a word with the state that vouches for it
        // before the word itself.
        medium.store_u64(self.head + SlabHead::OWNER_WORD, word);
        medium.store_u64(self.head + SlabHead::STATE, state);
        medium.persist(self.head, size_of::<SlabHead>() as u64)?;
        Ok(())
    }

    /// Returns the word that is valid while the slab is open, and the state to store with it.
    pub(super) fn open_state(&self) -> (u64, u64) {
        match self.open_word.load(Ordering::Acquire) {
            0 => (0, SLAB_OPEN),
            word => (word, SLAB_OPEN_WORD),
        }
    }

    /// Returns true if the slab may have been written since it was last closed.
    pub fn is_changed(&self) -> bool {
        self.written.load(Ordering::Acquire) || self.at_rest.is_none()
    }

    /// Returns true if chunks have room for node checksums. Others are never closed and have no word.
    pub fn can_close(&self) -> bool {
        self.has_sums
    }

    /// Returns the nodes in use as words, for [`SlabRecovery::restore_usage`], except for those `without`.
    pub fn usage(&self, without: &[u64]) -> Vec<u64> {
        self.nodes().usage(without)
    }

    /// Returns true if the offset is that of a node in use. The owner keeps no frontier.
    pub fn is_used(&self, offset: u64) -> bool {
        self.nodes().is_used(offset)
    }

    /// Returns an empty set of the nodes that the slab has now.
    pub fn node_set(&self) -> NodeSet {
        let chunk = |start, count: u64| SetChunk {
            start,
            count,
            bits: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        };
        let nodes = self.nodes();
        NodeSet {
            node_size: self.node_size,
            chunks: nodes
                .chunks()
                .map(|each| chunk(each.layout.start, each.layout.count))
                .collect(),
        }
    }

    /// Frees the nodes that existed when the set was created and are not in it. No durable link may lead to
    /// them. Nodes of later chunks stay as they are.
    pub fn retain(&self, set: &NodeSet) {
        self.nodes()
            .retain(|offset| set.locate(offset).is_none() || set.contains(offset));
    }
}

impl SlabRecovery {
    /// Marks nodes as in use as they were when [`Slab::usage`] returned these words, and the nodes at the
    /// offsets `with`. Changes nothing and returns false if the slab has other chunks now, if nodes were
    /// reported before, or if one of `with` is not free.
    pub fn restore_usage(&mut self, words: &[u64], with: &[u64]) -> bool {
        self.nodes().restore(words, with)
    }

    /// Declares whether the owner keeps its [word](Slab::owner_word) valid while it writes the slab. Must be
    /// called before anything is stored.
    pub fn keep_owner_word(&mut self, keep: bool) {
        let word = if keep { self.slab().owner_word } else { 0 };
        self.slab().open_word.store(word, Ordering::Release);
    }
}

/// A set of the nodes that a slab had at some moment. Threads may share it.
#[derive(Debug)]
pub struct NodeSet {
    node_size: u64,
    /// Sorted by offset.
    chunks: Box<[SetChunk]>,
}

#[derive(Debug)]
struct SetChunk {
    start: u64,
    count: u64,
    bits: Box<[AtomicU64]>,
}

impl NodeSet {
    /// Adds the node at an offset. Returns false if there is no node or the set contains it.
    pub fn insert(&self, offset: u64) -> bool {
        let located = self.locate(offset);
        located.is_some_and(|(word, bit)| word.fetch_or(bit, Ordering::AcqRel) & bit == 0)
    }

    /// Removes the node at an offset.
    pub fn remove(&self, offset: u64) {
        if let Some((word, bit)) = self.locate(offset) {
            word.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    /// Returns true if the set contains the node at an offset.
    pub fn contains(&self, offset: u64) -> bool {
        let located = self.locate(offset);
        located.is_some_and(|(word, bit)| word.load(Ordering::Acquire) & bit != 0)
    }

    /// Returns the set's size in bytes of DRAM.
    pub fn bytes(&self) -> u64 {
        self.chunks
            .iter()
            .map(|chunk| size_of_val(&*chunk.bits) as u64)
            .sum()
    }

    fn locate(&self, offset: u64) -> Option<(&AtomicU64, u64)> {
        let after = self.chunks.partition_point(|chunk| chunk.start <= offset);
        let chunk = &self.chunks[after.checked_sub(1)?];
        let (distance, index) = (offset - chunk.start, (offset - chunk.start) / self.node_size);
        let is_node = distance.is_multiple_of(self.node_size) && index < chunk.count;
        is_node.then(|| (&chunk.bits[(index / 64) as usize], 1 << (index % 64)))
    }
}
