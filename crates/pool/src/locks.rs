//! Locks between processes: byte ranges of the pool's file, far beyond its data.
//!
//! They belong to the open file description (`F_OFD_SETLK`): two handles in one process conflict like two
//! processes, and a lock dies with its process, so that none is ever stale. Only the hints of the process ids
//! of the writer and of those that have slabs open are classic locks of the process. They may vanish early,
//! when the process closes any descriptor of the file, and nothing depends on them.
#![allow(
    unsafe_code,
    reason = "fcntl with a lock structure; rustix has no open-file-description locks"
)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::layout::{
    BLOCK, LOCK_OPEN, LOCK_READERS, LOCK_SLAB_PIDS, LOCK_SLAB_PINS, LOCK_SLABS, LOCK_SYNC, LOCK_WRITER,
    LOCK_WRITER_PID,
};

/// The whole file as a lock range: a length of 0 extends to the end of any file.
const WHOLE_FILE: Range<u64> = 0..0;

/// The meaning of a pinned number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PinKind {
    /// A generation of the pool.
    Generation,
    /// A number that the owner of a slab chooses.
    Slab,
}

impl PinKind {
    /// One more than the greatest number that can be pinned.
    const LIMIT: u64 = 1 << 60;

    /// Returns the lock byte of number 0.
    fn base(self) -> u64 {
        match self {
            Self::Generation => LOCK_READERS,
            Self::Slab => LOCK_SLAB_PINS,
        }
    }
}

/// An open file through which one handle holds its locks. Dropping it releases them all.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: File,
    /// The process that opened it.
    owner: u32,
}

impl LockFile {
    pub(crate) fn new(file: File) -> LockFile {
        LockFile {
            file,
            owner: std::process::id(),
        }
    }

