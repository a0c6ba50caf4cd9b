//! Return of chunks without nodes in use to the pool.
//!
//! The owner [closes](Slab::close_chunks) chunks, so that none of their nodes is allocated any more, moves
//! what is left in them elsewhere, and then [gives them back](Slab::give_back_chunks).
//!
//! Invariants: a chunk leaves the slab with the generation that does not name it any more, which changes
//! nothing else. From then on its space is that of any removed extent: it waits until no reader pins a
//! generation that names it and no superblock needs one. No durable link leads to a node of it, since all of
//! them were [freed](Slab::free). The first chunk, which has the head, stays.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::PoisonError;
use std::time::Duration;

use crate::directory::ObjectRecord;
use crate::fault::{PoolFault, injected};
use crate::object::ObjectKind;
use crate::{PoolError, Txn};

use super::Slab;
use super::nodes::NodeAllocator;

/// Number of classes of chunks by the share of their nodes in use. Within a class, large chunks come first,
/// as closing them frees more.
const USAGE_CLASSES: u64 = 4;

impl NodeAllocator {
    /// Closes chunks so that at least `free` free nodes are left in others once the nodes in use have moved
    /// there: those of which the least part is in use, of these the largest ones, and then the last in the
    /// file.
    fn close_emptiest(&mut self, free: u64) {
        let mut open = (self.capacity - self.held).saturating_sub(self.used);
        let candidates = self
            .chunks()
            .filter(|chunk| chunk.age > 0 && chunk.held.is_none() && chunk.layout.count > 0);
        let mut candidates: Vec<(u64, Reverse<u64>, Reverse<u64>)> = candidates
            .map(|chunk| {
                let part = chunk.used() * USAGE_CLASSES / chunk.layout.count;
                (part, Reverse(chunk.layout.count), Reverse(chunk.layout.start))
            })
            .collect();
        candidates.sort_unstable();
        for (part, Reverse(count), Reverse(start)) in candidates {
            if part >= USAGE_CLASSES - 1 {
                // Too much would have to move.
                break;
            }
            // Its free nodes are lost to the slab, and as many others as it has in use.
            let Some(rest) = open.checked_sub(count).filter(|rest| *rest >= free) else {
                continue;
            };
            open = rest;
            let at = self.chunks.partition_point(|chunk| chunk.layout.start < start);
            self.close(at);
        }
    }

    /// Returns the closed chunks, as ranges of their nodes.
    fn closed(&self) -> Vec<Range<u64>> {
        let closed = self.chunks().filter(|chunk| chunk.held.is_some());
        closed
            .map(|chunk| chunk.layout.start..chunk.layout.start + chunk.layout.count * self.node_size)
            .collect()
    }
}

impl Slab {
    /// Closes chunks with few nodes in use, so that at least `free` nodes are free in the others once those
    /// in use have moved there. Returns the ranges of all closed chunks. None of their nodes is allocated
    /// before they are [reopened](Slab::reopen_chunks); freed ones stay closed. Durably, nothing changes.
    ///
    /// Closes none if the owner keeps a [frontier](super::SlabRecovery::keep_in_doubt).
    pub fn close_chunks(&self, free: u64) -> Vec<Range<u64>> {
        let mut nodes = self.nodes();
        if nodes.frontier.is_none() && !self.read_only {
            nodes.close_emptiest(free);
        }
        nodes.closed()
    }

    /// Lets the nodes of closed chunks be allocated again.
    pub fn reopen_chunks(&self) {
        let _one_at_a_time = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        self.nodes().reopen();
    }

    /// Gives the closed chunks of which no node is in use back to the pool, published as a generation of its
    /// own. Returns their size in bytes. Waits up to `wait` for another writer of the pool. Logs need not be
    /// folded.
    ///
    /// # Errors
    /// [`PoolError::Locked`], [`PoolError::DiskFull`], [`PoolError::Media`]: the chunks stay closed.
    pub fn give_back_chunks(&self, wait: Duration) -> Result<u64, PoolError> {
        let _one_at_a_time = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let unused: Vec<(u64, u64)> = {
            let nodes = self.nodes();
            let closed = nodes.chunks().filter(|chunk| chunk.held.is_some());
            let unused = closed.filter(|chunk| chunk.used() == 0 || injected(PoolFault::GiveBackInUse));
            unused.map(|chunk| (chunk.layout.start, chunk.bytes)).collect()
        };
        if unused.is_empty() {
            return Ok(0);
        }
        let starts: BTreeSet<u64> = unused.iter().map(|(start, _)| *start).collect();
        let txn = self.pool.begin_wait(wait)?;
        if injected(PoolFault::GiveBackUnpublished) {
            unused
                .iter()
                .for_each(|(start, bytes)| txn.trim_published(*start..start + bytes))
        } else {
            txn.shrink_slab(&self.name, &starts)?;
            txn.commit()?;
        }
        let mut nodes = self.nodes();
        starts.iter().for_each(|start| nodes.remove(*start));
        drop(nodes);
        unused
            .iter()
            .for_each(|(start, bytes)| self.gatherer.remove(*start, *bytes));
        let bytes = unused.iter().map(|(_, bytes)| bytes).sum();
        tracing::debug!(slab = %self.name, chunks = unused.len(), bytes, "given back to the pool");
        Ok(bytes)
    }
}

impl Txn {
    /// Removes chunks from a slab that this handle has open.
    fn shrink_slab(&self, name: &str, starts: &BTreeSet<u64>) -> Result<(), PoolError> {
        let mut state = self.state();
        let missing = || PoolError::NoSuchObject {
            path: self.inner.path.to_path_buf(),
            name: name.to_owned(),
        };
        let record = state.objects.get(name).ok_or_else(missing)?;
        let extents = record.extents.iter();
        let extents = extents.filter(|extent| !starts.contains(&extent.offset)).copied();
        let record = ObjectRecord::new(ObjectKind::SLAB, record.meta.clone(), extents.collect());
        state.put_slab(name, record);
        Ok(())
    }

    /// Frees space that the published generation names, for an injected fault.
    fn trim_published(&self, range: Range<u64>) {
        if let Some(space) = &mut self.inner.writer().space {
            space.release(range);
        }
    }
}
