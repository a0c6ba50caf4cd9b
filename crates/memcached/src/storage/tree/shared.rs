//! State that all generations share: the slabs, the walk over the nodes in use, and the locks of hashes.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use halocline_pool::Pool;

use super::record::{self, ItemRecordHead};
use super::slabs::RecordSlabs;
use super::usage::RecordWalk;
use crate::error::MemcachedError;

/// Number of locks of hashes.
const STRIPES: usize = 1024;

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

    /// Reads the head of the record of a hash.
    pub(super) fn head(&self, hash: u64, offset: u64) -> std::result::Result<ItemRecordHead, &'static str> {
        let head = record::load_head(self.slabs.medium(), offset)?;
        match (self.hash)(&head.key) == hash {
            true => Ok(head),
            false => Err("its key has another hash"),
        }
    }

    pub(super) fn damaged(&self, offset: u64, reason: &'static str) -> MemcachedError {
        MemcachedError::DamagedRecord {
            path: self.pool.path().to_path_buf(),
            offset,
            reason,
        }
    }
}
