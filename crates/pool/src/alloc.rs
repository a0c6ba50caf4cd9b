//! Space management of the writer: adopting a base generation, allocating, reclaiming, growing.
//!
//! Freed space waits in limbo until no reader pins a generation that names it and no superblock needs it.
//! When the free space is used up, limbo is reclaimed, if necessary by a sync, before the file grows. It
//! grows by the required size, rounded up to 4 MiB. Small extents take the best fit, large ones start at a
//! multiple of 2 MiB if possible. So the file stays below twice the size of what the newest and the pinned
//! generations name. Nothing is allocated before the [reserve](crate::reserve) is complete, except by changes
//! that free space.

use std::ops::Range;
use std::sync::atomic::Ordering;

use halocline_media::HOLE;

use crate::PoolError;
use crate::directory::Directory;
use crate::fault::{PoolFault, injected};
use crate::layout::{DATA_START, Superblock, VACUUMS, blocks};
use crate::pins::PinnedRanges;
use crate::pool::{PoolInner, WriterState};
use crate::reserve::ReserveUse;
use crate::space::Space;
use crate::superblock::SuperblockCopies;

impl PoolInner {
    /// Prepares for writing on a base that another handle may have published.
    pub(crate) fn adopt(
        &self,
        superblock: &Superblock,
        directory: &Directory,
        len: u64,
    ) -> Result<(), PoolError> {
        let generation = superblock.generation.get();
        let mut writer = self.writer();
        let vacuums = self.medium.load_u64(VACUUMS);
        if let Some(space) = &mut writer.space
            && space.is_of(generation, vacuums)
        {
            space.extend(len);
            return self.try_fill_reserve(space);
        }
        if self.medium.fence_is_durable() {
            if superblock.is_synced() {
                // The writer of these copies may have died before they were flushed.
                let synced = SuperblockCopies::read(&self.medium).sync_copy_generation();
                if !injected(PoolFault::TrustSuperblocks) {
                    self.medium.persist(0, DATA_START)?;
                }
                self.known_synced.fetch_max(synced, Ordering::AcqRel);
            } else {
                self.sync_newest(false)?;
            }
        } else if SuperblockCopies::read(&self.medium).sync_copy_generation()
            < superblock.synced_generation.get()
            && !injected(PoolFault::SkipSyncedBase)
        {
            // The base was published with durable fences. To survive power loss it needs a synced superblock
            // before a publish that can tear overwrites its own.
            self.sync_newest(false)?;
        }
        for log in directory.logs() {
            // A copy of the file may have holes in the part of the log that was never appended to.
            self.medium.reserve(log.offset, log.len)?;
        }
        let mut space = Space::new(directory, len, vacuums);
        if let Some(before) = &writer.space
            && !injected(PoolFault::ForgetUnpublished)
        {
            space.keep_unpublished(before);
        }
        space.want_reserve(self.reserve_for(directory));
        if let Some(list) = &directory.limbo {
            // The writer of the list had verified this generation to be synced.
            self.known_synced.fetch_max(list.synced, Ordering::AcqRel);
        }
        self.try_fill_reserve(writer.space.insert(space))
    }

    /// Allocates `len` bytes (not 0) with blocks, from the reserve only for a change that frees space.
    pub(crate) fn allocate(&self, len: u64, purpose: Option<ReserveUse>) -> Result<u64, PoolError> {
        let mut writer = self.writer();
        let WriterState {
            space: Some(space), ..
        } = &mut *writer
        else {
            return Err(PoolError::Locked {
                path: self.path.to_path_buf(),
                pid: None,
            });
        };
        if let Some(purpose) = purpose {
            return self.allocate_freeing(space, len, purpose);
        }
        if injected(PoolFault::SpendReserve) {
            space.release_reserve();
        } else {
            self.fill_reserve(space)?;
        }
        let offset = self.find(space, len)?;
        self.give_blocks(space, offset..offset + blocks(len))?;
        Ok(offset)
    }

    /// Allocates a range of free space, in whole blocks with backing blocks. Returns false if it is not
    /// entirely free.
    pub(crate) fn allocate_at(&self, range: Range<u64>) -> Result<bool, PoolError> {
        let mut writer = self.writer();
        let Some(space) = &mut writer.space else {
            return Ok(false);
        };
        if !space.take(&range) {
            return Ok(false);
        }
        self.give_blocks(space, range)?;
        Ok(true)
    }

