//! Coordination of readers and writers: pinned generations, the writer's lock, and the lock of syncs. Within
//! this process it uses counts and flags, towards other handles it uses locks of the file.
//!
//! Invariant: while the count of a pinned number is not zero, its lock byte is held. A writer reuses what a
//! generation freed only when no older one is pinned, here or elsewhere.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use halocline_media::Medium;
use rustix::time::{ClockId, clock_gettime};

use crate::PoolError;
use crate::locks::{LockFile, PinKind};

/// The readers and the writer of one handle or, where there is no file to lock, of all handles on one medium.
#[derive(Debug)]
pub(crate) struct Access {
    pins: Mutex<BTreeMap<u64, usize>>,
    slab_pins: Mutex<BTreeMap<u64, usize>>,
    writing: AtomicBool,
    syncing: Mutex<()>,
    /// Open slabs by the offset of their heads, with their readers or their writer.
    slabs: Mutex<BTreeMap<u64, SlabUse>>,
    locks: Option<LockFile>,
    path: Arc<Path>,
    /// The absolute path, independent of later changes of the working directory.
    absolute: PathBuf,
    /// Time on the clock of the handle at which the path was last seen to lead to the open file, in ns.
    seen: AtomicU64,
}

/// Returns the time of a clock that is never set back, in ns since some time before the process began.
fn coarse_now() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Access {
    /// Creates the state of a handle with a lock file of its own.
    pub(crate) fn of_file(locks: LockFile, path: Arc<Path>) -> Arc<Access> {
        Arc::new(Access::new(Some(locks), path))
    }

    /// Returns the state that all handles on this medium share.
    pub(crate) fn of_medium(medium: &Medium, path: &Arc<Path>) -> Arc<Access> {
        /// Keyed by the address of the medium, which every holder of the value keeps alive.
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
            slab_pins: Mutex::default(),
            writing: AtomicBool::new(false),
            syncing: Mutex::default(),
            slabs: Mutex::default(),
            locks,
            absolute: std::path::absolute(&path).unwrap_or_else(|_| path.to_path_buf()),
            path,
            seen: AtomicU64::new(0),
        }
    }

    /// Pins a generation. The pin only protects it if it is still the newest when this returns: a writer that
    /// published another one in between may not have seen the pin.
    pub(crate) fn pin(&self, generation: u64) -> Result<(), PoolError> {
        self.pin_number(PinKind::Generation, generation)
    }

    pub(crate) fn unpin(&self, generation: u64) {
        self.unpin_number(PinKind::Generation, generation);
    }

    /// Returns the generations before `generation` that are pinned, as ranges in any order. Space that only
    /// other generations name may be overwritten.
    pub(crate) fn pinned_before(&self, generation: u64) -> Result<Vec<Range<u64>>, PoolError> {
        self.pinned_numbers(PinKind::Generation, 0..generation)
    }

    /// Pins a number. Whoever looks for pins later sees it.
    pub(crate) fn pin_number(&self, kind: PinKind, number: u64) -> Result<(), PoolError> {
        let mut pins = self.pins(kind);
        let count = pins.entry(number).or_insert(0);
        if *count == 0
            && let Some(locks) = &self.locks
            && let Err(error) = locks.pin(kind, number)
        {
            pins.remove(&number);
            return Err(self.failed(error));
        }
        *count += 1;
        drop(pins);
        // The lock must be visible before anything is read that it protects; see `pinned_numbers`.
        fence(Ordering::SeqCst);
        Ok(())
    }

    pub(crate) fn unpin_number(&self, kind: PinKind, number: u64) {
        let mut pins = self.pins(kind);
        let Some(count) = pins.get_mut(&number) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            pins.remove(&number);
            if let Some(locks) = &self.locks {
                locks.unpin(kind, number);
            }
        }
    }

    /// Returns those of some numbers that this or other handles pin, as ranges in any order.
    pub(crate) fn pinned_numbers(
        &self,
        kind: PinKind,
        numbers: Range<u64>,
    ) -> Result<Vec<Range<u64>>, PoolError> {
        // What was stored must be visible before the locks are read, or a reader could read what was there
        // before unnoticed.
        fence(Ordering::SeqCst);
        let here = self.pins(kind);
        let mut pinned: Vec<Range<u64>> = here
            .range(numbers.clone())
            .map(|(pin, _)| *pin..*pin + 1)
            .collect();
        drop(here);
        if let Some(locks) = &self.locks {
            let elsewhere = locks.pinned(kind, numbers);
            pinned.extend(elsewhere.map_err(|error| self.failed(error))?);
        }
        Ok(pinned)
    }

    /// Checks that the path still leads to the open file; data stored in an unlinked file would be lost with
    /// its last handle. One system call.
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

    /// Does the same as [`check_place`](Self::check_place), unless the path was seen to lead to the file less
    /// than `within` ago. That costs a few nanoseconds: the clock is as coarse as the timer of the system.
    ///
    /// # Errors
    /// [`PoolError::FileGone`].
    pub(crate) fn check_place_within(&self, within: Duration) -> Result<(), PoolError> {
        self.check_place_at(coarse_now(), within)
    }

    /// Does the same at a time of the clock.
    fn check_place_at(&self, now: u64, within: Duration) -> Result<(), PoolError> {
        let age = now.saturating_sub(self.seen.load(Ordering::Relaxed));
        if u128::from(age) < within.as_nanos() {
            return Ok(());
        }
        self.check_place()?;
        self.seen.store(now, Ordering::Relaxed);
        Ok(())
    }

    /// Takes the writer's lock.
    ///
    /// # Errors
    /// [`PoolError::Locked`] immediately if it is taken.
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

    /// Prevents other handles from opening the file. Returns `None` if another handle is open.
    pub(crate) fn try_alone(&self) -> Result<Option<ExclusiveHandle<'_>>, PoolError> {
        let locks = self.locks.as_ref();
        let taken = locks.map_or(Ok(true), LockFile::try_alone);
        let taken = taken.map_err(|error| self.failed(error))?;
        Ok(taken.then_some(ExclusiveHandle(locks)))
    }

    /// Waits for the lock that protects the synced superblocks.
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

    /// Takes the lock of the slab whose head is at this offset, shared with other readers or exclusively.
    /// Returns `None` if a conflicting lock is held.
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
        let used = if shared {
            SlabUse::Readers(readers + 1)
        } else {
            SlabUse::WriterState
        };
        slabs.insert(head, used);
        let access = Arc::clone(self);
        Ok(Some(SlabLock { access, head }))
    }

    /// Returns true if the lock of the slab whose head is at this offset is held, here or elsewhere.
    pub(crate) fn is_slab_locked(&self, head: u64) -> Result<bool, PoolError> {
        if self.slabs().contains_key(&head) {
            return Ok(true);
        }
        let elsewhere = self.locks.as_ref().map(|locks| locks.is_slab_locked(head));
        elsewhere.unwrap_or(Ok(false)).map_err(|error| self.failed(error))
    }

    /// Returns the error for a slab that another handle has open.
    pub(crate) fn slab_in_use(&self, head: u64, name: &str) -> PoolError {
        PoolError::SlabInUse {
            path: self.path.to_path_buf(),
            name: name.to_owned(),
            pid: self.locks.as_ref().and_then(|locks| locks.slab_pid(head)),
        }
    }

    fn slabs(&self) -> MutexGuard<'_, BTreeMap<u64, SlabUse>> {
        self.slabs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, error: std::io::Error) -> PoolError {
        PoolError::io("lock", &self.path, error)
    }

    fn pins(&self, kind: PinKind) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        let pins = match kind {
            PinKind::Generation => &self.pins,
            PinKind::Slab => &self.slab_pins,
        };
        pins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer's lock, released on drop.
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

