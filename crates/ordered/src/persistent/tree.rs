//! The tree itself: creation and lookups of one key.

use std::sync::atomic::{AtomicU64, Ordering};

use halocline_pool::{Pool, Slab};

use crate::TreeError;
use crate::TreeStats;
use crate::damaged::DamagedNodes;
use crate::locks::{Backoff, Locks};
use crate::open_mode::OpenMode;
use crate::seal::{is_closing, seal};
use crate::stored::TreeSpace;
use crate::write_gate::WriteGate;

use super::entry_count::LazyEntryCount;
use super::format::NodeFormat;
use super::layout::NODE;
use super::node::{NodeRef, REACH, is_node_offset, number_of, offset_of};
use super::usage::UsageWalk;
use super::visit::VisitedNodes;

/// A tree whose nodes have one format.
#[derive(Debug)]
pub(crate) struct PersistentTree<F: NodeFormat> {
    pub(crate) slab: Slab,
    /// The root's number in the lower half, its level in the upper one.
    pub(super) root: AtomicU64,
    /// Number of inner nodes that are not in doubt.
    pub(super) inner_nodes: AtomicU64,
    pub(super) locks: Locks,
    pub(super) entry_count: LazyEntryCount,
    pub(super) visited: VisitedNodes,
    pub(crate) usage: UsageWalk,
    pub(super) damaged_nodes: DamagedNodes,
    pub(super) write_gate: WriteGate,
    pub(super) log: F::Log,
}

impl<F: NodeFormat> Drop for PersistentTree<F> {
    fn drop(&mut self) {
        if !is_closing(&self.slab, self.write_gate.has_failed()) {
            return;
        }
        if self.slab.sums().is_none() {
            // Nodes that were not visited since a crash cannot be sealed. Counting visits all leaves, the
            // walk all inner nodes.
            self.entries();
            if self.complete_walk().is_err() || self.write_gate.has_failed() {
                return;
            }
        }
        let visited = &self.visited;
        seal(&mut self.slab, &self.damaged_nodes, |node| {
            visited.has(number_of(node))
        });
    }
}

impl<F: NodeFormat> PersistentTree<F> {
    pub(crate) fn create(pool: &Pool, name: &str, space: TreeSpace) -> Result<PersistentTree<F>, TreeError> {
        space.create_slab(pool, name, NODE as u32, F::OWNER)?;
        Self::open(pool, name, OpenMode::Write)
    }

    #[inline]
    pub(crate) fn get(&self, key: u64) -> Result<Option<u64>, TreeError> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(at) = self.try_descend(key, 0)? {
                let found = F::find(self.node(at.number), key);
                if self.locks.validate(at.number, at.version) {
                    return Ok(found.map(|(_, value)| value));
                }
            }
            backoff.wait();
        }
    }

    pub(crate) fn stats(&self) -> TreeStats {
        // What cannot be read is not counted; operations that need it report the error.
        let entries = self.entries();
        let _ = self.complete_walk();
        let slab = self.slab.stats();
        let inner_nodes = self.inner_nodes.load(Ordering::Relaxed);
        TreeStats {
            entries,
            leaves: slab.used.saturating_sub(inner_nodes),
            inner_nodes,
            height: self.root().1,
            dram_bytes: self.locks.bytes() + self.visited.bytes(),
            slow_bytes: slab.bytes,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.slab.name()
    }

    /// Returns the root's number and level.
    #[inline(always)]
    pub(super) fn root(&self) -> (u32, u32) {
        let root = self.root.load(Ordering::Acquire);
        (root as u32, (root >> 32) as u32)
    }

    pub(super) fn set_root(&self, number: u32, level: u32) {
        let root = u64::from(level) << 32 | u64::from(number);
        self.root.store(root, Ordering::Release);
    }

    /// Returns the node with a number.
    #[inline(always)]
    pub(super) fn node(&self, number: u32) -> NodeRef<'_> {
        self.at(offset_of(number))
    }

    #[inline(always)]
    pub(crate) fn at(&self, offset: u64) -> NodeRef<'_> {
        NodeRef {
            medium: self.slab.medium(),
            offset,
        }
    }

    /// Returns the number of the node that a link leads to, or 0 if the link is invalid.
    #[inline(always)]
    pub(super) fn number(&self, link: u64) -> u32 {
        if is_node_offset(link, self.slab.medium().len()) {
            number_of(link)
        } else {
            0
        }
    }

    /// Returns an error if the node is known to be damaged.
    ///
    /// # Errors
    /// [`TreeError::Damaged`].
    #[inline(always)]
    pub(super) fn intact(&self, number: u32) -> Result<(), TreeError> {
        match self.damaged_nodes.reason(number) {
            None => Ok(()),
            Some(reason) => Err(damaged(self.name(), offset_of(number), &reason)),
        }
    }

    /// Records that a node is damaged and returns the error.
    #[cold]
    pub(super) fn damaged(&self, number: u32, reason: &str) -> TreeError {
        self.damaged_nodes.add(number, reason.to_owned());
        damaged(self.name(), offset_of(number), reason)
    }

    /// Allocates a node.
    pub(super) fn take(&self) -> Result<u64, TreeError> {
        let node = self.take_node()?;
        if node < REACH {
            return Ok(node);
        }
        self.slab.free(node);
        Err(too_far(self.name(), node))
    }
}

