//! Rows outside of DRAM: where they go ([`SpillSpace`]) and in which form.
//!
//! Rows are spilled a block at a time, encoded field by field. A space belongs to one query: nothing in it is
//! durable, and everything in it is gone with it.

mod codec;
mod file;
mod free_ranges;
mod pool;

use std::sync::{Condvar, Mutex, PoisonError};

pub use file::FileSpillSpace;
pub use pool::PoolSpillSpace;

use super::layout::RowLayout;
use super::rows::RowBlock;
use crate::{JoinError, JoinResult};

/// A range of a spill space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpillRange {
    /// Position.
    pub offset: u64,
    /// Number of bytes.
    pub len: usize,
}

/// Temporary space outside of DRAM. Threads write and read concurrently.
pub trait SpillSpace: Sync {
    /// Returns the name of the place for errors: a directory or pool.
    fn place(&self) -> String;

    /// Returns the access unit in bytes, of which ranges are multiples.
    fn unit(&self) -> usize;

    /// Writes bytes to a free range, which belongs to the caller until it is [freed](SpillSpace::free).
    ///
    /// # Errors
    /// [`JoinError::Spill`], [`JoinError::Columns`].
    fn write(&self, bytes: &[u8]) -> JoinResult<SpillRange>;

    /// Replaces `bytes` by those of a range.
    ///
    /// # Errors
    /// [`JoinError::Spill`].
    fn read(&self, range: SpillRange, bytes: &mut Vec<u8>) -> JoinResult<()>;

    /// Gives a range back.
    fn free(&self, range: SpillRange);
}

/// A block of rows in spill space, freed on drop.
pub(super) struct SpilledBlock<'s> {
    spiller: &'s Spiller<'s>,
    range: SpillRange,
    rows: usize,
}

impl SpilledBlock<'_> {
    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Reads the rows. `scratch` is any buffer.
    ///
    /// # Errors
    /// Those of the space, [`JoinError::SpillDamaged`].
    pub(super) fn read(
        &self,
        layout: &RowLayout,
        scratch: &mut Vec<u8>,
        block: &mut RowBlock,
    ) -> JoinResult<()> {
        let space = self.spiller.space;
        space.read(self.range, scratch)?;
        codec::decode(layout, self.rows, scratch, block).ok_or_else(|| JoinError::SpillDamaged {
            place: space.place(),
            offset: self.range.offset,
            bytes: self.range.len,
        })?;
        block.hash(layout);
        Ok(())
    }
}

impl Drop for SpilledBlock<'_> {
    fn drop(&mut self) {
        self.spiller.space.free(self.range);
    }
}

impl std::fmt::Debug for SpilledBlock<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpilledBlock")
            .field("range", &self.range)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

/// Writes blocks of rows, by a limited number of threads at a time.
pub(super) struct Spiller<'s> {
    space: &'s dyn SpillSpace,
    writers: Mutex<usize>,
    freed: Condvar,
}

impl<'s> Spiller<'s> {
    pub(super) fn new(space: &'s dyn SpillSpace, writers: usize) -> Spiller<'s> {
        Spiller {
            space,
            writers: Mutex::new(writers),
            freed: Condvar::new(),
        }
    }

    /// Writes rows and the bytes of their variable-length values. `scratch` is any buffer.
    ///
    /// # Errors
    /// Those of the space.
    pub(super) fn write<'a>(
        &'a self,
        layout: &RowLayout,
        (words, bytes): (&[u64], &[u8]),
        scratch: &mut Vec<u8>,
    ) -> JoinResult<SpilledBlock<'a>>
    where
        's: 'a,
    {
        codec::encode(layout, words, bytes, scratch);
        let padded = scratch.len().next_multiple_of(self.space.unit().max(1));
        scratch.resize(padded, 0);
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        while *writers == 0 {
            writers = self.freed.wait(writers).unwrap_or_else(PoisonError::into_inner);
        }
        *writers -= 1;
        drop(writers);
        let range = self.space.write(scratch);
        *self.writers.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.freed.notify_one();
        Ok(SpilledBlock {
            spiller: self,
            range: range?,
            rows: words.len() / layout.stride,
        })
    }
}
