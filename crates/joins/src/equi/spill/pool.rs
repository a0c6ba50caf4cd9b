//! Spill space in a pool: temporary extents of a transaction.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use halocline_pool::{ScratchExtent, Txn};

use super::free_ranges::FreeRanges;
use super::{SpillRange, SpillSpace};
use crate::JoinResult;

/// Bytes of the first extent; each further one is twice as long, six times.
const EXTENT: u64 = 1 << 20;

/// Ranges are multiples of the largest access unit of byte-addressable media.
const UNIT: usize = 256;

/// Temporary space in a pool, on the pool's medium. It is released with the transaction, and not published,
/// so that a crash releases it, too. Long blocks bypass the CPU caches, and others are written back.
///
/// The transaction keeps other writers of the pool waiting; a query that only reads spills to a
/// [file](super::FileSpillSpace) instead.
pub struct PoolSpillSpace<'t> {
    txn: &'t Txn,
    place: String,
    state: Mutex<PoolState<'t>>,
}

#[derive(Default)]
struct PoolState<'t> {
    /// Extents and their first offsets.
    extents: Vec<(u64, std::sync::Arc<ScratchExtent<'t>>)>,
    end: u64,
    free: FreeRanges,
}

impl<'t> PoolSpillSpace<'t> {
    /// Creates spill space in the pool of a transaction; `place` names it in errors.
    pub fn new(txn: &'t Txn, place: impl Into<String>) -> PoolSpillSpace<'t> {
        PoolSpillSpace {
            txn,
            place: place.into(),
            state: Mutex::default(),
        }
    }

    /// Returns the number of bytes allocated in the pool.
    pub fn allocated(&self) -> u64 {
        let state = self.state();
        state.extents.iter().map(|(_, extent)| extent.len()).sum()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, PoolState<'t>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'t> PoolState<'t> {
    /// Returns the extent of a range, and the offset there.
    fn extent(&self, offset: u64) -> Option<(std::sync::Arc<ScratchExtent<'t>>, u64)> {
        let at = self.extents.partition_point(|(first, _)| *first <= offset);
        let (first, extent) = self.extents.get(at.checked_sub(1)?)?;
        Some((extent.clone(), offset - first))
    }
}

impl SpillSpace for PoolSpillSpace<'_> {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn unit(&self) -> usize {
        UNIT
    }

    fn write(&self, bytes: &[u8]) -> JoinResult<SpillRange> {
        let len = bytes.len() as u64;
        let mut state = self.state();
        let offset = match state.free.take(len) {
            Some(offset) => offset,
            None => {
                let size = len.max(EXTENT << state.extents.len().min(6));
                let extent = self.txn.scratch(size)?;
                // A gap between extents, so that no free range spans two of them.
                let offset = state.end;
                state.end = offset + size + 1;
                state.extents.push((offset, extent.into()));
                state.free.add(offset + len, size - len);
                offset
            }
        };
        let extent = state.extent(offset);
        drop(state);
        if let Some((extent, at)) = extent {
            extent.write_through_at(at, bytes);
        }
        Ok(SpillRange {
            offset,
            len: bytes.len(),
        })
    }

    fn read(&self, range: SpillRange, bytes: &mut Vec<u8>) -> JoinResult<()> {
        let extent = self.state().extent(range.offset);
        bytes.resize(range.len, 0);
        if let Some((extent, at)) = extent {
            extent.read_at(at, bytes);
        }
        Ok(())
    }

    fn free(&self, range: SpillRange) {
        self.state().free.add(range.offset, range.len as u64);
    }
}

impl fmt::Debug for PoolSpillSpace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolSpill")
            .field("place", &self.place)
            .field("allocated", &self.allocated())
            .finish_non_exhaustive()
    }
}