pub(super) fn damaged(name: &str, node: u64, reason: &str) -> TreeError {
    TreeError::Damaged {
        name: name.to_owned(),
        node,
        reason: reason.to_owned(),
    }
}

pub(super) fn too_far(name: &str, node: u64) -> TreeError {
    TreeError::TooFar {
        name: name.to_owned(),
        node,
        most: REACH,
    }
}

/// Defines a public tree type with one node format.
macro_rules! stored_tree {
    ($(#[$doc:meta])* $tree:ident, $format:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $tree(
            pub(crate) $crate::persistent::PersistentTree<$format>,
        );

        impl $tree {
            /// Creates an empty tree as an object with this name. It allocates at least `chunk` bytes of the
            /// pool at a time, rounded up to whole blocks of 4 KiB.
            ///
            /// # Errors
            /// [`TreeError::Pool`](crate::TreeError::Pool), as
            /// [`Pool::create_slab`](halocline_pool::Pool::create_slab).
            pub fn create(
                pool: &halocline_pool::Pool,
                name: &str,
                chunk: u64,
            ) -> Result<Self, $crate::TreeError> {
                $crate::stored::StoredTree::create_stored(
                    pool,
                    name,
                    $crate::stored::TreeSpace::of_chunks(chunk),
                )
            }

            /// Opens a tree in a time that does not depend on its size, whether it was closed or its process
            /// was killed. Nodes are checked, and changes that a crash has interrupted are completed, when
            /// they are first visited. Entries are counted, which reads all leaves once, when their number is
            /// first requested ([`len`](crate::OrderedIndex::len), [`stats`](crate::OrderedIndex::stats)).
            /// The nodes in use are found little by little while nodes are allocated, or at once by
            /// [`stats`](crate::OrderedIndex::stats) and [`check`](crate::OrderedIndex::check).
            ///
            /// A tree with a damaged inner node or a bad link can be opened. Operations that need a node
            /// below it fail ([`TreeError::Damaged`](crate::TreeError::Damaged)). All others succeed and use
            /// only newly allocated nodes.
            ///
            /// # Errors
            /// [`TreeError::Pool`](crate::TreeError::Pool), as
            /// [`Pool::open_slab`](halocline_pool::Pool::open_slab), and if there is no root;
            /// [`TreeError::Damaged`](crate::TreeError::Damaged) if a log is damaged.
            pub fn open(pool: &halocline_pool::Pool, name: &str) -> Result<Self, $crate::TreeError> {
                Ok($tree($crate::persistent::PersistentTree::open(pool, name, $crate::open_mode::OpenMode::Write)?))
            }

            /// Opens a tree read-only, alongside other readers; see
            /// [`open_tree_read_only`](crate::open_tree_read_only).
            ///
            /// # Errors
            /// As [`open`](Self::open), and [`TreeError::NeedsRecovery`](crate::TreeError::NeedsRecovery).
            pub fn open_read_only(
                pool: &halocline_pool::Pool,
                name: &str,
            ) -> Result<Self, $crate::TreeError> {
                Ok($tree($crate::persistent::PersistentTree::open(pool, name, $crate::open_mode::OpenMode::Read)?))
            }

            /// Opens a tree like [`open`](Self::open) even if the machine went down before the tree was
            /// synced ([`PoolError::SlabUnsynced`](halocline_pool::PoolError::SlabUnsynced)). Any part of
            /// what was written since the last sync may be missing; [`check`](crate::OrderedIndex::check) the
            /// tree.
            ///
            /// # Errors
            /// As [`open`](Self::open).
            pub fn open_unsynced(
                pool: &halocline_pool::Pool,
                name: &str,
            ) -> Result<Self, $crate::TreeError> {
                Ok($tree($crate::persistent::PersistentTree::open(pool, name, $crate::open_mode::OpenMode::Accept)?))
            }

            /// Returns the name of the tree's object.
            pub fn name(&self) -> &str {
                self.0.name()
            }

            /// Makes all completed changes survive power loss, on every kind of medium.
            ///
            /// # Errors
            /// [`TreeError::Pool`](crate::TreeError::Pool) if the disk fails.
            pub fn sync(&self) -> Result<(), $crate::TreeError> {
                Ok(self.0.slab.sync()?)
            }
        }

        impl $crate::stored::StoredTree for $tree {
            const OWNER: [u8; 8] = <$format as $crate::persistent::NodeFormat>::OWNER;

            fn create_stored(
                pool: &halocline_pool::Pool,
                name: &str,
                space: $crate::stored::TreeSpace,
            ) -> Result<Self, $crate::TreeError> {
                Ok($tree($crate::persistent::PersistentTree::create(pool, name, space)?))
            }

            fn open_stored(
                pool: &halocline_pool::Pool,
                name: &str,
                open_mode: $crate::open_mode::OpenMode,
            ) -> Result<Self, $crate::TreeError> {
                Ok($tree($crate::persistent::PersistentTree::open(pool, name, open_mode)?))
            }
        }

        $crate::facade::is_index!([] $tree);
    };
}

pub(crate) use stored_tree;
