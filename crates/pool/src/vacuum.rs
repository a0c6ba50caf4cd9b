//! Free space back to the file system: [`Pool::vacuum`], [`Pool::give_back`].
//!
//! Invariants: only space that a writer could use at once is taken, so no reader and no superblock that may be needed
//! leads there. The file is shortened only while no other handle has it open, which could have the end of it mapped,
//! and after its superblocks say that it is shorter. Whoever has the writer's lock next reserves blocks before it
//! stores to what may have none: a full disk is an error, never the end of the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::PoolError;
use crate::layout::{HUGE, Superblock, VACUUMS};
use crate::mistake::{Mistake, made};
use crate::pins::PinnedRanges;
use crate::pool::{PoolInner, Pool};
use crate::superblock::{SuperblockCopies, read_newest};
use crate::txn::Txn;

/// The effect of a [`Pool::vacuum`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VacuumReport {
    /// Bytes given back to the file system.
    pub punched: u64,
    /// Bytes that the file takes now.
    pub allocated: u64,
    /// Length of the file before, in bytes.
    pub len_before: u64,
    /// Its length now.
    pub len: u64,
    /// True if the file keeps its length because another handle has it open.
    pub shared: bool,
    /// The generation before and after, if extents were moved towards the start of the file: the objects and the
    /// records of logs are the same in both.
    pub moved: Option<(u64, u64)>,
}

impl Pool {
    /// Gives the blocks of all space that nothing names any more back to the file system, in pieces of 2 MiB; syncs
    /// before. What snapshots, here or in other processes, still see stays. If no other handle has the file open,
    /// extents at its end move into free space before them, and the file is shortened; else it keeps its length, with
    /// holes in it. Where the file system or medium can have no holes and no other length, nothing happens. Takes the
    /// writer's lock for the time it needs.
    ///
    /// # Errors
    /// [`PoolError::Locked`] at once if anyone is writing, [`PoolError::ReadOnly`], [`PoolError::Media`].
    pub fn vacuum(&self) -> Result<VacuumReport, PoolError> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        self.vacuum_wait(Duration::ZERO, &NEVER)
    }

    /// As [`vacuum`](Pool::vacuum), but waits up to `timeout` for another writer. Setting `cancel` ends the moving of
    /// extents; the rest takes about as long as a sync.
    ///
    /// # Errors
    /// As [`vacuum`](Pool::vacuum).
    pub fn vacuum_wait(&self, timeout: Duration, cancel: &AtomicBool) -> Result<VacuumReport, PoolError> {
        let txn = self.begin_wait(timeout)?;
        let inner = &*self.inner;
        let before = (inner.medium.allocated()?, inner.medium.len());
        inner.reclaim_all(txn.base_generation())?;
        let mut moved = None;
        let txn = if inner.access.try_alone()?.is_some() && txn.relocate(cancel)? {
            let from = txn.base_generation();
            moved = Some((from, txn.commit()?));
            self.begin_wait(timeout)?
        } else {
            // What it has read may be what it is to give back.
            drop(txn);
            self.begin_wait(timeout)?
        };
        let report = inner.give_back(&txn, before)?;
        Ok(VacuumReport { moved, ..report })
    }

    /// As [`vacuum`](Pool::vacuum), but moves nothing: the file is shortened as far as its end is free.
    ///
    /// # Errors
    /// As [`vacuum`](Pool::vacuum).
    pub fn give_back(&self) -> Result<VacuumReport, PoolError> {
        let txn = self.begin()?;
        let medium = &self.inner.medium;
        let before = (medium.allocated()?, medium.len());
        self.inner.give_back(&txn, before)
    }

    /// Returns how many bytes of free space take up blocks of the file, as far as this handle knows from its last
    /// transaction; 0 if it has had none.
    pub fn free_with_blocks(&self) -> u64 {
        let writer = self.inner.writer();
        writer.space.as_ref().map_or(0, |space| space.free_with_blocks())
    }
}

impl PoolInner {
    /// Frees all that neither a reader nor, after a sync, a superblock needs.
    fn reclaim_all(&self, generation: u64) -> Result<(), PoolError> {
        if !made(Mistake::VacuumUnsynced) {
            self.sync_newest(false)?;
        }
        let pins = match made(Mistake::VacuumLimbo) {
            true => PinnedRanges::default(),
            false => PinnedRanges::before(&self.access, generation)?,
        };
        let synced = match made(Mistake::VacuumUnsynced) {
            true => generation,
            false => self.known_synced.load(Ordering::Acquire),
        };
        if let Some(space) = &mut self.writer().space {
            space.reclaim(&pins, synced);
        }
        Ok(())
    }

    /// Shortens the file and punches holes into it; `before` are the bytes it took and its length.
    fn give_back(&self, txn: &Txn, before: (u64, u64)) -> Result<VacuumReport, PoolError> {
        self.reclaim_all(txn.base_generation())?;
        let medium = &self.medium;
        let shared = !self.shorten()?;
        if let Some(space) = &mut self.writer().space {
            // Other handles must know before the first block is gone.
            let vacuums = medium.load_u64(VACUUMS).wrapping_add(1);
            medium.store_u64(VACUUMS, vacuums);
            for range in space.loosen(vacuums) {
                medium.discard(range.start, range.end - range.start)?;
            }
        }
        let allocated = medium.allocated()?;
        Ok(VacuumReport {
            punched: before.0.saturating_sub(allocated),
            allocated,
            len_before: before.1,
            len: medium.len(),
            shared,
            moved: None,
        })
    }

    /// Shortens the file as far as its end is free; returns false if another handle has it open. The newest generation
    /// is synced.
    fn shorten(&self) -> Result<bool, PoolError> {
        let Some(_alone) = self.access.try_alone()? else {
            return Ok(false);
        };
        let mut writer = self.writer();
        let Some(space) = &mut writer.space else {
            return Ok(true);
        };
        let end = space
            .used_end()
            .next_multiple_of(HUGE.min(self.geometry.growth))
            .max(self.geometry.initial_len);
        if end >= space.len() {
            return Ok(true);
        }
        let _sync = self.access.lock_sync()?;
        let newest = read_newest(&self.medium, &self.path)?;
        if made(Mistake::ShortenFirst) {
            self.medium.truncate(end)?;
        }
        self.store_len(newest, end)?;
        let len = self.medium.truncate(end)?;
        if len < space.len() {
            space.shrink(len);
        }
        Ok(true)
    }

    /// Has both copies that syncs write say that the file ends at `len`, durably; the newest generation is synced. They
    /// count before longer ones of the same generation.
    fn store_len(&self, mut superblock: Superblock, len: u64) -> Result<(), PoolError> {
        let medium = &self.medium;
        superblock.file_len = len.into();
        superblock.synced_generation = superblock.generation;
        superblock.boot_id = self.boot_id;
        let older = SuperblockCopies::read(medium).sync_target();
        // One after the other: a crash may tear the one that is being written, and the next vacuum overwrites one of
        // them.
        for slot in [older, older ^ 1] {
            superblock.write(medium, slot);
            medium.fence()?;
            if !medium.fence_is_durable() {
                medium.sync()?;
            }
        }
        Ok(())
    }
}
