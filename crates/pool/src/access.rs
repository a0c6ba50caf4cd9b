//! Who reads and who writes: pins of generations, the writer's lock, the lock of syncs; in this process by counts and
//! flags, towards other handles by locks of the file.
//!
//! Invariant: while a generation's count is not zero, its lock byte is held. A writer reuses what a generation freed
//! only when no older one is pinned, here or elsewhere.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
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
    /// Slabs that are open, by the offset of their heads: by how many readers, or by a writer.
    slabs: Mutex<BTreeMap<u64, SlabUse>>,
    locks: Option<LockFile>,
    path: Arc<Path>,
    /// The path, whatever the working directory is later.
    absolute: PathBuf,
}

impl Access {
    /// Of a handle with a lock file of its own.
    pub(crate) fn of_file(locks: LockFile, path: Arc<Path>) -> Arc<Access> {
        Arc::new(Access::new(Some(locks), path))
    }

    /// The one that all handles on this medium share.
    pub(crate) fn of_medium(medium: &Medium, path: &Arc<Path>) -> Arc<Access> {
        /// By the address of the medium, which whoever holds the value keeps alive.
        static SHARED: Mutex<Vec<(usize, Weak<Access>)>> = Mutex::new(Vec::new());
        let address = medium.address();
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
            absolute: std::path::absolute(&path).unwrap_or_else(|_| path.to_path_buf()),
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
        // The lock must be seen before the superblock is read again; see `pinned_before`.
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

    /// The generations before `generation` that anyone reads, as ranges in any order. Whatever only other ones can see may
    /// be overwritten.
    pub(crate) fn pinned_before(&self, generation: u64) -> Result<Vec<Range<u64>>, PoolError> {
        // The published superblock must be seen before the locks are read, or a reader could pin the generation before
        // it unnoticed.
        fence(Ordering::SeqCst);
        let here = self.pins();
        let mut pinned: Vec<Range<u64>> = here.range(..generation).map(|(pin, _)| *pin..*pin + 1).collect();
        drop(here);
        if let Some(locks) = &self.locks {
            let elsewhere = locks.pinned_before(generation);
            pinned.extend(elsewhere.map_err(|error| self.failed(error))?);
        }
        Ok(pinned)
    }

    /// Makes sure that the path still leads to the file that is open: what is stored in another one is lost when the last
    /// handle goes. One system call.
    ///
    /// # Errors
    /// [`PoolError::FileGone`].
    pub(crate) fn check_place(&self) -> Result<(), PoolError> {
        let Some(locks) = &self.locks else {
            return Ok(());
        };
        match locks.is_at(&self.absolute) {
            Ok(true) => Ok(()),
            Ok(false) => Err(PoolError::FileGone {
                path: self.path.to_path_buf(),
            }),
            Err(error) => Err(PoolError::io("look at", &self.path, error)),
        }
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

    /// Makes sure that no other handle is open, and keeps others from being opened; nothing if one is.
    pub(crate) fn try_alone(&self) -> Result<Option<Alone<'_>>, PoolError> {
        let locks = self.locks.as_ref();
        let taken = locks.map_or(Ok(true), LockFile::try_alone);
        let taken = taken.map_err(|error| self.failed(error))?;
        Ok(taken.then_some(Alone(locks)))
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

    /// Takes the lock of the slab whose head is at this offset, shared with other readers or for oneself; nothing if anyone has it
    /// who does not share it.
    pub(crate) fn lock_slab(
        self: &Arc<Access>,
        head: u64,
        shared: bool,
    ) -> Result<Option<SlabLock>, PoolError> {
        let mut slabs = self.slabs();
        let readers = match slabs.get(&head) {
            None => 0,
            Some(SlabUse::Readers(readers)) if shared => *readers,
            Some(_) => return Ok(None),
        };
        let taken = match &self.locks {
            Some(locks) if readers == 0 => locks.try_slab(head, shared).map_err(|error| self.failed(error)),
            _ => Ok(true),
        };
        if !taken? {
            return Ok(None);
        }
        let used = match shared {
            true => SlabUse::Readers(readers + 1),
            false => SlabUse::Writer,
        };
        slabs.insert(head, used);
        let access = Arc::clone(self);
        Ok(Some(SlabLock { access, head }))
    }

    fn slabs(&self) -> MutexGuard<'_, BTreeMap<u64, SlabUse>> {
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

/// While it lives, no other handle of the file is open; where there is no file, handles share all they know of the
/// medium.
#[derive(Debug)]
pub(crate) struct Alone<'a>(Option<&'a LockFile>);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        if let Some(locks) = self.0 {
            let shared = locks.share_open();
            debug_assert!(shared.is_ok(), "sharing an own lock: {shared:?}");
        }
    }
}

/// Who has a slab open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlabUse {
    Readers(usize),
    Writer,
}

/// The lock of a slab; let go when it is dropped.
#[derive(Debug)]
pub(crate) struct SlabLock {
    access: Arc<Access>,
    head: u64,
}

impl Drop for SlabLock {
    fn drop(&mut self) {
        let mut slabs = self.access.slabs();
        if let Some(SlabUse::Readers(readers)) = slabs.get_mut(&self.head)
            && *readers > 1
        {
            *readers -= 1;
            return;
        }
        if let Some(locks) = &self.access.locks {
            locks.release_slab(self.head);
        }
        slabs.remove(&self.head);
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
