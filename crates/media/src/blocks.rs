//! Allocation of a file's blocks before they are needed.
//!
//! A store to a mapped page without a block kills the process if the disk is full. So growth allocates the
//! blocks beyond the end of the file first and sets the length afterwards: either the whole new length has
//! blocks, or the length is unchanged.
//!
//! The new length is as durable as a fence. `discard` punches holes and `reserve` fills them in units of 2
//! MiB, because a store to one page may make the file system allocate the blocks of that many bytes around
//! it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use rustix::process::Resource;

use crate::MediaError;

/// Extends the file from `old_len` to `new_len` with allocated zeros.
pub(crate) fn extend(file: &File, path: &Path, old_len: u64, new_len: u64) -> Result<(), MediaError> {
    let wanted = new_len - old_len;
    check_room(file, path, wanted)?;
    check_limit(path, new_len, wanted)?;
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, old_len, wanted) {
        Ok(()) => {}
        Err(Errno::NOTSUP | Errno::NOSYS) => return write_zeroes(file, path, old_len, new_len),
        Err(error) => {
            give_back(file, old_len);
            return Err(growth_error(path, wanted, error.into()));
        }
    }
    rustix::fs::ftruncate(file, new_len).map_err(|error| growth_error(path, wanted, error.into()))
}

/// Allocates the missing blocks of a sparse file. Keeps all contents.
pub(crate) fn fill_holes(file: &File, path: &Path, len: u64) -> Result<(), MediaError> {
    let found = file.metadata().map_err(|error| growth_error(path, 0, error))?;
    let stored = found.blocks() * 512;
    if len == 0 || stored >= len {
        return Ok(());
    }
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, len) {
        Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(growth_error(path, len - stored, error.into())),
    }
}

/// Allocates the missing blocks of a range inside the file. Keeps all contents.
pub(crate) fn fill(file: &File, path: &Path, offset: u64, len: u64) -> Result<(), MediaError> {
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, offset, len) {
        Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(growth_error(path, len, error.into())),
    }
}

/// Frees the blocks of a range inside the file, which then reads as zeros. Does nothing where holes are not
/// supported.
pub(crate) fn punch(file: &File, path: &Path, offset: u64, len: u64) -> Result<(), MediaError> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, flags, offset, len) {
        Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(MediaError::Io {
            action: "punch a hole into",
            path: path.to_path_buf(),
            source: error.into(),
        }),
    }
}

/// Fails early if the file system lacks the space, instead of filling it up and failing then.
fn check_room(file: &File, path: &Path, wanted: u64) -> Result<(), MediaError> {
    match rustix::fs::fstatvfs(file) {
        Ok(room) if room.f_blocks > 0 && wanted > room.f_bfree.saturating_mul(room.f_frsize) => {
            Err(MediaError::DiskFull {
                path: path.to_path_buf(),
                wanted,
            })
        }
        _ => Ok(()),
    }
}

/// Fails if the length exceeds the process's file size limit (`ulimit -f`), because the system would end the
/// process with SIGXFSZ.
fn check_limit(path: &Path, len: u64, wanted: u64) -> Result<(), MediaError> {
    match rustix::process::getrlimit(Resource::Fsize).current {
        Some(limit) if len > limit => Err(MediaError::DiskFull {
            path: path.to_path_buf(),
            wanted,
        }),
        _ => Ok(()),
    }
}

/// Frees blocks beyond the end that a failed allocation may have left. Failure is harmless: the blocks stay
/// unused.
fn give_back(file: &File, len: u64) {
    if let Err(error) = rustix::fs::ftruncate(file, len) {
        tracing::warn!(%error, "blocks beyond the end of the file stay allocated");
    }
}

/// Extends the file by writing zeros, as a fallback for file systems that cannot allocate in advance.
fn write_zeroes(file: &File, path: &Path, old_len: u64, new_len: u64) -> Result<(), MediaError> {
    let zeroes = vec![0; 1 << 20];
    let mut at = old_len;
    while at < new_len {
        let count = (new_len - at).min(zeroes.len() as u64);
        if let Err(error) = file.write_all_at(&zeroes[..count as usize], at) {
            give_back(file, old_len);
            return Err(growth_error(path, new_len - old_len, error));
        }
        at += count;
    }
    Ok(())
}

fn growth_error(path: &Path, wanted: u64, source: io::Error) -> MediaError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            MediaError::DiskFull {
                path: path.to_path_buf(),
                wanted,
            }
        }
        _ => MediaError::Io {
            action: "grow",
            path: path.to_path_buf(),
            source,
        },
    }
}
