//! Growth of a slab by a further chunk.
//!
//! Invariant: a chunk belongs to the slab once a generation that names it is published. That publish changes
//! nothing else: logs and their records stay unchanged. The owner stores to the chunk only afterwards.

use std::sync::PoisonError;
use std::time::Duration;

use crate::directory::ObjectRecord;
use crate::fault::{PoolFault, injected};
use crate::layout::{BLOCK, HUGE};
use crate::object::{ExtentRef, ObjectKind};
use crate::{PoolError, Txn};

use super::Slab;

/// How long to wait for another writer of the pool.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum size of a chunk, unless a larger one is requested.
const MOST: u64 = 64 << 20;

impl Slab {
    /// Adds a chunk, unless another thread has done so meanwhile.
    #[cold]
    pub(super) fn grow(&self) -> Result<(), PoolError> {
        let _one_at_a_time = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let (enough, bytes) = {
            let nodes = self.nodes();
            (nodes.has_free() || nodes.withheld > 0, nodes.bytes())
        };
        if enough {
            return Ok(());
        }
        self.record_growth_in_doubt()?;
        self.extend(self.pool.begin_wait(PATIENCE)?, bytes)
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
        if stats.capacity - stats.used >= nodes {
            return Ok(());
        }
        match self.pool.begin() {
            Err(PoolError::Locked { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(txn) => self.extend(txn, stats.bytes),
        }
    }

    /// Adds a chunk to a slab of `bytes` bytes.
    fn extend(&self, txn: Txn, bytes: u64) -> Result<(), PoolError> {
        let generous = chunk_len((bytes / 16).clamp(self.chunk, MOST.max(self.chunk)));
        let (offset, len) = match txn.reserve(generous) {
            Err(PoolError::DiskFull { .. }) if generous > self.chunk => {
                (txn.reserve(self.chunk)?, self.chunk)
            }
            other => (other?, generous),
        };
        let chunk = ExtentRef::plain(offset, len, 0);
        txn.extend_slab(&self.name, chunk)?;
        if !injected(PoolFault::UnpublishedChunk) {
            txn.commit()?;
        }
        self.nodes().add(offset, offset + len, len);
        tracing::debug!(slab = %self.name, len, "a further chunk");
        self.gather(vec![(offset, len)]);
        Ok(())
    }

    /// Collapses chunks to huge pages in a background thread, where the medium does not use them anyway.
    pub(super) fn gather(&self, chunks: Vec<(u64, u64)>) {
        if !self.medium.can_gather() {
            return;
        }
        let medium = self.medium.clone();
        let work = move || {
            chunks
                .iter()
                .for_each(|(offset, len)| medium.gather(*offset, *len))
        };
        let started = std::thread::Builder::new().name("gather".to_owned()).spawn(work);
        if let Err(error) = started {
            tracing::debug!(%error, "pages stay as they are");
        }
    }
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
