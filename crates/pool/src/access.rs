//! Who reads and who writes: pins of generations, the writer's lock, the lock of syncs; in this process by counts and
//! flags, towards other handles by locks of the file.
//!
//! Invariant: while a generation's count is not zero, its lock byte is held. A writer reuses what a generation freed
//! only when no older one is pinned, here or elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use halocline_media::Medium;

use crate::PoolError;
use crate::locks::LockFile;

/// The readers and the writer of one handle, or, where there is no file to lock, of all handles on one medium.
#[derive(Debug)]
pub(crate) struct Access {
    pins: Mutex<BTreeMap<u64, usize>>,
    writing: AtomicBool,
    syncing: Mutex<()>,
    /// Slabs that are open, by the offset of their heads.
    slabs: Mutex<BTreeSet<u64>>,
    locks: Option<LockFile>,
    path: Arc<Path>,
}

impl Access {
    /// Of a handle with a lock file of its own.
    pub(crate) fn of_file(locks: LockFile, path: Arc<Path>) -> Arc<Access> {
        Arc::new(Access::new(Some(locks), path))
    }

    /// The one that all handles on this medium share.
    pub(crate) fn of_medium<M: Medium>(medium: &Arc<M>, path: &Arc<Path>) -> Arc<Access> {
        /// By the address of the medium, which whoever holds the value keeps alive.
        static SHARED: Mutex<Vec<(usize, Weak<Access>)>> = Mutex::new(Vec::new());
        let address = Arc::as_ptr(medium).addr();
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|(_, access)| access.strong_count() > 0);
        let found = shared
            .iter()
            .find(|(other, _)| *other == address)
            .and_then(|(_, access)| access.upgrade());
        found.unwrap_or_else(|| {
            let access = Arc::new(Access::new(None, Arc::clone(path)));
            shared.push((address, Arc::downgrade(&access)));
            access
        })
    }

    fn new(locks: Option<LockFile>, path: Arc<Path>) -> Access {
        Access {
            pins: Mutex::default(),
            writing: AtomicBool::new(false),
            syncing: Mutex::default(),
            slabs: Mutex::default(),
            locks,
            path,
        }
    }

    /// Pins a generation. What it holds is only certain to stay if it is still the newest when this returns: a writer
    /// that published another before may not have seen the pin.
    pub(crate) fn pin(&self, generation: u64) -> Result<(), PoolError> {
        let mut pins = self.pins();
        let count = pins.entry(generation).or_insert(0);
        if *count == 0
            && let Some(locks) = &self.locks
            && let Err(error) = locks.pin(generation)
        {
            pins.remove(&generation);
            return Err(self.failed(error));
        }
        *count += 1;
        drop(pins);
        // The lock must be seen before the superblock is read again; see `oldest_before`.
        fence(Ordering::SeqCst);
        Ok(())
    }

    pub(crate) fn unpin(&self, generation: u64) {
        let mut pins = self.pins();
        let Some(count) = pins.get_mut(&generation) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            pins.remove(&generation);
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
            .pins()
            .keys()
            .next()
            .copied()
            .filter(|oldest| *oldest < generation);
        let elsewhere = match &self.locks {
            Some(locks) => locks
                .oldest_pinned_before(generation)
                .map_err(|error| self.failed(error))?,
            None => None,
        };
        Ok(here.into_iter().chain(elsewhere).fold(generation, u64::min))
    }

    /// Takes the writer's lock.
    ///
    /// # Errors
    /// [`PoolError::Locked`] at once if anyone has it.
    pub(crate) fn lock_writer(self: &Arc<Access>) -> Result<WriterLock, PoolError> {
        let locked = |pid| PoolError::Locked {
            path: self.path.to_path_buf(),
            pid,
        };
        if self.writing.swap(true, Ordering::Acquire) {
            return Err(locked(None));
        }
        let taken = match &self.locks {
            Some(locks) => locks.try_writer().map_err(|error| self.failed(error)),
            None => Ok(true),
        };
        if let Ok(true) = taken {
            return Ok(WriterLock(Arc::clone(self)));
        }
        self.writing.store(false, Ordering::Release);
        taken?;
        Err(locked(self.locks.as_ref().and_then(LockFile::writer_pid)))
    }

    /// Waits for the lock of whoever writes the synced superblocks.
    pub(crate) fn lock_sync(&self) -> Result<SyncLock<'_>, PoolError> {
        let here = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(locks) = &self.locks {
            locks.lock_sync().map_err(|error| self.failed(error))?;
        }
        Ok(SyncLock {
            locks: self.locks.as_ref(),
            _here: here,
        })
    }

    /// Takes the lock of the slab whose head is at this offset; nothing if anyone has it.
    pub(crate) fn lock_slab(self: &Arc<Access>, head: u64) -> Result<Option<SlabLock>, PoolError> {
        if !self.slabs().insert(head) {
            return Ok(None);
        }
        let taken = match &self.locks {
            Some(locks) => locks.try_slab(head).map_err(|error| self.failed(error)),
            None => Ok(true),
        };
        if let Ok(true) = taken {
            let access = Arc::clone(self);
            return Ok(Some(SlabLock { access, head }));
        }
        self.slabs().remove(&head);
        taken.map(|_| None)
    }

    fn slabs(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.slabs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, error: std::io::Error) -> PoolError {
        PoolError::io("lock", &self.path, error)
    }

    fn pins(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer's lock; let go when it is dropped.
#[derive(Debug)]
pub(crate) struct WriterLock(Arc<Access>);

impl Drop for WriterLock {
    fn drop(&mut self) {
        if let Some(locks) = &self.0.locks {
            locks.release_writer();
        }
        self.0.writing.store(false, Ordering::Release);
    }
}

/// The lock of a slab; let go when it is dropped.
#[derive(Debug)]
pub(crate) struct SlabLock {
    access: Arc<Access>,
    head: u64,
}

impl Drop for SlabLock {
    fn drop(&mut self) {
        if let Some(locks) = &self.access.locks {
            locks.release_slab(self.head);
        }
        self.access.slabs().remove(&self.head);
    }
}

/// The lock of whoever writes the synced superblocks; let go when it is dropped.
#[derive(Debug)]
pub(crate) struct SyncLock<'a> {
    locks: Option<&'a LockFile>,
    // Last, so that the file's lock is let go before it.
    _here: MutexGuard<'a, ()>,
}

impl Drop for SyncLock<'_> {
    fn drop(&mut self) {
        if let Some(locks) = self.locks {
            locks.unlock_sync();
        }
    }
}
