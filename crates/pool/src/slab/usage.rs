//! The word that the owner of a slab leaves at closing, and the nodes in use as words, from which the next
//! opening can restore them without following links.
//!
//! Invariant: the word of the last closing is available only if nothing was stored to the slab since. Earlier
//! programs store 0 when they close a slab.

use std::sync::atomic::Ordering;

use super::{Slab, SlabRecovery};

impl Slab {
    /// Returns the word that the owner left when the slab was last closed, or 0 if there is none or the slab
    /// was not closed after its last write.
    pub fn owner_word(&self) -> u64 {
        self.owner_word
    }

    /// Sets the word that [`seal`](Slab::seal) stores with the next closing. A slab that has not been
    /// written keeps the previous one.
    pub fn set_owner_word(&mut self, word: u64) {
        self.next_owner_word = word;
    }

    /// Returns true if the slab may have been written since it was last closed.
    pub fn is_changed(&self) -> bool {
        self.written.load(Ordering::Acquire) || self.at_rest.is_none()
    }

    /// Returns true if chunks have room for node checksums. Others are never closed.
    pub fn can_close(&self) -> bool {
        self.has_sums
    }

    /// Returns the nodes in use as words, for [`SlabRecovery::restore_usage`].
    pub fn usage(&self) -> Vec<u64> {
        self.nodes().usage()
    }

    /// Returns true if the offset is that of a node in use.
    pub fn is_used(&self, offset: u64) -> bool {
        self.nodes().is_used(offset)
    }
}

impl SlabRecovery {
    /// Marks nodes as in use as they were when [`Slab::usage`] returned these words. Changes nothing and
    /// returns false if the slab has other chunks now, or if nodes were reported before.
    pub fn restore_usage(&mut self, words: &[u64]) -> bool {
        self.nodes().restore(words)
    }
}
