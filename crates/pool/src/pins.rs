//! Which generations are being read: counted in this handle, told to the writers of other handles by locks.
//!
//! Invariant: while a generation's count is not zero, its lock byte is held. A writer reuses what a generation freed
//! only when no older one is pinned, here or elsewhere.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::PoolError;
use crate::locks::LockFile;

/// The readers of one handle.
#[derive(Debug)]
pub(crate) struct Pins {
    counts: Mutex<BTreeMap<u64, usize>>,
    locks: Option<LockFile>,
    path: Arc<Path>,
}

impl Pins {
    pub(crate) fn new(locks: Option<LockFile>, path: Arc<Path>) -> Pins {
        Pins {
            counts: Mutex::default(),
            locks,
            path,
        }
    }

    pub(crate) fn locks(&self) -> Option<&LockFile> {
        self.locks.as_ref()
    }

    /// Pins a generation. What it holds is only certain to stay if it is still the newest when this returns: a writer
    /// that published another before may not have seen the pin.
    pub(crate) fn pin(&self, generation: u64) -> Result<(), PoolError> {
        let mut counts = self.counts();
        let count = counts.entry(generation).or_insert(0);
        if *count == 0
            && let Some(locks) = &self.locks
            && let Err(error) = locks.pin(generation)
        {
            counts.remove(&generation);
            return Err(PoolError::io("lock", &self.path, error));
        }
        *count += 1;
        drop(counts);
        // The lock must be seen before the superblock is read again; see `oldest_before`.
        fence(Ordering::SeqCst);
        Ok(())
    }

    pub(crate) fn unpin(&self, generation: u64) {
        let mut counts = self.counts();
        let Some(count) = counts.get_mut(&generation) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            counts.remove(&generation);
            if let Some(locks) = &self.locks {
                locks.unpin(generation);
            }
        }
    }

    /// The oldest generation before `generation` that anyone reads; `generation` itself if there is none. Whatever only
    /// generations before the result can see may be overwritten.
    pub(crate) fn oldest_before(&self, generation: u64) -> Result<u64, PoolError> {
        // The published superblock must be seen before the locks are read, or a reader could pin the generation before
        // it unnoticed.
        fence(Ordering::SeqCst);
        let here = self
            .counts()
            .keys()
            .next()
            .copied()
            .filter(|oldest| *oldest < generation);
        let elsewhere = match &self.locks {
            Some(locks) => locks
                .oldest_pinned_before(generation)
                .map_err(|error| PoolError::io("read the locks of", &self.path, error))?,
            None => None,
        };
        Ok(here.into_iter().chain(elsewhere).fold(generation, u64::min))
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
