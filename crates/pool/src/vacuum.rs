//! Return of free space to the file system: [`Pool::vacuum`], [`Pool::give_back`].
//!
//! Invariants: only space that a writer could use immediately is taken, so no reader and no superblock that
//! may be needed refers to it. The file is shortened only while no other handle has it open, because that
//! could have its end mapped, and after its superblocks contain the shorter length. The blocks of the reserve
//! stay, where it is and where the newest generation says that it is. The next holder of the
//! writer's lock allocates blocks before it stores to space that may lack them, so that a full disk is an
//! error and never kills the process.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::PoolError;
use crate::fault::{PoolFault, injected};
use crate::free_map::FreeMap;
use crate::layout::{HUGE, Superblock, VACUUMS};
use crate::pins::PinnedRanges;
use crate::pool::{Pool, PoolInner};
use crate::reserve::ReserveUse;
use crate::superblock::{SuperblockCopies, read_newest};
use crate::txn::Txn;

/// The effect of a [`Pool::vacuum`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VacuumReport {
    /// Bytes returned to the file system.
    pub punched: u64,
    /// Bytes that the file occupies now.
    pub allocated: u64,
    /// Length of the file before, in bytes.
    pub len_before: u64,
    /// Length of the file now, in bytes.
    pub len: u64,
    /// True if the file keeps its length because another handle has it open.
    pub shared: bool,
    /// The generations before and after, if extents were moved towards the start of the file. The objects
    /// and the log records are the same in both.
    pub moved: Option<(u64, u64)>,
}

impl Pool {
    /// Returns the blocks of all unused space to the file system, in units of 2 MiB, after a sync. Space that
    /// snapshots still use, here or in other processes, stays. If no other handle has the file open,
    /// extents at its end move into free space before them and the file is shortened; otherwise it keeps
    /// its length, with holes. Does nothing where the file system or medium supports neither holes nor
    /// truncation. Holds the writer's lock meanwhile.
    ///
    /// # Errors
    /// [`PoolError::Locked`] immediately if anyone is writing, [`PoolError::ReadOnly`], [`PoolError::Media`].
    pub fn vacuum(&self) -> Result<VacuumReport, PoolError> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        self.vacuum_wait(Duration::ZERO, &NEVER)
    }

    /// Vacuums like [`vacuum`](Pool::vacuum), but waits up to `timeout` for another writer. Setting `cancel`
    /// stops the relocation of extents; the rest takes about as long as a sync.
    ///
    /// # Errors
    /// Fails like [`vacuum`](Pool::vacuum).
    pub fn vacuum_wait(&self, timeout: Duration, cancel: &AtomicBool) -> Result<VacuumReport, PoolError> {
        let txn = self.begin_wait(timeout)?;
        let inner = &*self.inner;
        let before = (inner.medium.allocated()?, inner.medium.len());
        inner.reclaim_all(txn.base_generation())?;
        let mut moved = None;
        txn.use_reserve(ReserveUse::Dropping);
        let relocates = inner.access.try_alone()?.is_some()
            && match txn.relocate(cancel) {
                // What cannot be moved stays.
                Err(PoolError::DiskFull { .. }) => false,
                other => other?,
            };
        let txn = if relocates {
            let from = txn.base_generation();
            moved = Some((from, txn.commit()?));
            self.begin_wait(timeout)?
        } else {
            // End the transaction first: its pin would protect space that can be returned.
            drop(txn);
            self.begin_wait(timeout)?
        };
        let report = inner.give_back(&txn, before)?;
        Ok(VacuumReport { moved, ..report })
    }

    /// Vacuums like [`vacuum`](Pool::vacuum) without relocating extents: the file is shortened only as far as
    /// its end is free.
    ///
    /// # Errors
    /// Fails like [`vacuum`](Pool::vacuum).
    pub fn give_back(&self) -> Result<VacuumReport, PoolError> {
        let txn = self.begin()?;
        let medium = &self.inner.medium;
        let before = (medium.allocated()?, medium.len());
        self.inner.give_back(&txn, before)
    }

    /// Returns the number of free bytes that occupy blocks of the file, as known from this handle's last
    /// transaction; 0 if it has had none.
    pub fn free_with_blocks(&self) -> u64 {
        let writer = self.inner.writer();
        writer.space.as_ref().map_or(0, |space| space.free_with_blocks())
    }
}

