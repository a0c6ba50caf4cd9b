//! Space of a transaction: allocating it, and releasing what is not used.
//!
//! Invariants: `reserved` lists all space that the transaction has allocated and no generation names. It is
//! released when the transaction ends.

use std::ops::Range;
use std::sync::{Arc, PoisonError};
use std::thread;

use super::Txn;
use crate::PoolError;
use crate::layout::{DATA_START, blocks};
use crate::object::ExtentRef;
use crate::sums;
use crate::writer::{ExtentWriter, ScratchExtent};

impl Txn {
    /// Allocates space for an extent of at most `max_len` bytes. The unused part is released when the extent
    /// is finished, all of it if the writer is dropped.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`], [`PoolError::Media`].
    pub fn alloc(&self, max_len: u64) -> Result<ExtentWriter<'_>, PoolError> {
        let space = blocks(max_len) + sums::space_of(max_len);
        Ok(ExtentWriter::new(self, self.reserve(space)?, max_len))
    }

    /// Allocates `len` bytes of temporary space in the pool, for data that does not fit the memory budget. It
    /// is released with the transaction at the latest.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`], [`PoolError::Media`].
    pub fn scratch(&self, len: u64) -> Result<ScratchExtent<'_>, PoolError> {
        Ok(ScratchExtent::new(self, self.reserve(len)?, len))
    }

    /// Allocates space for this transaction. Empty extents need none.
    pub(crate) fn reserve(&self, len: u64) -> Result<u64, PoolError> {
        if len == 0 {
            return Ok(DATA_START);
        }
        let purpose = self.state().reserve_use;
        let offset = self.inner.allocate(len, purpose)?;
        self.state().reserved.insert(offset, blocks(len));
        Ok(offset)
    }

    /// Allocates this range for the transaction, in whole blocks, or returns false if a part of it is not
    /// free.
    pub(crate) fn reserve_at(&self, range: Range<u64>) -> Result<bool, PoolError> {
        let taken = self.inner.allocate_at(range.clone())?;
        if taken {
            self.state().reserved.insert(range.start, range.end - range.start);
        }
        Ok(taken)
    }

    /// Releases the end of the space reserved at `offset`, except the blocks of its first `len` bytes.
    pub(crate) fn trim(&self, offset: u64, len: u64) {
        let keep = blocks(len);
        let mut state = self.state();
        let Some(reserved) = state.reserved.get_mut(&offset) else {
            return;
        };
        let freed = offset + keep..offset + *reserved;
        *reserved = keep;
        if keep == 0 {
            state.reserved.remove(&offset);
        }
        drop(state);
        if let Some(space) = &mut self.inner.writer().space {
            space.release(freed);
        }
    }

    /// Records an extent whose bytes are stored and flushed.
    pub(crate) fn finished(&self, extent: ExtentRef) -> Result<(), PoolError> {
        if thread::current().id() != self.thread {
            // The commit's fence belongs to another thread and does not cover this one's flushes.
            self.inner.medium.fence()?;
        }
        if extent.len > 0 {
            self.inner.verification.written(&extent);
            self.state().finished.insert(extent.offset, extent);
        }
        Ok(())
    }
}

impl Drop for Txn {
    /// Releases reserved and unpublished space: immediately or, if it is still being read, when the next
    /// generation is published and this one is no longer pinned. Until then other handles cannot write,
    /// because they would consider the space free.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let generation = self.base.directory().generation;
        let shared = Arc::get_mut(&mut self.base).is_none();
        if shared && !state.reserved.is_empty() {
            self.base.keep_lock(Arc::clone(&self.lock));
        }
        if let Some(space) = &mut self.inner.writer().space {
            for (offset, len) in state.reserved.drain() {
                if shared {
                    space.release_after_readers(offset..offset + len, generation)
                } else {
                    space.release(offset..offset + len)
                }
            }
        }
    }
}
