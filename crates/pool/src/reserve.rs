//! The reserve: space with blocks that is set aside, so that what frees space works on a full disk.
//!
//! The reserve is free space. No generation names it, so a crash while it is used leaves the space as it was:
//! unnamed before the publish, named afterwards. Its place is part of each generation's limbo list, from
//! which other handles learn it.
//!
//! Invariants: only transactions that free space ([`Txn::use_reserve`]) allocate from the reserve. All others
//! allocate only while it is complete. A vacuum does not remove its blocks. Without room it is smaller, and
//! is completed before anything else is written.

use crate::PoolError;
use crate::directory::Directory;
use crate::fault::{PoolFault, injected};
use crate::layout::blocks;
use crate::pins::PinnedRanges;
use crate::pool::PoolInner;
use crate::space::Space;
use crate::txn::Txn;

/// Maximum number of ranges of a reserve: a bound for the directory, whose length is known before the
/// reserve.
pub(crate) const RESERVE_RANGES: usize = 16;

/// The purpose of a transaction that may take the reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReserveUse {
    /// It removes objects or extents. May take all of the reserve.
    Dropping,
    /// It writes down what is deleted, which takes space until it is dropped. Leaves what is needed to drop
    /// objects, and half of the rest.
    Deleting,
}

impl Txn {
    /// Lets all further allocations of this transaction take the reserve of the pool if the disk is full. For
    /// changes that free space only: until the reserve is complete again, nothing else can be written.
    pub fn use_reserve(&self, purpose: ReserveUse) {
        self.state().reserve_use = Some(purpose);
    }
}

impl PoolInner {
    /// Returns the size of the reserve beside a generation: what a publish needs that removes objects, twice,
    /// because the space of the generation before is reused only after that. It writes a directory and, in
    /// place of the logs, others with their records.
    pub(crate) fn reserve_for(&self, directory: &Directory) -> u64 {
        match self.geometry.reserve {
            0 => 0,
            least => {
                let logs: u64 = directory.logs().map(|log| log.len).sum();
                least + 2 * blocks(directory.extent.len) + logs
            }
        }
    }

    /// Completes the reserve.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`]: it has all free blocks there are. Errors of the medium.
    pub(crate) fn fill_reserve(&self, space: &mut Space) -> Result<(), PoolError> {
        let missing = space.missing_reserve();
        if missing == 0 {
            return self.back_reserve(space);
        }
        if injected(PoolFault::ReserveFromLimbo) {
            space.reclaim(&PinnedRanges::default(), u64::MAX);
        }
        // In one piece if that is possible, as it may have been used in parts.
        space.release_reserve();
        let wanted = space.wanted_reserve();
        match self
            .find(space, wanted)
            .and_then(|offset| self.give_blocks(space, offset..offset + wanted).map(|()| offset))
        {
            Ok(offset) => {
                space.set_aside(offset..offset + wanted);
                Ok(())
            }
            Err(PoolError::DiskFull { .. }) => self.gather_reserve(space),
            Err(error) => Err(error),
        }
    }

    /// Allocates the blocks of a reserve that may lack them, as in a copy of the file.
    fn back_reserve(&self, space: &mut Space) -> Result<(), PoolError> {
        for range in space.loose_reserve() {
            match self.back(space, &range) {
                Err(PoolError::DiskFull { .. }) => return self.gather_reserve(space),
                other => other?,
            }
        }
        Ok(())
    }

    /// Sets free space aside until the reserve is complete, the longest ranges with blocks first.
    fn gather_reserve(&self, space: &mut Space) -> Result<(), PoolError> {
        space.release_reserve();
        for range in space.longest_free() {
            let missing = space.missing_reserve();
            if missing == 0 || space.reserve_pieces() == RESERVE_RANGES {
                break;
            }
            let range = range.start..range.end.min(range.start + missing);
            if !space.take(&range) {
                continue;
            }
            match self.give_blocks(space, range.clone()) {
                Ok(()) => space.set_aside(range),
                Err(PoolError::DiskFull { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        match space.missing_reserve() {
            0 => Ok(()),
            missing => Err(PoolError::DiskFull {
                path: self.path.to_path_buf(),
                wanted: missing,
            }),
        }
    }

    /// Completes the reserve when a transaction begins, if there is room. Not tried twice for a generation.
    ///
    /// # Errors
    /// Errors of the medium.
    pub(crate) fn try_fill_reserve(&self, space: &mut Space) -> Result<(), PoolError> {
        if !space.begin_filling() {
            return Ok(());
        }
        match self.fill_reserve(space) {
            Err(PoolError::DiskFull { .. }) => Ok(()),
            other => other,
        }
    }

    /// Allocates `len` bytes for a change that frees space: from the reserve if there is no other space.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`]: it needs more than the reserve. Errors of the medium.
    pub(crate) fn allocate_freeing(
        &self,
        space: &mut Space,
        len: u64,
        purpose: ReserveUse,
    ) -> Result<u64, PoolError> {
        let found = self.find(space, len);
        let found = found.and_then(|offset| {
            self.give_blocks(space, offset..offset + blocks(len))?;
            Ok(offset)
        });
        let full = match found {
            Err(full @ PoolError::DiskFull { .. }) => full,
            other => return other,
        };
        let left = match purpose {
            ReserveUse::Dropping => 0,
            ReserveUse::Deleting => space.wanted_reserve() - self.geometry.reserve / 2,
        };
        if space.reserve_bytes() < blocks(len) + left {
            return Err(full);
        }
        let Some(offset) = space.take_reserved(len) else {
            return Err(full);
        };
        let range = offset..offset + blocks(len);
        self.give_blocks(space, range).map_err(|error| match error {
            PoolError::DiskFull { .. } => full,
            other => other,
        })?;
        Ok(offset)
    }
}