    /// Allocates the blocks of a range that was just taken, or releases the range.
    pub(crate) fn give_blocks(&self, space: &mut Space, range: Range<u64>) -> Result<(), PoolError> {
        self.back(space, &range).inspect_err(|_| space.release(range))
    }

    /// Allocates the blocks of a range that may lack them.
    pub(crate) fn back(&self, space: &mut Space, range: &Range<u64>) -> Result<(), PoolError> {
        if space.is_loose(range) && !injected(PoolFault::TrustBlocks) {
            let end = range.end.next_multiple_of(HOLE).min(space.len());
            let pieces = range.start / HOLE * HOLE..end;
            self.medium.reserve(pieces.start, end - pieces.start)?;
            space.fasten(pieces);
        }
        Ok(())
    }

    /// Finds space: free space first, then space that readers and superblocks have released since, then by
    /// growing the file. Reclaiming may need a sync, which is preferred to growing while a good part of
    /// the file waits for one.
    pub(crate) fn find(&self, space: &mut Space, len: u64) -> Result<u64, PoolError> {
        if let Some(offset) = space.alloc(len) {
            return Ok(offset);
        }
        let generation = space.generation();
        let pins = PinnedRanges::before(&self.access, generation)?;
        space.reclaim(&pins, self.reusable_up_to());
        if let Some(offset) = space.alloc(len) {
            return Ok(offset);
        }
        let worth = if self.medium.fence_is_durable() {
            1
        } else {
            (space.len() / 16).max(self.geometry.worth)
        };
        if space.reclaimable(&pins, generation).0 >= worth && space.helped(len, &pins, generation) >= worth {
            self.sync_newest(false)?;
            space.reclaim(&pins, self.reusable_up_to());
            if let Some(offset) = space.alloc(len) {
                return Ok(offset);
            }
        }
        let full = match self.grow(space, len) {
            Ok(()) => PoolError::DiskFull {
                path: self.path.to_path_buf(),
                wanted: len,
            },
            Err(full @ PoolError::DiskFull { .. }) if space.reclaimable(&pins, generation).0 > 0 => {
                self.sync_newest(false)?;
                space.reclaim(&pins, self.reusable_up_to());
                full
            }
            Err(error) => return Err(error),
        };
        space.alloc(len).ok_or(full)
    }

    /// Returns the generation up to which freed space is named by no superblock that may still be needed.
    pub(crate) fn reusable_up_to(&self) -> u64 {
        if injected(PoolFault::IgnoreSynced) {
            u64::MAX
        } else {
            self.known_synced.load(Ordering::Acquire)
        }
    }

    /// Reclaims space before a publish to keep its limbo list short, and returns the pinned generations.
    /// Syncs if the list that waits for it has become long.
    pub(crate) fn tidy(&self) -> Result<PinnedRanges, PoolError> {
        const LONG_LIST: usize = 1000;
        let mut writer = self.writer();
        let Some(space) = &mut writer.space else {
            return Ok(PinnedRanges::default());
        };
        let generation = space.generation();
        let pins = PinnedRanges::before(&self.access, generation)?;
        space.reclaim(&pins, self.reusable_up_to());
        if space.reclaimable(&pins, generation).1 >= LONG_LIST {
            self.sync_newest(false)?;
            space.reclaim(&pins, self.reusable_up_to());
        }
        Ok(pins)
    }

    /// Grows the medium so that `len` bytes fit after the used end, and by a little more if the disk has
    /// room.
    fn grow(&self, space: &mut Space, len: u64) -> Result<(), PoolError> {
        let full = || PoolError::DiskFull {
            path: self.path.to_path_buf(),
            wanted: len,
        };
        let least = space.end_for(len).ok_or_else(full)?;
        // Leave room for small allocations that follow, such as the directory of a publish that frees more.
        let generous = least
            .checked_add(self.geometry.growth / 4)
            .and_then(|len| len.checked_next_multiple_of(self.geometry.growth))
            .ok_or_else(full)?;
        match self.medium.grow(generous).map_err(PoolError::from) {
            Err(PoolError::DiskFull { .. }) => {
                let grown = self.medium.grow(least).map_err(PoolError::from);
                grown.map_err(|error| match error {
                    PoolError::DiskFull { path, .. } => PoolError::DiskFull { path, wanted: len },
                    other => other,
                })?;
            }
            other => other?,
        }
        space.extend(self.medium.len());
        Ok(())
    }
}
