//! The slabs of records, one for each size of nodes.
//!
//! A crash leaks no node: one that no tree leads to is free again. Which ones those are is found out after
//! the opening, by the [walk](super::usage) over the tree; until then the nodes that may be in use are in
//! doubt, and new ones come from beyond a frontier that the slab keeps.

use halocline_media::Medium;
use halocline_pool::{ConfirmedNode, Pool, PoolError, Slab, SlabOptions};

use super::record::{CLASSES, ItemRecordHead, RecordSize};
use crate::error::Result;
use crate::fault::{MemcachedFault, injected};

/// Names of the slabs, after which the size of their nodes follows.
const PREFIX: &str = "memcached/records/";
const OWNER: [u8; 8] = *b"mcrecord";

/// The slabs, in the order of their sizes.
#[derive(Debug)]
pub(super) struct RecordSlabs(Box<[Slab]>);

impl RecordSlabs {
    /// Opens the slabs of a pool. Those that are missing are created with chunks of at least `chunk` bytes.
    pub(super) fn open(pool: &Pool, chunk: u64) -> Result<RecordSlabs> {
        let mut slabs = Vec::new();
        for node_size in CLASSES {
            let name = format!("{PREFIX}{node_size}");
            let mut is_new = false;
            let opened = if injected(MemcachedFault::TrustUnsynced) {
                pool.open_slab_unsynced(&name, OWNER)
            } else {
                pool.open_slab(&name, OWNER)
            };
            let mut recovery = match opened {
                Err(PoolError::NoSuchObject { .. }) => {
                    let options = SlabOptions {
                        node_size,
                        owner: OWNER,
                        chunk: chunk.max(u64::from(node_size)),
                    };
                    drop(pool.create_slab(&name, &options)?);
                    is_new = true;
                    pool.open_slab(&name, OWNER)?
                }
                other => other?,
            };
            if is_new {
                recovery.keep_none()
            } else {
                recovery.keep_in_doubt()
            }
            slabs.push(recovery.finish());
        }
        Ok(RecordSlabs(slabs.into()))
    }

    /// Opens the slabs of a pool for reading. `None` if they are not all there, so that there are no records.
    pub(super) fn open_read_only(pool: &Pool) -> Result<Option<RecordSlabs>> {
        let mut slabs = Vec::new();
        for node_size in CLASSES {
            match pool.open_slab_read_only(&format!("{PREFIX}{node_size}"), OWNER) {
                Ok(recovery) => slabs.push(recovery.finish()),
                Err(PoolError::NoSuchObject { .. }) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(RecordSlabs(slabs.into())))
    }

    /// Returns true if all nodes of a record are nodes of its size.
    pub(super) fn has_nodes(&self, record: &ItemRecordHead) -> bool {
        let slab = &self.0[record.size().class];
        record.nodes().all(|node| slab.is_node(node))
    }

    pub(super) fn medium(&self) -> &Medium {
        self.0[0].medium()
    }

    /// Allocates the nodes of a record. `end_doubt` finds out which nodes are in use, if that is not known.
    pub(super) fn alloc(&self, size: RecordSize, end_doubt: &dyn Fn() -> Result<()>) -> Result<Vec<u64>> {
        let mut nodes = Vec::with_capacity(size.parts + 1);
        for _ in 0..=size.parts {
            match self.alloc_node(&self.0[size.class], end_doubt) {
                Ok(node) => nodes.push(node),
                Err(error) => {
                    self.free_nodes(size.class, nodes);
                    return Err(error);
                }
            }
        }
        Ok(nodes)
    }

    fn alloc_node(&self, slab: &Slab, end_doubt: &dyn Fn() -> Result<()>) -> Result<u64> {
        slab.begin_writing()?;
        loop {
            if let Some(node) = slab.alloc_present()? {
                return Ok(node);
            }
            if slab.doubtful() == 0 {
                return Ok(slab.alloc()?);
            }
            // A full pool may have room when the nodes in use are known.
            if slab.may_grow_in_doubt()
                && let Ok(node) = slab.alloc()
            {
                return Ok(node);
            }
            end_doubt()?;
            if slab.doubtful() > 0 {
                // The walk has met a damaged tree, and cannot tell.
                return Ok(slab.alloc()?);
            }
        }
    }

    /// Frees nodes that no durable link leads to.
    pub(super) fn free_nodes(&self, class: usize, nodes: impl IntoIterator<Item = u64>) {
        nodes.into_iter().for_each(|node| self.0[class].free(node));
    }

    /// Confirms that a link leads to a record. Returns true if its nodes were in doubt, and false if they
    /// were allocated, or confirmed, since the opening.
    ///
    /// # Errors
    /// A description of the damage.
    pub(super) fn confirm(&self, record: &ItemRecordHead) -> std::result::Result<bool, &'static str> {
        let slab = &self.0[record.size().class];
        let mut was_in_doubt = false;
        for node in record.nodes() {
            match slab.confirm(node) {
                ConfirmedNode::Found => was_in_doubt = true,
                ConfirmedNode::Again | ConfirmedNode::New => {}
                ConfirmedNode::NotInUse => return Err("one of its nodes is free"),
            }
        }
        Ok(was_in_doubt)
    }

    /// Keeps the first node of a record in use whose size is not known.
    pub(super) fn confirm_first(&self, offset: u64) {
        if let Some(slab) = self.0.iter().find(|slab| slab.is_node(offset)) {
            slab.confirm(offset);
        }
    }

    /// Frees all nodes in doubt.
    pub(super) fn free_doubtful(&self) {
        if !injected(MemcachedFault::ForgetLeaked) {
            self.0.iter().for_each(Slab::free_doubtful);
        }
    }

    /// Returns the bytes of all nodes that are in use or in doubt.
    pub(super) fn used_bytes(&self) -> u64 {
        let stats = self.0.iter().map(Slab::stats);
        stats.map(|stats| stats.used * stats.node_size).sum()
    }
}
