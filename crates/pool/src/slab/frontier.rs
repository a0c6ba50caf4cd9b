//! The frontier of a slab: a durable bound of the nodes that are in use, in the order in which chunks were
//! added and, in a chunk, of offsets.
//!
//! It is the owner's word in the head of the slab. It tells after a crash which nodes are certainly free,
//! without following a link. Nodes after it are *withheld*: they are allocated only after the frontier was
//! advanced durably, which happens for many nodes at a time. A word contains a checksum, because no other
//! checksum covers the head.
//!
//! Invariants: whenever a durable link leads to a node, the frontier after it is durable. The frontier never
//! moves back while the slab is open.

use std::cmp::Ordering;
use std::sync::PoisonError;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::PoolError;
use crate::fault::{PoolFault, injected};

use super::Slab;
use super::doubt::first_bits;
use super::nodes::{NodeAllocator, NodeChunk};

/// Unit of offsets in a word.
const UNIT: u64 = 256;

/// Number of bits of the offset in a word, in units.
const OFFSET_BITS: u32 = 40;

/// Bit of a word: the slab has grown while nodes were in doubt.
const GROWN: u64 = 1 << OFFSET_BITS;

/// Position of the checksum in a word.
const SUM_SHIFT: u32 = OFFSET_BITS + 1;

/// The frontier advances by a part of a chunk at a time: its nodes divided by this number.
const ADVANCE_DIVISOR: u64 = 32;
/// Maximum number of nodes by which the frontier advances at a time.
const MAX_ADVANCE_NODES: u64 = 1024;

/// A bound of the nodes in use: all nodes of chunks that were added later are free, and so are those of its
/// own chunk after the first ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frontier {
    /// Age of its chunk.
    age: usize,
    /// Number of nodes of its chunk that may be in use.
    nodes: u64,
    /// True if the slab has grown while nodes were in doubt. It does not do so again before all links were
    /// followed, so that a process that is killed again and again does not take ever more space.
    pub(super) grown: bool,
}

impl Frontier {
    /// Returns the number of nodes of a chunk that are before the frontier.
    pub(super) fn nodes_before(&self, chunk: &NodeChunk) -> u64 {
        match chunk.age.cmp(&self.age) {
            Ordering::Less => chunk.layout.count,
            Ordering::Equal => self.nodes,
            Ordering::Greater => 0,
        }
    }
}

/// Adds the checksum to the other bits of a word.
fn with_sum(bits: u64, head: u64) -> u64 {
    bits | xxh3_64_with_seed(&bits.to_le_bytes(), head) << SUM_SHIFT
}

impl NodeAllocator {
    fn chunk_of_age(&self, age: usize) -> Option<&NodeChunk> {
        self.chunks.iter().find(|chunk| chunk.age == age)
    }

    /// Returns the frontier before all nodes.
    pub(super) fn start(&self) -> Frontier {
        Frontier {
            age: 0,
            nodes: 0,
            grown: false,
        }
    }

    /// Returns the frontier after all nodes.
    pub(super) fn end(&self) -> Frontier {
        let age = self.chunks.len().saturating_sub(1);
        Frontier {
            age,
            nodes: self.chunk_of_age(age).map_or(0, |chunk| chunk.layout.count),
            grown: false,
        }
    }

    /// Returns the word for the head at this offset that describes a frontier, or 0 if the frontier is too
    /// far away for one.
    fn word_of(&self, frontier: Frontier, head: u64) -> u64 {
        let start = self
            .chunk_of_age(frontier.age)
            .map_or(0, |chunk| chunk.layout.start);
        let units = (start + frontier.nodes * self.node_size) / UNIT;
        match units >> OFFSET_BITS {
            0 => with_sum(units | if frontier.grown { GROWN } else { 0 }, head),
            _ => 0,
        }
    }

    /// Returns the frontier that a word describes.
    fn frontier_of(&self, word: u64, head: u64) -> Option<Frontier> {
        let bits = word & ((1 << SUM_SHIFT) - 1);
        if with_sum(bits, head) != word {
            return None;
        }
        let offset = (bits & (GROWN - 1)) * UNIT;
        // No two chunks share an offset, because checksums follow the last node.
        self.chunks.iter().find_map(|chunk| {
            let distance = offset.checked_sub(chunk.layout.start)?;
            let nodes = distance / self.node_size;
            let fits = distance.is_multiple_of(self.node_size) && nodes <= chunk.layout.count;
            fits.then_some(Frontier {
                age: chunk.age,
                nodes,
                grown: bits & GROWN != 0,
            })
        })
    }

    /// Returns true if the node with this number in a chunk is after the frontier.
    pub(super) fn is_withheld(&self, chunk: &NodeChunk, index: u64) -> bool {
        self.frontier
            .is_some_and(|frontier| index >= frontier.nodes_before(chunk))
    }

