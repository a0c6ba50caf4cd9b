//! How the writer comes to space: taking over a base, allocating, reclaiming, growing.

use std::sync::atomic::Ordering;

use halocline_media::{HOLE, Medium};

use crate::PoolError;
use crate::directory::Directory;
use crate::layout::{DATA_START, Superblock, VACUUMS, blocks};
use crate::mistake::{Mistake, made};
use crate::pool::{Inner, Writer};
use crate::space::Space;
use crate::superblock::Slots;

impl<M: Medium> Inner<M> {
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
            && (space.generation(), space.vacuums()) == (generation, vacuums)
        {
            space.extend(len);
            return Ok(());
        }
        writer.space = None;
        if self.medium.fence_is_durable() {
            if superblock.is_synced() {
                // Whoever wrote these copies may have died before they were flushed.
                let synced = Slots::read(&*self.medium).sync_copy_generation();
                if !made(Mistake::TrustSuperblocks) {
                    self.medium.persist(0, DATA_START)?;
                }
                self.known_synced.fetch_max(synced, Ordering::AcqRel);
            } else {
                self.sync_newest(false)?;
            }
        } else if Slots::read(&*self.medium).sync_copy_generation() < superblock.synced_generation.get()
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
        writer.space = Some(Space::new(directory, len, vacuums));
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
        let range = offset..offset + blocks(len);
        if space.is_loose(&range) && !made(Mistake::TrustBlocks) {
            let end = range.end.next_multiple_of(HOLE).min(space.len());
            let pieces = offset / HOLE * HOLE..end;
            if let Err(error) = self.medium.reserve(pieces.start, end - pieces.start) {
                space.release(range);
                return Err(error.into());
            }
            space.fasten(pieces);
        }
        Ok(offset)
    }

    /// Free space, else what readers and superblocks have let go since, else the file grows. To let go may need a sync,
    /// which is done when it frees a good part of what growth would add.
    fn find(&self, space: &mut Space, len: u64) -> Result<u64, PoolError> {
        if let Some(offset) = space.alloc(len) {
            return Ok(offset);
        }
        let generation = space.generation();
        let oldest = match made(Mistake::IgnoreReaders) {
            true => u64::MAX,
            false => self.access.oldest_before(generation)?,
        };
        space.reclaim(oldest, self.reusable_up_to());
        if let Some(offset) = space.alloc(len) {
            return Ok(offset);
        }
        let worth = match self.medium.fence_is_durable() {
            true => 1,
            false => (space.len() / 16).max(self.geometry.worth),
        };
        if space.reclaimable(oldest, generation) >= len.max(worth) {
            self.sync_newest(false)?;
            space.reclaim(oldest, self.reusable_up_to());
            if let Some(offset) = space.alloc(len) {
                return Ok(offset);
            }
        }
        match self.grow(space, len) {
            Err(PoolError::DiskFull { .. }) if space.reclaimable(oldest, generation) >= len => {
                self.sync_newest(false)?;
                space.reclaim(oldest, self.reusable_up_to());
            }
            other => other?,
        }
        space.alloc(len).ok_or_else(|| PoolError::DiskFull {
            path: self.path.to_path_buf(),
            wanted: len,
        })
    }

    /// What generations up to this one have freed, no superblock that may still be needed names.
    pub(crate) fn reusable_up_to(&self) -> u64 {
        if made(Mistake::IgnoreSynced) {
            u64::MAX
        } else {
            self.known_synced.load(Ordering::Acquire)
        }
    }

    /// Grows the medium so that `len` bytes fit behind its present end; by more if the disk has room.
    fn grow(&self, space: &mut Space, len: u64) -> Result<(), PoolError> {
        let full = || PoolError::DiskFull {
            path: self.path.to_path_buf(),
            wanted: len,
        };
        let least = space.end_for(len).ok_or_else(full)?;
        let generous = least.max(space.len() + self.growth(space.len()));
        let generous = generous
            .checked_next_multiple_of(self.geometry.growth)
            .ok_or_else(full)?;
        match self.medium.grow(generous).map_err(PoolError::from) {
            Err(PoolError::DiskFull { .. }) => self.medium.grow(least)?,
            other => other?,
        }
        space.extend(self.medium.len());
        Ok(())
    }

    /// The step to grow by: an eighth, but not too little.
    fn growth(&self, len: u64) -> u64 {
        (len / 8).max(self.geometry.growth)
    }
}
