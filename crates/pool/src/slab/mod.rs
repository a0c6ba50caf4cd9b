//! Slabs: many small nodes of one size that are changed where they lie, for trees: [`Slab`].
//!
//! A slab is an object whose extents, its *chunks*, are divided into nodes. The pool's directory says which chunks it has,
//! and nothing else about it is durable but a head of one block: which node is in use is decided by the owner's own
//! links. A node belongs to the owner as soon as a durable link leads to it, and is free otherwise; so taking and giving
//! back a node writes no line and waits for no fence, and no crash can leak a node or give it to two.
//!
//! Invariants: at most one handle has a slab open to write it, in any process, and then no other has it open; else any number
//! may read it. A node that [`Slab::alloc`] has handed out is not handed
//! out again before [`Slab::free`]. The owner frees a node only when no durable link leads to it any more, and links
//! it only when it is durable. At opening the owner follows its links and names every node it meets
//! ([`SlabRecovery::keep`]); all others are free.

mod growth;
mod nodes;
mod open;
mod node_sums;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use halocline_media::Medium;

use crate::access::SlabLock;
use crate::layout::{SLAB_HEAD, SLAB_ROOT};
use crate::{Pool, PoolError};

use nodes::NodeAllocator;

pub use open::SlabRecovery;
pub use node_sums::{NodeAtRest, NodeSums};

/// What a new slab is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlabOptions {
    /// Bytes of a node: 256 or a multiple of it, at most 64 KiB.
    pub node_size: u32,
    /// What is kept in it: eight bytes of the owner's choice, which opening compares.
    pub owner: [u8; 8],
    /// The least bytes of a chunk, rounded up to whole blocks of 4 KiB; later chunks are larger.
    pub chunk: u64,
}

/// Numbers about a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlabStats {
    /// Bytes of a node.
    pub node_size: u64,
    /// NodeAllocator in use.
    pub used: u64,
    /// NodeAllocator there is room for without growth.
    pub capacity: u64,
    /// Extents of the pool.
    pub chunks: u64,
    /// Bytes of the pool.
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
    growing: Mutex<()>,
    /// Whether the head says that power loss would harm it.
    marked: bool,
    read_only: bool,
    /// Whether chunks have room for checksums of nodes.
    has_sums: bool,
    /// Whether the root is not what it was when the slab was closed.
    root_changed: bool,
    /// Its checksum then.
    root_sum_before: u64,
    /// What the head said of them at opening.
    at_rest: Option<NodeSums>,
    /// Whether something may have been stored since.
    written: AtomicBool,
    _lock: SlabLock,
}

impl Slab {
    /// The medium, to load from nodes and to store to them.
    #[inline(always)]
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// Offset of the owner's root: [`ROOT_LEN`](Slab::ROOT_LEN) bytes, zeros at first, that stay where they are. All that
    /// the owner keeps is found from here.
    #[inline]
    pub fn root(&self) -> u64 {
        self.head + SLAB_ROOT
    }

    /// Bytes of the root.
    pub const ROOT_LEN: u64 = SLAB_HEAD - SLAB_ROOT;

    /// The object's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The pool it lies in.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Bytes of a node.
    #[inline]
    pub fn node_size(&self) -> u64 {
        self.node_size
    }

    /// Takes a free node; returns its offset, a multiple of 256. What it holds is anything. Nothing durable changes: until a
    /// durable link leads to it, a crash gives it back.
    ///
    /// When there is none, the pool gives a further chunk, which is published as a generation of its own: no log needs to be
    /// folded for it, but another writer of the pool is waited for, up to ten seconds.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`], [`PoolError::Locked`] (also if the calling thread itself has a transaction),
    /// [`PoolError::Media`]; nothing has changed.
    pub fn alloc(&self) -> Result<u64, PoolError> {
        loop {
            match self.alloc_ready() {
                Some(offset) => return Ok(offset),
                None => self.grow()?,
            }
        }
    }

    /// As [`alloc`](Slab::alloc), if that does not need the pool to grow: it waits for no writer of the pool.
    pub fn alloc_ready(&self) -> Option<u64> {
        self.nodes().take()
    }

    /// Gives a node back. No durable link may lead to it any more: it can be handed out at once.
    ///
    /// # Panics
    /// If the offset is not that of a node in use.
    pub fn free(&self, offset: u64) {
        let given = self.nodes().give(offset);
        assert!(given, "the node at {offset} of '{}' is not in use", self.name);
    }

    /// Says that links are lost, so that any node may be in use: all that are there count as such, and new ones are taken from the
    /// pool.
    pub fn keep_all(&self) {
        self.nodes().set_all();
    }

    /// Whether the offset is that of a node, in use or not.
    pub fn is_node(&self, offset: u64) -> bool {
        self.nodes().is_node(offset)
    }

    /// The offset of the node in which an offset lies, if it lies in one, in use or not.
    pub fn node_at(&self, offset: u64) -> Option<u64> {
        self.nodes().node_at(offset)
    }

    /// Numbers about it.
    pub fn stats(&self) -> SlabStats {
        self.nodes().stats()
    }

    /// Makes all that was stored survive power loss, as [`Pool::sync`] does for the whole pool.
    ///
    /// # Errors
    /// As [`Pool::sync`].
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
