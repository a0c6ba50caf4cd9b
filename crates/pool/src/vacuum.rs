//! Free space back to the file system: [`Pool::vacuum`].
//!
//! Invariants: only space that a writer could use at once is taken, so no reader and no superblock that may be needed
//! leads there. The file keeps its length, as others may have it mapped. Whoever has the writer's lock next reserves blocks
//! before it stores to what may have none: a full disk is an error, never the end of the process.

use std::sync::atomic::Ordering;

use halocline_media::Medium;

use crate::PoolError;
use crate::layout::VACUUMS;
use crate::mistake::{Mistake, made};
use crate::pool::Pool;

/// What [`Pool::vacuum`] has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VacuumReport {
    /// Bytes given back to the file system.
    pub punched: u64,
    /// Bytes that the file takes now.
    pub allocated: u64,
}

impl<M: Medium> Pool<M> {
    /// Gives the blocks of all space that nothing names any more back to the file system, in pieces of 2 MiB; syncs before. What snapshots, here
    /// or in other processes, still see stays. The file keeps its length, with holes in it; where the file system or medium
    /// cannot have holes, nothing happens. Takes the writer's lock for the time it needs.
    ///
    /// # Errors
    /// [`PoolError::Locked`] at once if anyone is writing, [`PoolError::ReadOnly`], [`PoolError::Media`].
    pub fn vacuum(&self) -> Result<VacuumReport, PoolError> {
        let txn = self.begin()?;
        let inner = &*self.inner;
        let medium = &*inner.medium;
        let before = medium.allocated()?;
        let generation = txn.base_generation();
        let oldest = inner.access.oldest_before(generation)?;
        if !made(Mistake::VacuumUnsynced) {
            inner.sync_newest(false)?;
        }
        if let Some(space) = &mut inner.writer().space {
            let oldest = match made(Mistake::VacuumLimbo) {
                true => u64::MAX,
                false => oldest,
            };
            let synced = match made(Mistake::VacuumUnsynced) {
                true => generation,
                false => inner.known_synced.load(Ordering::Acquire),
            };
            space.reclaim(oldest, synced);
            // Other handles must know before the first block is gone.
            let vacuums = medium.load_u64(VACUUMS).wrapping_add(1);
            medium.store_u64(VACUUMS, vacuums);
            for range in space.loosen(vacuums) {
                medium.discard(range.start, range.end - range.start)?;
            }
        }
        let allocated = medium.allocated()?;
        Ok(VacuumReport {
            punched: before.saturating_sub(allocated),
            allocated,
        })
    }
}
