//! Growth of a slab by a further chunk.
//!
//! Invariant: a chunk belongs to the slab once a generation that names it is published. That publish changes
//! nothing else: logs and their records stay unchanged. The owner stores to the chunk only afterwards.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use halocline_media::{LINE, MediaError};

use crate::directory::ObjectRecord;
use crate::fault::{PoolFault, injected};
use crate::layout::{BLOCK, HUGE, NODE_SUM};
use crate::object::{ExtentRef, ObjectKind};
use crate::{PoolError, Txn};

use super::Slab;

/// How long to wait for another writer of the pool.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time for which nobody waits for another writer, after one was waited for in vain.
const IMPATIENCE: Duration = Duration::from_secs(5);

/// Maximum size of a chunk, unless a larger one is requested.
const MAX_CHUNK: u64 = 64 << 20;

/// The state of a slab's growth, locked while it grows.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// The last time that another writer did not let the slab grow.
    refused: Option<Instant>,
}

impl Slab {
    /// Adds a chunk, unless another thread has done so meanwhile.
    #[cold]
    pub(super) fn grow(&self) -> Result<(), PoolError> {
        let mut growth = self.growth();
        let (enough, bytes) = {
            let nodes = self.nodes();
            (nodes.has_free() || nodes.withheld > 0, nodes.bytes())
        };
        if enough {
            return Ok(());
        }
        self.record_growth_in_doubt()?;
        self.extend(self.wait_for_turn(&mut growth)?, bytes, 0)
    }

    /// Adds chunks until `nodes` nodes are free. Waits for another writer of the pool as
    /// [`alloc`](Slab::alloc) does: so an owner need not hold locks meanwhile that it holds when it
    /// allocates.
    ///
    /// # Errors
    /// Fails like [`alloc`](Slab::alloc); the chunks added so far stay.
    #[cold]
    pub fn make_room(&self, nodes: u64) -> Result<(), PoolError> {
        let mut growth = self.growth();
        loop {
            let stats = self.stats();
            let missing = nodes.saturating_sub(stats.capacity - stats.used);
            if missing == 0 {
                return Ok(());
            }
            self.record_growth_in_doubt()?;
            self.extend(
                self.wait_for_turn(&mut growth)?,
                stats.bytes,
                self.bytes_of(missing),
            )?;
        }
    }

    /// Returns the size of a chunk of `nodes` nodes.
    fn bytes_of(&self, nodes: u64) -> u64 {
        nodes
            .saturating_mul(self.node_size + NODE_SUM)
            .saturating_add(LINE)
    }

    pub(super) fn growth(&self) -> MutexGuard<'_, Growth> {
        self.growing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a transaction. One that is refused again and again does not wait each time.
    fn wait_for_turn(&self, growth: &mut Growth) -> Result<Txn, PoolError> {
        let is_recent = growth.refused.is_some_and(|at| at.elapsed() < IMPATIENCE);
        let begun = if is_recent {
            self.pool.begin()
        } else {
            self.pool.begin_wait(PATIENCE)
        };
        growth.refused = match &begun {
            Err(PoolError::Locked { .. }) => Some(Instant::now()),
            _ => None,
        };
        begun
    }

    /// Adds a chunk if fewer than `nodes` nodes are free, so that [`alloc`](Slab::alloc) need not wait for
    /// another writer of the pool soon. Waits for nobody: does nothing while there is another writer, or
    /// while another thread adds a chunk.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`], [`PoolError::Media`]; nothing has changed.
    pub fn reserve(&self, nodes: u64) -> Result<(), PoolError> {
        let Ok(_one_at_a_time) = self.growing.try_lock() else {
            return Ok(());
        };
        let stats = self.stats();
        let missing = nodes.saturating_sub(stats.capacity - stats.used);
        if missing == 0 {
            return Ok(());
        }
        match self.pool.begin() {
            Err(PoolError::Locked { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(txn) => self.extend(txn, stats.bytes, self.bytes_of(missing)),
        }
    }

    /// Adds a chunk to a slab of `bytes` bytes, of at least `least` bytes if the disk has room.
    fn extend(&self, txn: Txn, bytes: u64, least: u64) -> Result<(), PoolError> {
        let most = MAX_CHUNK.max(self.chunk);
        let mut len = chunk_len((bytes / 16).max(least).clamp(self.chunk, most));
        let offset = loop {
            match txn.reserve(len) {
                Err(error) if has_no_room(&error) && len > self.chunk => {
                    len = chunk_len(len / 2).max(self.chunk);
                }
                other => break other?,
            }
        };
        let chunk = ExtentRef::plain(offset, len, 0);
        txn.extend_slab(&self.name, chunk)?;
        if !injected(PoolFault::UnpublishedChunk) {
            txn.commit()?;
        }
        self.nodes().add(offset, offset + len, len);
        tracing::debug!(slab = %self.name, len, "a further chunk");
        self.gatherer.add(&self.medium, [(offset, len)].into_iter());
        Ok(())
    }
}

/// Returns true if a smaller chunk may fit.
fn has_no_room(error: &PoolError) -> bool {
    matches!(
        error,
        PoolError::DiskFull { .. } | PoolError::Media(MediaError::AddressSpace { .. })
    )
}

/// Returns the size of a chunk of about `len` bytes: whole blocks, or whole huge pages if it is that long.
pub(super) fn chunk_len(len: u64) -> u64 {
    len.next_multiple_of(if len >= HUGE { HUGE } else { BLOCK })
}

impl Txn {
    /// Adds a chunk to a slab that this handle has open.
    fn extend_slab(&self, name: &str, chunk: ExtentRef) -> Result<(), PoolError> {
        let mut state = self.state();
        let missing = || PoolError::NoSuchObject {
            path: self.inner.path.to_path_buf(),
            name: name.to_owned(),
        };
        let record = state.objects.get(name).ok_or_else(missing)?;
        let extents = record.extents.iter().copied().chain([chunk]).collect();
        let record = ObjectRecord::new(ObjectKind::SLAB, record.meta.clone(), extents);
        state.put_slab(name, record);
        Ok(())
    }
}