/// Guarantees while it lives that no other handle of the file is open. Without a file, handles share all
/// their knowledge of the medium, so nothing needs to be locked.
#[derive(Debug)]
pub(crate) struct ExclusiveHandle<'a>(Option<&'a LockFile>);

impl Drop for ExclusiveHandle<'_> {
    fn drop(&mut self) {
        if let Some(locks) = self.0 {
            let shared = locks.share_open();
            debug_assert!(shared.is_ok(), "sharing an own lock: {shared:?}");
        }
    }
}

/// The users of an open slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlabUse {
    Readers(usize),
    WriterState,
}

/// The lock of a slab, released on drop.
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

/// The lock that protects the synced superblocks, released on drop.
#[derive(Debug)]
pub(crate) struct SyncLock<'a> {
    locks: Option<&'a LockFile>,
    // Declared last, so that the file's lock is released first.
    _here: MutexGuard<'a, ()>,
}

impl Drop for SyncLock<'_> {
    fn drop(&mut self) {
        if let Some(locks) = self.locks {
            locks.unlock_sync();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, PoolOptions};

    #[test]
    fn a_place_is_trusted_for_the_time_and_no_longer() {
        const WITHIN: Duration = Duration::from_millis(50);
        const SEEN: u64 = 1_000_000_000;
        const LAST: u64 = SEEN + WITHIN.as_nanos() as u64 - 1;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.pool");
        let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
        let access = &pool.inner.access;
        access.check_place_at(SEEN, Duration::ZERO).unwrap();
        std::fs::remove_file(&path).unwrap();
        access.check_place_at(LAST, WITHIN).unwrap();
        for (now, within) in [(LAST + 1, WITHIN), (LAST + 2, WITHIN), (SEEN, Duration::ZERO)] {
            let looked = access.check_place_at(now, within);
            assert!(matches!(looked, Err(PoolError::FileGone { .. })), "{looked:?}");
        }
    }
}