    /// Withholds all nodes after a frontier, none of which may be in use.
    pub(super) fn withhold(&mut self, frontier: Frontier) {
        for chunk in &mut self.chunks {
            let before = frontier.nodes_before(chunk);
            for (word, bits) in chunk.bits.iter_mut().enumerate() {
                *bits |= !first_bits(before, word);
            }
            self.withheld += chunk.layout.count - before;
        }
        self.frontier = Some(frontier);
    }

    /// Returns the next frontier, or `None` if no node is withheld.
    fn next_frontier(&self) -> Option<Frontier> {
        let now = self.frontier?;
        let chunks = (now.age..self.chunks.len()).filter_map(|age| self.chunk_of_age(age));
        let mut behind = chunks.filter(|chunk| now.nodes_before(chunk) < chunk.layout.count);
        behind.next().map(|chunk| {
            let count = chunk.layout.count;
            Frontier {
                age: chunk.age,
                nodes: (now.nodes_before(chunk) + (count / ADVANCE_DIVISOR).clamp(1, MAX_ADVANCE_NODES))
                    .min(count),
                grown: now.grown,
            }
        })
    }

    /// Makes the nodes up to a later frontier free.
    fn release(&mut self, until: Frontier) {
        let Some(now) = self.frontier.replace(until) else {
            return;
        };
        for chunk in &mut self.chunks {
            let (from, to) = (now.nodes_before(chunk), until.nodes_before(chunk));
            for index in from..to {
                chunk.bits[(index / 64) as usize] &= !(1 << (index % 64));
            }
            self.withheld -= to - from;
        }
    }

    /// Returns the frontier directly after the last node in use.
    fn tight_frontier(&self) -> Frontier {
        let now = self.frontier.unwrap_or_else(|| self.end());
        let used = self.chunks.iter().filter_map(|chunk| {
            let mut indexes = (0..now.nodes_before(chunk)).rev();
            let last = indexes.find(|index| chunk.is_used(*index))?;
            Some((chunk.age, last + 1))
        });
        let (age, nodes) = used.max().unwrap_or_default();
        Frontier {
            age,
            nodes,
            grown: now.grown,
        }
    }
}

impl Slab {
    /// Returns the frontier that the last writer has kept.
    pub(super) fn frontier_at_opening(&self) -> Option<Frontier> {
        self.nodes().frontier_of(self.owner_word, self.head)
    }

    /// Advances the frontier durably and makes the nodes before it free. Returns false if there is none, or
    /// no node after it. The slab must be [marked](Slab::begin_writing) as being written.
    #[cold]
    pub(super) fn advance_frontier(&self) -> Result<bool, PoolError> {
        let _one_at_a_time = self.growth();
        let next = {
            let nodes = self.nodes();
            if nodes.has_free() {
                return Ok(true);
            }
            nodes
                .next_frontier()
                .map(|next| (next, nodes.word_of(next, self.head)))
        };
        let Some((next, word)) = next else {
            return Ok(false);
        };
        if self.has_sums && !injected(PoolFault::FrontierNotStored) {
            // Durable before another thread can link one of the nodes.
            self.replace_open_word(word)?;
        }
        self.nodes().release(next);
        Ok(true)
    }

    /// Returns true if the slab may grow although nodes are in doubt: it has not done so since all links were
    /// followed for the last time.
    pub fn may_grow_in_doubt(&self) -> bool {
        let nodes = self.nodes();
        nodes.doubtful == 0 || self.has_sums && nodes.frontier.is_none_or(|frontier| !frontier.grown)
    }

    /// Records durably that the slab grows while nodes are in doubt. The caller holds the lock of growing.
    pub(super) fn record_growth_in_doubt(&self) -> Result<(), PoolError> {
        let grown = {
            let nodes = self.nodes();
            let now = nodes.frontier.filter(|now| nodes.doubtful > 0 && !now.grown);
            let now = now.filter(|_| !injected(PoolFault::GrowthNotRecorded));
            now.map(|now| Frontier { grown: true, ..now })
                .map(|grown| (grown, nodes.word_of(grown, self.head)))
        };
        let Some((grown, word)) = grown else {
            return Ok(());
        };
        if self.has_sums {
            self.replace_open_word(word)?;
        }
        self.nodes().frontier = Some(grown);
        Ok(())
    }

    /// Prepares the closing of a slab with a frontier: its word for the next opening is the frontier directly
    /// after the last node in use.
    pub(super) fn close_frontier(&mut self) {
        let head = self.head;
        let nodes = self.nodes.get_mut().unwrap_or_else(PoisonError::into_inner);
        if nodes.frontier.is_some() {
            let word = nodes.word_of(nodes.tight_frontier(), head);
            nodes.release(nodes.end());
            nodes.frontier = None;
            self.next_owner_word = word;
        }
    }
}
