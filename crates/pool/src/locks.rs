//! Locks between processes: byte ranges of the pool's file, far beyond its data.
//!
//! They belong to the open file (`F_OFD_SETLK`): two handles in one process conflict like two processes, and a lock dies
//! with its process, so that none is ever stale. Only the hint of the writer's process id is a classic lock of the
//! process; it may vanish early, when the process closes any descriptor of the file, and nothing depends on it.
#![allow(
    unsafe_code,
    reason = "fcntl with a lock structure; rustix has no open-file-description locks"
)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use crate::layout::{BLOCK, LOCK_READERS, LOCK_SLABS, LOCK_SYNC, LOCK_WRITER, LOCK_WRITER_PID};

/// An open file of its own, by which one handle holds its locks.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: File,
}

impl LockFile {
    pub(crate) fn new(file: File) -> LockFile {
        LockFile { file }
    }

    /// Takes the writer's lock, or returns false if another handle has it.
    pub(crate) fn try_writer(&self) -> io::Result<bool> {
        let taken = self.set(libc::F_OFD_SETLK, libc::F_WRLCK, LOCK_WRITER)?;
        if taken {
            // A hint only: a refusal costs nothing but the process id in someone's message.
            let _ = self.set(libc::F_SETLK, libc::F_WRLCK, LOCK_WRITER_PID);
        }
        Ok(taken)
    }

    pub(crate) fn release_writer(&self) {
        let hint = self.set(libc::F_SETLK, libc::F_UNLCK, LOCK_WRITER_PID);
        let lock = self.set(libc::F_OFD_SETLK, libc::F_UNLCK, LOCK_WRITER);
        debug_assert!(
            hint.is_ok() && lock.is_ok(),
            "unlocking an open file: {hint:?}, {lock:?}"
        );
    }

    /// The process that has the writer's lock, if it can be known.
    pub(crate) fn writer_pid(&self) -> Option<u32> {
        let found = self
            .get(libc::F_GETLK, LOCK_WRITER_PID..LOCK_WRITER_PID + 1)
            .ok()??;
        u32::try_from(found.l_pid).ok().filter(|pid| *pid != 0)
    }

    /// Waits for the lock of whoever writes the synced superblocks; it is held for the time of a sync.
    pub(crate) fn lock_sync(&self) -> io::Result<()> {
        self.set(libc::F_OFD_SETLKW, libc::F_WRLCK, LOCK_SYNC).map(drop)
    }

    pub(crate) fn unlock_sync(&self) {
        let result = self.set(libc::F_OFD_SETLK, libc::F_UNLCK, LOCK_SYNC);
        debug_assert!(result.is_ok(), "unlocking an open file: {result:?}");
    }

    /// Takes the lock of a slab, or returns false if another handle has it.
    pub(crate) fn try_slab(&self, head: u64) -> io::Result<bool> {
        self.set(libc::F_OFD_SETLK, libc::F_WRLCK, LOCK_SLABS + head / BLOCK)
    }

    pub(crate) fn release_slab(&self, head: u64) {
        let result = self.set(libc::F_OFD_SETLK, libc::F_UNLCK, LOCK_SLABS + head / BLOCK);
        debug_assert!(result.is_ok(), "unlocking an open file: {result:?}");
    }

    /// Tells the writers of other handles that `generation` is being read.
    pub(crate) fn pin(&self, generation: u64) -> io::Result<()> {
        match self.set(libc::F_OFD_SETLK, libc::F_RDLCK, LOCK_READERS + generation)? {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    pub(crate) fn unpin(&self, generation: u64) {
        let result = self.set(libc::F_OFD_SETLK, libc::F_UNLCK, LOCK_READERS + generation);
        debug_assert!(result.is_ok(), "unlocking an open file: {result:?}");
    }

    /// The oldest generation before `end` that another handle reads. A system call for each reader that is met.
    pub(crate) fn oldest_pinned_before(&self, end: u64) -> io::Result<Option<u64>> {
        let mut oldest = None;
        let mut end = LOCK_READERS + end;
        while end > LOCK_READERS {
            let Some(found) = self.get(libc::F_OFD_GETLK, LOCK_READERS..end)? else {
                break;
            };
            let start = u64::try_from(found.l_start)
                .unwrap_or(0)
                .clamp(LOCK_READERS, end - 1);
            oldest = Some(start - LOCK_READERS);
            end = start;
        }
        Ok(oldest)
    }

    /// Sets or clears a lock of one byte; false if another holds a conflicting one.
    fn set(&self, command: libc::c_int, kind: libc::c_int, byte: u64) -> io::Result<bool> {
        loop {
            let mut lock = describe(kind, byte..byte + 1);
            // SAFETY: the descriptor is open as long as `self`, and `lock` is a whole structure of the kind that these
            // commands read.
            let result = unsafe { libc::fcntl(self.file.as_raw_fd(), command, &raw mut lock) };
            if result == 0 {
                return Ok(true);
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN | libc::EACCES) => return Ok(false),
                _ => return Err(error),
            }
        }
    }

    /// One lock of another holder in the range, if there is any.
    fn get(&self, command: libc::c_int, range: Range<u64>) -> io::Result<Option<libc::flock>> {
        let mut lock = describe(libc::F_WRLCK, range);
        // SAFETY: the descriptor is open as long as `self`, and `lock` is a whole structure of the kind that these commands
        // read and fill in.
        let result = unsafe { libc::fcntl(self.file.as_raw_fd(), command, &raw mut lock) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((libc::c_int::from(lock.l_type) != libc::F_UNLCK).then_some(lock))
    }
}

fn describe(kind: libc::c_int, range: Range<u64>) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: range.start as libc::off_t,
        l_len: (range.end - range.start) as libc::off_t,
        l_pid: 0,
    }
}
