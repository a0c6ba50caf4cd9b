//! Output and spill of a build in a pool's transaction.

use crate::build::output::{Output, Spill, SpillArea, WriteError};
use crate::table::cancel::CancellationToken;
use halocline_pool::{ExtentRef, ExtentWriter, FrozenScratch, ScratchExtent, Txn};
use zerocopy::{FromBytes, IntoBytes};

/// Writes an index into an extent of an estimated length. If the index turns out longer, it is written again.
pub(super) struct ExtentOutput<'t> {
    txn: &'t Txn,
    cancel: &'t CancellationToken<'t>,
    writer: Option<ExtentWriter<'t>>,
    capacity: u64,
    position: u64,
    extent: Option<ExtentRef>,
}

impl<'t> ExtentOutput<'t> {
    pub(super) fn new(
        txn: &'t Txn,
        cancel: &'t CancellationToken<'t>,
        guess: u64,
    ) -> Result<Self, WriteError> {
        Ok(Self {
            txn,
            cancel,
            writer: Some(txn.alloc(guess)?),
            capacity: guess,
            position: 0,
            extent: None,
        })
    }

    /// Returns the extent; called after the output is complete.
    pub(super) fn extent(self) -> Result<ExtentRef, WriteError> {
        self.extent.ok_or_else(|| "the extent was not completed".into())
    }

    fn store(&self, at: u64, bytes: &[u8]) {
        // Bytes that do not fit are only counted; `complete` then allocates the exact length.
        if let Some(writer) = &self.writer
            && at + bytes.len() as u64 <= self.capacity
        {
            writer.write_at(at, bytes);
        }
    }
}

impl Output for ExtentOutput<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.cancel.check()?;
        self.store(self.position, bytes);
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.store(at, bytes);
        Ok(())
    }

    fn complete(&mut self, len: u64) -> Result<bool, WriteError> {
        let fits = len <= self.capacity;
        let writer = self.writer.take().ok_or("the extent is already complete")?;
        if fits {
            self.extent = Some(writer.finish(len)?);
        } else {
            drop(writer);
            self.writer = Some(self.txn.alloc(len)?);
            (self.capacity, self.position) = (len, 0);
        }
        Ok(fits)
    }
}

/// Spills into scratch space of the pool.
pub(super) struct PoolSpill<'t> {
    pub(super) txn: &'t Txn,
    pub(super) cancel: &'t CancellationToken<'t>,
}

enum PoolSpillArea<'t> {
    Written(ScratchExtent<'t>, u64, &'t CancellationToken<'t>),
    Frozen(FrozenScratch<'t>, usize),
    Moving,
}

impl Spill for PoolSpill<'_> {
    fn area(&self, words: usize) -> Result<Box<dyn SpillArea + '_>, WriteError> {
        let scratch = self.txn.scratch(words as u64 * 8)?;
        Ok(Box::new(PoolSpillArea::Written(scratch, 0, self.cancel)))
    }
}

impl SpillArea for PoolSpillArea<'_> {
    fn append(&mut self, words: &[u64]) -> Result<(), WriteError> {
        let Self::Written(scratch, position, cancel) = self else {
            return Err("a spill area is written after it was read".into());
        };
        cancel.check()?;
        scratch.write_at(*position, words.as_bytes());
        *position += words.len() as u64 * 8;
        Ok(())
    }

    fn freeze(&mut self) {
        *self = match std::mem::replace(self, Self::Moving) {
            Self::Written(scratch, position, _) => Self::Frozen(scratch.freeze(), position as usize),
            other => other,
        };
    }

    fn words(&self) -> Result<&[u64], WriteError> {
        let Self::Frozen(scratch, len) = self else {
            return Err("a spill area is read before it was written".into());
        };
        <[u64]>::ref_from_bytes(&scratch[..*len]).map_err(|_| "a spill area is not aligned to words".into())
    }
}