    /// Returns true if this path leads to the open file.
    pub(crate) fn is_at(&self, path: &Path) -> io::Result<bool> {
        let here = self.file.metadata()?;
        match std::fs::metadata(path) {
            Ok(there) => Ok((here.dev(), here.ino()) == (there.dev(), there.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes the writer's lock, or returns false if another handle has it.
    pub(crate) fn try_writer(&self) -> io::Result<bool> {
        let taken = self.set(libc::F_OFD_SETLK, libc::F_WRLCK, LOCK_WRITER)?;
        if taken {
            // A hint only: if it fails, an error message lacks the process id.
            let _ = self.set(libc::F_SETLK, libc::F_WRLCK, LOCK_WRITER_PID);
        }
        Ok(taken)
    }

    pub(crate) fn release_writer(&self) {
        let hint = self.set(libc::F_SETLK, libc::F_UNLCK, LOCK_WRITER_PID);
        debug_assert!(hint.is_ok(), "unlocking an open file: {hint:?}");
        self.unlock(LOCK_WRITER..LOCK_WRITER + 1);
    }

    /// Returns the process that holds the writer's lock, if it is known.
    pub(crate) fn writer_pid(&self) -> Option<u32> {
        self.hinted_pid(LOCK_WRITER_PID)
    }

    /// Returns another process that holds the lock of a slab, if it is known.
    pub(crate) fn slab_pid(&self, head: u64) -> Option<u32> {
        self.hinted_pid(LOCK_SLAB_PIDS + head / BLOCK)
    }

    fn hinted_pid(&self, byte: u64) -> Option<u32> {
        let found = self.get(libc::F_GETLK, byte..byte + 1).ok()??;
        u32::try_from(found.l_pid).ok().filter(|pid| *pid != 0)
    }

    /// Waits for the lock that protects the synced superblocks, which is held for the duration of a sync.
    pub(crate) fn lock_sync(&self) -> io::Result<()> {
        self.set(libc::F_OFD_SETLKW, libc::F_WRLCK, LOCK_SYNC).map(drop)
    }

    pub(crate) fn unlock_sync(&self) {
        self.unlock(LOCK_SYNC..LOCK_SYNC + 1);
    }

    /// Waits until nobody shortens the file, and prevents it while the handle is open.
    pub(crate) fn share_open(&self) -> io::Result<()> {
        self.set(libc::F_OFD_SETLKW, libc::F_RDLCK, LOCK_OPEN).map(drop)
    }

    /// Prevents others from opening the file, or returns false if another handle is open.
    pub(crate) fn try_alone(&self) -> io::Result<bool> {
        self.set(libc::F_OFD_SETLK, libc::F_WRLCK, LOCK_OPEN)
    }

    /// Takes the lock of a slab, shared or exclusive, or returns false if a conflicting lock is held.
    pub(crate) fn try_slab(&self, head: u64, shared: bool) -> io::Result<bool> {
        let kind = if shared { libc::F_RDLCK } else { libc::F_WRLCK };
        let taken = self.set(libc::F_OFD_SETLK, kind, LOCK_SLABS + head / BLOCK)?;
        if taken {
            // A hint only, as the writer's.
            let _ = self.set(libc::F_SETLK, kind, LOCK_SLAB_PIDS + head / BLOCK);
        }
        Ok(taken)
    }

    /// Returns true if another handle holds the lock of a slab.
    pub(crate) fn is_slab_locked(&self, head: u64) -> io::Result<bool> {
        let byte = LOCK_SLABS + head / BLOCK;
        Ok(self.get(libc::F_OFD_GETLK, byte..byte + 1)?.is_some())
    }

    pub(crate) fn release_slab(&self, head: u64) {
        let hint = self.set(libc::F_SETLK, libc::F_UNLCK, LOCK_SLAB_PIDS + head / BLOCK);
        debug_assert!(hint.is_ok(), "unlocking an open file: {hint:?}");
        let byte = LOCK_SLABS + head / BLOCK;
        self.unlock(byte..byte + 1);
    }

    /// Announces to the writers of other handles that the number is being read, a generation or one that the
    /// owner of a slab pins.
    ///
    /// # Errors
    /// [`InvalidData`](io::ErrorKind::InvalidData) for a number that no lock stands for, which only damaged
    /// data asks for.
    pub(crate) fn pin(&self, kind: PinKind, number: u64) -> io::Result<()> {
        if number >= PinKind::LIMIT {
            let what = format!("{number} is too large for a number of a generation or a version");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        if self.set(libc::F_OFD_SETLK, libc::F_RDLCK, kind.base() + number)? {
            Ok(())
        } else {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }

    pub(crate) fn unpin(&self, kind: PinKind, number: u64) {
        let byte = kind.base() + number;
        self.unlock(byte..byte + 1);
    }

    /// Returns those of some numbers that other handles pin, as ranges in any order. Takes two system calls
    /// per range; beyond a maximum number of ranges, all numbers from the oldest unexamined one on count as
    /// pinned.
    pub(crate) fn pinned(&self, kind: PinKind, numbers: Range<u64>) -> io::Result<Vec<Range<u64>>> {
        const MAX_RANGES: usize = 200;
        let base = kind.base();
        let (mut found, mut unknown) = (Vec::new(), Vec::new());
        let byte_of = |number: u64| base + number.min(PinKind::LIMIT);
        unknown.push(byte_of(numbers.start)..byte_of(numbers.end));
        while let Some(part) = unknown.pop() {
            if part.is_empty() {
                continue;
            }
            // The kernel returns any one lock in the range; each covers consecutive generations that one
            // handle reads.
            let Some(lock) = self.get(libc::F_OFD_GETLK, part.clone())? else {
                continue;
            };
            let start = u64::try_from(lock.l_start).unwrap_or(0).max(part.start);
            let stop = match u64::try_from(lock.l_len) {
                Ok(0) | Err(_) => part.end,
                Ok(len) => lock.l_start as u64 + len,
            };
            let stop = stop.clamp(start + 1, part.end);
            found.push(start - base..stop - base);
            unknown.push(stop..part.end);
            // Push the older part last, so that it is examined first.
            unknown.push(part.start..start);
            if found.len() == MAX_RANGES {
                found.extend(unknown.into_iter().map(|part| part.start - base..part.end - base));
                break;
            }
        }
        Ok(found)
    }

    /// Releases the locks of a range, unless this is the copy in a forked process, which would release them
    /// for the process that holds them.
    fn unlock(&self, range: Range<u64>) {
        if self.owner == std::process::id() {
            let result = self.set_range(libc::F_OFD_SETLK, libc::F_UNLCK, range);
            debug_assert!(result.is_ok(), "unlocking an open file: {result:?}");
        }
    }

    /// Sets or clears a lock of one byte; returns false if a conflicting one is held.
    fn set(&self, command: libc::c_int, kind: libc::c_int, byte: u64) -> io::Result<bool> {
        self.set_range(command, kind, byte..byte + 1)
    }

    /// Sets or clears a lock of a range; returns false if a conflicting one is held.
    fn set_range(&self, command: libc::c_int, kind: libc::c_int, range: Range<u64>) -> io::Result<bool> {
        loop {
            let mut lock = describe(kind, range.clone());
            // SAFETY: the descriptor is open as long as `self`, and `lock` is a whole structure of the kind
            // that these commands read.
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

    /// Returns one lock of another holder in the range, if there is any.
    fn get(&self, command: libc::c_int, range: Range<u64>) -> io::Result<Option<libc::flock>> {
        let mut lock = describe(libc::F_WRLCK, range);
        // SAFETY: the descriptor is open as long as `self`, and `lock` is a whole structure of the kind that
        // these commands read and fill in.
        let result = unsafe { libc::fcntl(self.file.as_raw_fd(), command, &raw mut lock) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((libc::c_int::from(lock.l_type) != libc::F_UNLCK).then_some(lock))
    }
}

impl Drop for LockFile {
    /// Unlocks before the descriptor is closed: a process that was forked and has not yet called `exec`
    /// shares the open file, and its locks end only with the last descriptor.
    fn drop(&mut self) {
        self.unlock(WHOLE_FILE);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_lock_of_its_own_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let locks = LockFile::new(file.reopen().unwrap());
        locks.pin(PinKind::Slab, PinKind::LIMIT - 1).unwrap();
        for number in [PinKind::LIMIT, u64::MAX] {
            let error = locks.pin(PinKind::Generation, number).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        let others = LockFile::new(file.reopen().unwrap());
        let pinned = others.pinned(PinKind::Slab, 0..u64::MAX).unwrap();
        let last = PinKind::LIMIT - 1..PinKind::LIMIT;
        assert_eq!(pinned, [last]);
    }

    /// A duplicate of the descriptor stands for a process that was forked and has not yet called `exec`.
    #[test]
    fn dropping_a_handle_releases_its_locks_although_a_copy_of_its_descriptor_is_open() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let first = LockFile::new(file.reopen().unwrap());
        let copy = first.file.try_clone().unwrap();
        assert!(first.try_writer().unwrap());
        first.share_open().unwrap();
        first.pin(PinKind::Generation, 7).unwrap();
        assert!(first.try_slab(64 << 20, false).unwrap());
        drop(first);

        let second = LockFile::new(file.reopen().unwrap());
        assert!(second.try_writer().unwrap(), "the writer's lock");
        assert!(second.try_alone().unwrap(), "the lock of open handles");
        assert_eq!(
            second.pinned(PinKind::Generation, 0..100).unwrap(),
            Vec::<Range<u64>>::new()
        );
        assert!(second.try_slab(64 << 20, false).unwrap(), "the lock of a slab");
        drop(copy);
    }

    #[test]
    fn a_copy_in_another_process_leaves_the_locks_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let first = LockFile::new(file.reopen().unwrap());
        assert!(first.try_writer().unwrap());
        drop(LockFile {
            file: first.file.try_clone().unwrap(),
            owner: first.owner + 1,
        });
        let second = LockFile::new(file.reopen().unwrap());
        assert!(!second.try_writer().unwrap());
    }
}
