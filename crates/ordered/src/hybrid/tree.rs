//! The tree itself and lookups of one key.

use halocline_pool::{Pool, Slab};

use crate::damaged::DamagedNodes;
use crate::entry_counter::EntryCounter;
use crate::inner::{InnerNodes, LeafLocation};
use crate::locks::{Backoff, Locks};
use crate::open_mode::OpenMode;
use crate::seal::{is_closing, seal};
use crate::stored::TreeSpace;
use crate::write_gate::WriteGate;
use crate::{TreeError, TreeStats};

use super::checkpoint::fault::{CheckpointFault, injected};
use super::lazy::LazyBlocks;
use super::leaf_ref::LeafRef;
use super::leaves::LeafFormat;
use super::pins::Pins;

/// Unit of leaf numbers: leaves are referenced by 32-bit multiples of this offset.
pub(crate) const UNIT: u64 = 256;

/// The first offset that cannot be referenced.
const REACH: u64 = UNIT << 32;

/// A tree with leaves of one format.
#[derive(Debug)]
pub(crate) struct HybridTree<L: LeafFormat> {
    pub(crate) slab: Slab,
    pub(crate) inner: InnerNodes,
    pub(super) locks: Locks,
    pub(super) count: EntryCounter,
    pub(super) damaged_nodes: DamagedNodes,
    pub(crate) write_gate: WriteGate,
    pub(super) lazy: LazyBlocks,
    pub(super) pins: Pins,
    pub(crate) leaves: L,
}

impl<L: LeafFormat> Drop for HybridTree<L> {
    fn drop(&mut self) {
        if !is_closing(&self.slab, self.write_gate.has_failed()) {
            return;
        }
        // After a crash, only a complete reading tells which nodes are in use.
        if self.lazy.after_crash().is_some() && self.build_all().is_err() {
            return;
        }
        let checkpoint_nodes = self.write_checkpoint();
        // Without damage and pending blocks, all leaves were read since the tree was opened. A leaf that was
        // not read keeps its checksum, so that damage of it is still noticed.
        let in_doubt = self.damaged_nodes.any() || self.lazy.any();
        let reached = (in_doubt && !injected(CheckpointFault::SealUnread)).then(|| {
            let mut reached = self.inner.leaves();
            reached.retain(|leaf| self.lazy.pending(*leaf).is_none());
            reached.extend(checkpoint_nodes.iter().map(|node| (node / UNIT) as u32));
            reached
        });
        let known = |node: u64| {
            let number = u32::try_from(node / UNIT).ok();
            reached
                .as_ref()
                .is_none_or(|reached| number.is_some_and(|number| reached.contains(&number)))
        };
        seal(&mut self.slab, &self.damaged_nodes, known);
    }
}

impl<L: LeafFormat> HybridTree<L> {
    /// Creates an empty tree as an object with this name.
    pub(crate) fn create(pool: &Pool, name: &str, space: TreeSpace, leaves: L) -> Result<Self, TreeError> {
        space.create_slab(pool, name, L::BYTES as u32, L::OWNER)?;
        Self::open(pool, name, OpenMode::Write, leaves)
    }

    /// Returns the name of the tree's object.
    pub(crate) fn name(&self) -> &str {
        self.slab.name()
    }

    /// Returns the leaf with a number.
    #[inline(always)]
    pub(super) fn at(&self, leaf: u32) -> LeafRef<'_> {
        LeafRef {
            medium: self.slab.medium(),
            offset: offset_of(leaf),
        }
    }

    /// Returns an error if the leaf is known to be damaged.
    ///
    /// # Errors
    /// [`TreeError::Damaged`].
    #[inline(always)]
    pub(super) fn intact(&self, leaf: u32) -> Result<(), TreeError> {
        match self.damaged_nodes.reason(leaf) {
            None => Ok(()),
            Some(reason) => Err(TreeError::Damaged {
                name: self.name().to_owned(),
                node: offset_of(leaf),
                reason,
            }),
        }
    }

    /// Returns the number of a node.
    pub(super) fn number_of(&self, offset: u64) -> Result<u32, TreeError> {
        number_of(offset, self.name())
    }

    /// Reads the value of a key from one leaf, or returns `None` if validation fails.
    #[inline(always)]
    fn try_get(&self, place: &LeafLocation<'_>, key: u64) -> Option<Option<u64>> {
        let at = self.at(place.leaf);
        L::fetch(at, key);
        self.read_leaf(place, key)
    }

    /// Reads the value of a key from a leaf whose lines were prefetched, or returns `None` if validation
    /// fails.
    #[inline(always)]
    pub(super) fn read_leaf(&self, place: &LeafLocation<'_>, key: u64) -> Option<Option<u64>> {
        if self.lazy.pending(place.leaf).is_some() {
            return None;
        }
        let at = self.at(place.leaf);
        let version = self.locks.read(place.leaf)?;
        if !self.inner.is_current(place) {
            return None;
        }
        let value = L::get(at, key);
        self.locks.validate(place.leaf, version).then_some(value)
    }
}

/// Returns the offset of the leaf with a number.
#[inline(always)]
pub(super) fn offset_of(leaf: u32) -> u64 {
    u64::from(leaf) * UNIT
}

/// Returns the number of the leaf at an offset.
pub(super) fn number_of(offset: u64, name: &str) -> Result<u32, TreeError> {
    u32::try_from(offset / UNIT).map_err(|_| TreeError::TooFar {
        name: name.to_owned(),
        node: offset,
        most: REACH,
    })
}

impl<L: LeafFormat> HybridTree<L> {
    #[inline]
    pub(crate) fn get(&self, key: u64) -> Result<Option<u64>, TreeError> {
        let mut backoff = Backoff::default();
        loop {
            let place = self.inner.find(key);
            if !self.ensure_built(place.leaf)? {
                continue;
            }
            if let Some(value) = self.try_get(&place, key) {
                self.intact(place.leaf)?;
                return Ok(value);
            }
            backoff.wait();
        }
    }

    /// Returns true if some leaves were not read since the tree was opened.
    #[cfg(test)]
    pub(crate) fn is_lazy(&self) -> bool {
        self.lazy.any()
    }

    /// Begins to build a block and gives up, as after a failed allocation.
    #[cfg(test)]
    pub(crate) fn abandon_build(&self, block: usize) {
        if let Some(build) = self.lazy.begin(block) {
            build.give_up(Vec::new());
        }
    }

    /// Returns the number of entries. After a crash, blocks that are not built must be read first.
    pub(crate) fn entries(&self) -> u64 {
        if self.lazy.after_crash().is_some() {
            // Leaves that cannot be read are not counted; operations that need them report the error.
            let _ = self.build_all();
        }
        self.count.get()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    pub(crate) fn stats(&self) -> TreeStats {
        // First, as it may have to find out which nodes are in use.
        let entries = self.entries();
        let slab = self.slab.stats();
        TreeStats {
            entries,
            leaves: slab.used - self.pins.nodes().len() as u64,
            inner_nodes: self.inner.nodes(),
            height: self.inner.height(),
            dram_bytes: self.inner.bytes()
                + self.locks.bytes()
                + self.count.bytes()
                + self.lazy.bytes()
                + self.pins.bytes(),
            slow_bytes: slab.bytes,
        }
    }
}
