//! Nodes in doubt: those that may be in use, because the owner has not followed its links since it opened the
//! slab.
//!
//! They count as in use. The owner follows its links while it uses the slab, and confirms each node that a
//! link leads to. Once all links were followed, the nodes that are still in doubt are free.
//!
//! Invariants: a node in doubt was in use, or free, at the opening, and neither allocated nor freed since. A
//! node that is allocated after the opening is not in doubt, whether a link leads to it or not.

use super::frontier::Frontier;
use super::nodes::NodeAllocator;
use super::{Slab, SlabRecovery};

/// The state of a node to which the owner has found a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmedNode {
    /// The node was in doubt, and is no longer.
    Found,
    /// The node was in doubt at the opening and has been confirmed since: two links lead to it, or the owner
    /// has followed a link twice.
    Again,
    /// The node was allocated since the opening.
    New,
    /// There is no node in use at this offset.
    NotInUse,
}

/// The nodes of a chunk that are in doubt, or were and have been confirmed, as bitmaps.
#[derive(Debug, Default)]
pub(super) struct ChunkDoubt {
    doubtful: Vec<u64>,
    confirmed: Vec<u64>,
}

impl ChunkDoubt {
    /// Creates the state of a chunk of which the first `count` nodes are in doubt.
    fn of_first(count: u64, words: usize) -> ChunkDoubt {
        ChunkDoubt {
            doubtful: (0..words).map(|word| first_bits(count, word)).collect(),
            confirmed: vec![0; words],
        }
    }

    /// Forgets what is known of a node. Returns true if it was in doubt.
    pub(super) fn forget(&mut self, word: usize, bit: u64) -> bool {
        let Some(doubtful) = self.doubtful.get_mut(word) else {
            return false;
        };
        let was_doubtful = *doubtful & bit != 0;
        *doubtful &= !bit;
        self.confirmed[word] &= !bit;
        was_doubtful
    }

    /// Marks a node as confirmed if it is in doubt; returns true if it was.
    fn confirm(&mut self, word: usize, bit: u64) -> bool {
        let was_doubtful = self.doubtful.get(word).is_some_and(|word| word & bit != 0);
        if was_doubtful {
            self.doubtful[word] &= !bit;
            self.confirmed[word] |= bit;
        }
        was_doubtful
    }

    fn is_confirmed(&self, word: usize, bit: u64) -> bool {
        self.confirmed.get(word).is_some_and(|word| word & bit != 0)
    }
}

/// Returns a word of a bitmap whose first `count` bits are set.
pub(super) fn first_bits(count: u64, word: usize) -> u64 {
    match count.saturating_sub(word as u64 * 64) {
        bits @ 0..64 => (1 << bits) - 1,
        _ => u64::MAX,
    }
}

impl NodeAllocator {
    /// Marks all nodes before a frontier as in use and in doubt.
    fn doubt(&mut self, frontier: Frontier) {
        (self.used, self.doubtful) = (0, 0);
        for chunk in &mut self.chunks {
            let doubtful = frontier.nodes_before(chunk);
            let words = chunk.bits.len();
            for (word, bits) in chunk.bits.iter_mut().enumerate() {
                *bits |= first_bits(doubtful, word);
            }
            chunk.doubt = ChunkDoubt::of_first(doubtful, words);
            self.used += doubtful;
            self.doubtful += doubtful;
        }
    }

    /// Confirms that a link leads to a node.
    pub(super) fn confirm(&mut self, offset: u64) -> ConfirmedNode {
        let Some((at, word, bit)) = self.locate(offset) else {
            return ConfirmedNode::NotInUse;
        };
        let chunk = &self.chunks[at];
        let index = word as u64 * 64 + u64::from(bit.trailing_zeros());
        if !chunk.is_used(index) || self.is_withheld(chunk, index) {
            return ConfirmedNode::NotInUse;
        }
        let doubt = &mut self.chunks[at].doubt;
        if doubt.confirm(word, bit) {
            self.doubtful -= 1;
            return ConfirmedNode::Found;
        }
        if doubt.is_confirmed(word, bit) {
            ConfirmedNode::Again
        } else {
            ConfirmedNode::New
        }
    }

    /// Frees all nodes that are in doubt.
    pub(super) fn free_doubtful(&mut self) {
        for chunk in &mut self.chunks {
            for (bits, doubtful) in chunk.bits.iter_mut().zip(&chunk.doubt.doubtful) {
                *bits &= !doubtful;
            }
            chunk.doubt = ChunkDoubt::default();
        }
        self.used -= self.doubtful;
        self.doubtful = 0;
    }
}

impl Slab {
    /// Confirms that a link leads to the node at an offset.
    pub fn confirm(&self, offset: u64) -> ConfirmedNode {
        self.nodes().confirm(offset)
    }

    /// Returns the number of nodes that count as in use and are in doubt.
    pub fn doubtful(&self) -> u64 {
        self.nodes().doubtful
    }

    /// Frees all nodes that are in doubt: the owner has followed all links. From now on the slab may grow
    /// again while nodes are in doubt after an opening.
    pub fn free_doubtful(&self) {
        let mut nodes = self.nodes();
        nodes.free_doubtful();
        if let Some(frontier) = &mut nodes.frontier {
            frontier.grown = false;
        }
    }
}

impl SlabRecovery {
    /// Marks all nodes that may be in use as in use and in doubt, and keeps a frontier from now on: a durable
    /// bound, after which no node is in use. After the frontier that the last writer has kept, nodes are
    /// free; if it has kept none, all present nodes are in doubt. The owner must not use the
    /// [word](Slab::owner_word) of the slab for itself.
    ///
    /// The owner then [confirms](Slab::confirm) the nodes that its links lead to, at any time.
    pub fn keep_in_doubt(&mut self) {
        let found = self.slab().frontier_at_opening();
        self.keep_owner_word(found.is_some());
        let nodes = self.nodes();
        let frontier = found.unwrap_or_else(|| nodes.end());
        nodes.doubt(frontier);
        nodes.withhold(frontier);
    }

    /// Declares that no node is in use, and keeps a frontier from now on, as
    /// [`keep_in_doubt`](SlabRecovery::keep_in_doubt) does.
    pub fn keep_none(&mut self) {
        self.keep_owner_word(false);
        let nodes = self.nodes();
        let frontier = nodes.start();
        nodes.withhold(frontier);
    }
}
