//! How the writer comes to space: taking over a base, allocating, reclaiming, growing.
//!
//! Freed space waits in limbo until no reader pins a generation that names it and no superblock needs it.
//! When the free space is used up, limbo is reclaimed, if necessary by a sync, before the file grows; it
//! grows by what is needed, rounded up to 4 MiB. Small extents take the best fit, large ones a multiple of 2
//! MiB if there is one. So the file stays below twice what the newest and the pinned generations name.

use std::ops::Range;
use std::sync::atomic::Ordering;

use halocline_media::HOLE;

use crate::PoolError;
use crate::directory::Directory;
use crate::layout::{DATA_START, Superblock, VACUUMS, blocks};
use crate::mistake::{Mistake, made};
use crate::pins::Pins;
use crate::pool::{Inner, Writer};
use crate::space::Space;
use crate::superblock::Slots;

impl Inner {
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
            return Ok(());
        }
        if self.medium.fence_is_durable() {
            if superblock.is_synced() {
                // Whoever wrote these copies may have died before they were flushed.
                let synced = Slots::read(&self.medium).sync_copy_generation();
                if !made(Mistake::TrustSuperblocks) {
                    self.medium.persist(0, DATA_START)?;
                }
                self.known_synced.fetch_max(synced, Ordering::AcqRel);
            } else {
                self.sync_newest(false)?;
            }
        } else if Slots::read(&self.medium).sync_copy_generation() < superblock.synced_generation.get()
            && !made(Mistake::SkipSyncedBase)
        {
            // The base was published with durable fences. Power loss must not cost it, so it needs a synced superblock
            // before publishes that can tear overwrite its own.
            self.sync_newest(false)?;
        }
        for log in directory.logs() {
            // In a copy of the file there may be holes where nothing was appended yet.
            self.medium.reserve(log.offset, log.len)?;
        }
        let mut space = Space::new(directory, len, vacuums);
        if let Some(before) = &writer.space
            && !made(Mistake::ForgetUnpublished)
        {
            space.keep_unpublished(before);
        }
        writer.space = Some(space);
        if let Some(list) = &directory.limbo {
            // Whoever wrote the list had made sure of it before.
            self.known_synced.fetch_max(list.synced, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Finds space for `len` bytes, not 0, and makes sure that there are blocks.
    pub(crate) fn allocate(&self, len: u64) -> Result<u64, PoolError> {
        let mut writer = self.writer();
        let Writer {
            space: Some(space), ..
        } = &mut *writer
        else {
            return Err(PoolError::Locked {
                path: self.path.to_path_buf(),
                pid: None,
            });
        };
        let offset = self.find(space, len)?;
        self.give_blocks(space, offset..offset + blocks(len))?;
        Ok(offset)
    }

    /// Takes a range of free space, in whole blocks, and makes sure that there are blocks; false if it is not all free.
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

    /// Makes sure that a range that was just taken has blocks, or releases it.
    fn give_blocks(&self, space: &mut Space, range: Range<u64>) -> Result<(), PoolError> {
        if space.is_loose(&range) && !made(Mistake::TrustBlocks) {
            let end = range.end.next_multiple_of(HOLE).min(space.len());
            let pieces = range.start / HOLE * HOLE..end;
            if let Err(error) = self.medium.reserve(pieces.start, end - pieces.start) {
                space.release(range);
                return Err(error.into());
            }
            space.fasten(pieces);
        }
        Ok(())
    }

    /// Free space, else what readers and superblocks have let go since, else the file grows. To let go may need a sync,
    /// which is done rather than to let the file grow with a good part of it waiting for one.
    fn find(&self, space: &mut Space, len: u64) -> Result<u64, PoolError> {
        if let Some(offset) = space.alloc(len) {
            return Ok(offset);
        }
        let generation = space.generation();
        let pins = Pins::before(&self.access, generation)?;
        space.reclaim(&pins, self.reusable_up_to());
        if let Some(offset) = space.alloc(len) {
            return Ok(offset);
        }
        let worth = match self.medium.fence_is_durable() {
            true => 1,
            false => (space.len() / 16).max(self.geometry.worth),
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

    /// What generations up to this one have freed, no superblock that may still be needed names.
    pub(crate) fn reusable_up_to(&self) -> u64 {
        if made(Mistake::IgnoreSynced) {
            u64::MAX
        } else {
            self.known_synced.load(Ordering::Acquire)
        }
    }

    /// Before a publish: frees what nobody needs any more, so that its limbo list is short; returns who reads what. A list
    /// that waits for a sync gets one before it is long.
    pub(crate) fn tidy(&self) -> Result<Pins, PoolError> {
        const LONG: usize = 1000;
        let mut writer = self.writer();
        let Some(space) = &mut writer.space else {
            return Ok(Pins::default());
        };
        let generation = space.generation();
        let pins = Pins::before(&self.access, generation)?;
        space.reclaim(&pins, self.reusable_up_to());
        if space.reclaimable(&pins, generation).1 >= LONG {
            self.sync_newest(false)?;
            space.reclaim(&pins, self.reusable_up_to());
        }
        Ok(pins)
    }

    /// Grows the medium so that `len` bytes fit behind all that is taken; by a little more if the disk has room.
    fn grow(&self, space: &mut Space, len: u64) -> Result<(), PoolError> {
        let full = || PoolError::DiskFull {
            path: self.path.to_path_buf(),
            wanted: len,
        };
        let least = space.end_for(len).ok_or_else(full)?;
        // Some room is left for small things that follow, such as the directory of a publish that frees more.
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
