//! State that all generations share: the slabs, the walk over the nodes in use, and the locks of hashes; and
//! [`LinkSteps`], which ends where links lead in a circle.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use halocline_media::Medium;
use halocline_pool::Pool;

use super::record::{self, ItemRecordHead};
use super::slabs::RecordSlabs;
use super::usage::RecordWalk;
use crate::error::MemcachedError;

/// Number of locks of hashes.
const STRIPES: usize = 1024;

/// The steps along the links of a hash.
#[derive(Debug, Default)]
pub(super) struct LinkSteps {
    count: u64,
    /// The offset of the record after the last number of steps that is a power of two.
    seen: u64,
}

impl LinkSteps {
    /// Notes a step to the record at an offset.
    ///
    /// # Errors
    /// A description of the damage: links lead in a circle. No later than after three rounds.
    pub(super) fn step(&mut self, offset: u64) -> std::result::Result<(), &'static str> {
        self.count += 1;
        if offset == self.seen {
            return Err("its links lead in a circle");
        }
        if self.count.is_power_of_two() {
            self.seen = offset;
        }
        Ok(())
    }
}

/// State that all generations share.
pub(super) struct SharedRecords {
    pub(super) pool: Pool,
    pub(super) slabs: RecordSlabs,
    pub(super) hash: fn(&[u8]) -> u64,
    pub(super) walk: RecordWalk,
    stripes: Box<[RwLock<()>]>,
}

impl SharedRecords {
    pub(super) fn new(pool: Pool, slabs: RecordSlabs, hash: fn(&[u8]) -> u64) -> SharedRecords {
        SharedRecords {
            pool,
            slabs,
            hash,
            walk: RecordWalk::default(),
            stripes: (0..STRIPES).map(|_| RwLock::new(())).collect(),
        }
    }

    fn stripe(&self, hash: u64) -> &RwLock<()> {
        &self.stripes[hash as usize % STRIPES]
    }

    /// Locks the stripe of a hash for following its links.
    pub(super) fn read(&self, hash: u64) -> RwLockReadGuard<'_, ()> {
        self.stripe(hash).read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the stripe of a hash alone.
    pub(super) fn write(&self, hash: u64) -> RwLockWriteGuard<'_, ()> {
        self.stripe(hash).write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the head of the record of a hash, as the next step along its links.
    pub(super) fn head(
        &self,
        steps: &mut LinkSteps,
        hash: u64,
        offset: u64,
    ) -> std::result::Result<ItemRecordHead, &'static str> {
        load_head_of(self.slabs.medium(), self.hash, steps, hash, offset)
    }

    pub(super) fn damaged(&self, offset: u64, reason: &'static str) -> MemcachedError {
        MemcachedError::DamagedRecord {
            path: self.pool.path().to_path_buf(),
            offset,
            reason,
        }
    }
}

/// Reads the head of the record of a hash, as the next step along its links.
pub(super) fn load_head_of(
    medium: &Medium,
    hash_of: fn(&[u8]) -> u64,
    steps: &mut LinkSteps,
    hash: u64,
    offset: u64,
) -> std::result::Result<ItemRecordHead, &'static str> {
    steps.step(offset)?;
    let head = record::load_head(medium, offset)?;
    if hash_of(&head.key) == hash {
        Ok(head)
    } else {
        Err("its key has another hash")
    }
}