impl PoolInner {
    /// Frees everything that neither a reader nor, after a sync, a superblock needs.
    fn reclaim_all(&self, generation: u64) -> Result<(), PoolError> {
        if !injected(PoolFault::VacuumUnsynced) {
            self.sync_newest(false)?;
        }
        let pins = if injected(PoolFault::VacuumLimbo) {
            PinnedRanges::default()
        } else {
            PinnedRanges::before(&self.access, generation)?
        };
        let synced = if injected(PoolFault::VacuumUnsynced) {
            generation
        } else {
            self.known_synced.load(Ordering::Acquire)
        };
        if let Some(space) = &mut self.writer().space {
            space.reclaim(&pins, synced);
        }
        Ok(())
    }

    /// Shortens the file and punches holes into it; `before` is its allocated size and its length.
    fn give_back(&self, txn: &Txn, before: (u64, u64)) -> Result<VacuumReport, PoolError> {
        self.reclaim_all(txn.base_generation())?;
        let medium = &self.medium;
        let listed = txn.base().directory().limbo.as_ref();
        let listed = listed.map_or(&[][..], |list| &list.reserve);
        let shared = !self.shorten(listed)?;
        if let Some(space) = &mut self.writer().space {
            // Other handles must learn of the vacuum before the first block is gone.
            let vacuums = medium.load_u64(VACUUMS).wrapping_add(1);
            medium.store_u64(VACUUMS, vacuums);
            if injected(PoolFault::VacuumReserve) {
                space.release_reserve();
            }
            let mut gone = FreeMap::from_ranges(space.loosen(vacuums));
            if !injected(PoolFault::VacuumReserve) {
                listed.iter().for_each(|range| gone.remove(range.clone()));
            }
            for range in gone.iter() {
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

    /// Shortens the file as far as its end is free; returns false if another handle has it open. The newest
    /// generation must be synced. Keeps the reserve that it lists.
    fn shorten(&self, listed: &[Range<u64>]) -> Result<bool, PoolError> {
        let Some(_alone) = self.access.try_alone()? else {
            return Ok(false);
        };
        let mut writer = self.writer();
        let Some(space) = &mut writer.space else {
            return Ok(true);
        };
        let listed = listed.iter().map(|range| range.end).max().unwrap_or(0);
        let end = space
            .used_end()
            .max(listed)
            .next_multiple_of(HUGE.min(self.geometry.growth))
            .max(self.geometry.initial_len);
        if end >= space.len() {
            self.medium.truncate(space.len())?;
            return Ok(true);
        }
        let _sync = self.access.lock_sync()?;
        let newest = read_newest(&self.medium, &self.path)?;
        if injected(PoolFault::ShortenFirst) {
            self.medium.truncate(end)?;
        }
        // The superblocks first: one that names a longer file than there is counts as truncated.
        self.store_len(newest, end)?;
        let len = self.medium.truncate(end)?;
        if len < space.len() {
            space.shrink(len);
        }
        Ok(true)
    }

    /// Stores the length `len` durably in both sync copies; the newest generation must be synced. They take
    /// precedence over longer ones of the same generation.
    fn store_len(&self, mut superblock: Superblock, len: u64) -> Result<(), PoolError> {
        let medium = &self.medium;
        superblock.file_len = len.into();
        superblock.synced_generation = superblock.generation;
        superblock.boot_id = self.boot_id;
        let older = SuperblockCopies::read(medium).sync_target();
        // Write one after the other: a crash may tear the one being written, and the next vacuum overwrites
        // one of them.
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
