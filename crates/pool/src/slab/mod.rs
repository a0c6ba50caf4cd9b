//! Slabs: many small nodes of one size that are changed in place, for trees: [`Slab`].
//!
//! A slab is an object whose extents, its *chunks*, are divided into nodes. Besides the chunks that the
//! pool's directory lists, only a head of one block is durable: the owner's own links determine which nodes
//! are in use. A node belongs to the owner as soon as a durable link leads to it, and is free otherwise. So
//! allocating and freeing a node writes no line and waits for no fence, and no crash can leak a node or
//! assign it twice.
//!
//! Invariants: at most one handle, in any process, has a slab open for writing, and then no other has it
//! open, except to [observe](Pool::observe_slab) it; otherwise any number may read it. [`Slab::alloc`] does
//! not return a node again before [`Slab::free`]. The owner frees a node only when no durable link leads to
//! it any more, and links it only when it is durable. At opening the owner follows its links and reports
//! every node that it meets ([`SlabRecovery::keep`]); all others are free. An owner that does not want to
//! follow all links at opening keeps a [frontier](frontier), and [confirms](doubt) the nodes before it later.
//! Chunks without nodes in use can be [given back](give_back) to the pool.

mod doubt;
mod frontier;
mod gather;
mod give_back;
mod growth;
mod node_sums;
mod nodes;
mod observe;
mod open;
mod usage;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use halocline_media::Medium;

use crate::access::SlabLock;
use crate::layout::{SLAB_HEAD, SLAB_ROOT};
use crate::{Pool, PoolError};

use gather::Gatherer;
use growth::Growth;
use nodes::NodeAllocator;

pub use doubt::ConfirmedNode;
pub use node_sums::{NodeAtRest, NodeSums};
pub use observe::SlabPin;
pub use open::SlabRecovery;
pub use usage::NodeSet;

/// Options for creating a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlabOptions {
    /// Node size in bytes, a multiple of 256 up to 64 KiB.
    pub node_size: u32,
    /// Eight bytes that identify the owner, which opening compares.
    pub owner: [u8; 8],
    /// Minimum size of a chunk in bytes, rounded up to whole blocks of 4 KiB; later chunks are larger.
    pub chunk: u64,
}

/// Statistics of a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlabStats {
    /// Node size in bytes.
    pub node_size: u64,
    /// Number of nodes in use.
    pub used: u64,
    /// Number of nodes that fit without growth, except for free ones of [closed](Slab::close_chunks) chunks.
    pub capacity: u64,
    /// Number of chunks.
    pub chunks: u64,
    /// Bytes that the slab occupies in the pool.
    pub bytes: u64,
}

/// An open slab. Threads may share it.
pub struct Slab {
    medium: Medium,
    pool: Pool,
    name: Arc<str>,
    node_size: u64,
    head: u64,
    chunk: u64,
    nodes: Mutex<NodeAllocator>,
    growing: Mutex<Growth>,
    gatherer: Gatherer,
    /// True if the head says that power loss may tear nodes.
    marked: bool,
    read_only: bool,
    /// True if chunks have room for node checksums.
    has_sums: bool,
    /// True if the root differs from its checksum at closing.
    root_changed: bool,
    /// The root's checksum at closing.
    root_sum_before: u64,
    /// The owner's word that was valid at opening, and that for the next closing.
    owner_word: u64,
    next_owner_word: u64,
    /// The owner's word that is valid while the slab is written, or 0. The frontier, if the owner keeps one.
    open_word: AtomicU64,
    /// The checksums found at opening, if the slab had been closed.
    at_rest: Option<NodeSums>,
    /// True if something may have been stored since opening.
    written: AtomicBool,
    /// `None` for a reader beside the writer.
    _lock: Option<SlabLock>,
}

impl Slab {
    /// Returns the medium, for loads from and stores to nodes.
    #[inline(always)]
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// Returns the offset of the owner's root: [`ROOT_LEN`](Slab::ROOT_LEN) bytes at a fixed place, initially
    /// zero, from which the owner finds everything else.
    #[inline]
    pub fn root(&self) -> u64 {
        self.head + SLAB_ROOT
    }

    /// Size of the root in bytes.
    pub const ROOT_LEN: u64 = SLAB_HEAD - SLAB_ROOT;

    /// Returns the name of the object.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the pool of the slab.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns the node size in bytes.
    #[inline]
    pub fn node_size(&self) -> u64 {
        self.node_size
    }

    /// Allocates a node; returns its offset, a multiple of 256. Its contents are undefined. Nothing durable
    /// changes: until a durable link leads to it, a crash frees it again.
    ///
    /// If no node is free, the pool adds a chunk, published as a generation of its own. No log needs to be
    /// folded for that, but the call waits up to a second for another writer of the pool, and not at
    /// all if that was waited for in vain a short time ago.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`], [`PoolError::Locked`] (also if the calling thread itself has a transaction),
    /// [`PoolError::Media`]; nothing has changed.
    pub fn alloc(&self) -> Result<u64, PoolError> {
        loop {
            match self.alloc_present()? {
                Some(offset) => return Ok(offset),
                None => self.grow()?,
            }
        }
    }

    /// Allocates a node like [`alloc`](Slab::alloc) if the pool need not grow, and so never waits for another
    /// writer. Advances the [frontier](SlabRecovery::keep_in_doubt) if that is necessary and the owner keeps
    /// one.
    ///
    /// # Errors
    /// [`PoolError::Media`]; nothing has changed.
    pub fn alloc_present(&self) -> Result<Option<u64>, PoolError> {
        loop {
            if let Some(offset) = self.alloc_ready() {
                return Ok(Some(offset));
            }
            if !self.advance_frontier()? {
                return Ok(None);
            }
        }
    }

    /// Allocates a node like [`alloc_present`](Slab::alloc_present) if it is not after the frontier. Stores
    /// nothing.
    pub fn alloc_ready(&self) -> Option<u64> {
        self.nodes().take()
    }

    /// Frees a node, which may be reused immediately: no durable link may lead to it any more.
    ///
    /// # Panics
    /// If the offset is not that of a node in use.
    pub fn free(&self, offset: u64) {
        let given = self.nodes().give(offset);
        assert!(given, "the node at {offset} of '{}' is not in use", self.name);
    }

    /// Marks all present nodes as in use, because links are lost. New nodes come from further chunks.
    pub fn keep_all(&self) {
        self.nodes().set_all();
    }

    /// Returns true if the offset is that of a node, in use or not.
    pub fn is_node(&self, offset: u64) -> bool {
        self.nodes().is_node(offset)
    }

    /// Returns the offset of the node that contains an offset, in use or not.
    pub fn node_at(&self, offset: u64) -> Option<u64> {
        self.nodes().node_at(offset)
    }

    /// Returns the offset after the last node.
    pub fn nodes_end(&self) -> u64 {
        self.nodes().nodes_end()
    }

    /// Returns statistics of the slab.
    pub fn stats(&self) -> SlabStats {
        self.nodes().stats()
    }

    /// Makes everything stored survive power loss, like [`Pool::sync`].
    ///
    /// # Errors
    /// Fails like [`Pool::sync`].
    pub fn sync(&self) -> Result<(), PoolError> {
        self.pool.sync()
    }

    fn nodes(&self) -> MutexGuard<'_, NodeAllocator> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        if self.marked
            && let Err(error) = self.unmark()
        {
            tracing::warn!(slab = %self.name, %error, "closed without syncing the last changes");
        }
    }
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab")
            .field("name", &self.name)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
