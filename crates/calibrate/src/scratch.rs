//! Scratch files of a calibration: unlinked as soon as they are open, so that they disappear however the
//! process ends, and refused where they would fill the file system.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use halocline_media::{FileMedium, FileOptions, MediaError, ram_bytes};

use crate::CalibrateError;

/// Bytes that stay free, or a tenth of the file system if that is less.
const MIN_FREE_BYTES: u64 = 1 << 30;

/// Bytes of a memory file system's magic numbers: tmpfs and ramfs.
const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58F6];
const NAMES: [(u64, &str); 9] = [
    (0xEF53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58F6, "ramfs"),
    (0x9123_683E, "btrfs"),
    (0x2FC1_2FC1, "zfs"),
    (0xF2F5_2010, "f2fs"),
    (0x794C_7630, "overlayfs"),
    (0x6969, "nfs"),
];

/// The file system of a directory.
#[derive(Debug)]
pub(crate) struct FileSystem {
    /// Its type, as `ext4`, or a number in hexadecimal.
    pub(crate) name: String,
    /// True if its files are in memory only.
    pub(crate) memory: bool,
}

impl FileSystem {
    /// Examines the file system of an open file, and refuses it if `needed` more bytes would fill it.
    ///
    /// # Errors
    /// [`CalibrateError::NoSpace`], [`MediaError::Io`].
    pub(crate) fn examine(
        file: impl AsFd,
        directory: &Path,
        needed: u64,
    ) -> Result<FileSystem, CalibrateError> {
        let io = |error: rustix::io::Errno| MediaError::Io {
            action: "examine the file system of",
            path: directory.to_owned(),
            source: error.into(),
        };
        let kind = rustix::fs::fstatfs(&file).map_err(io)?.f_type as u64;
        let space = rustix::fs::fstatvfs(&file).map_err(io)?;
        let (available, total) = (
            space.f_bavail.saturating_mul(space.f_frsize),
            space.f_blocks.saturating_mul(space.f_frsize),
        );
        let kept = MIN_FREE_BYTES.min(total / 10);
        // A tmpfs without a limit reports no blocks at all.
        if total > 0 && available < needed.saturating_add(kept) {
            return Err(CalibrateError::NoSpace {
                path: directory.to_owned(),
                needed,
                kept,
                available,
            });
        }
        let name = NAMES.iter().find(|(magic, _)| *magic == kind);
        Ok(FileSystem {
            name: name.map_or_else(|| format!("{kind:#x}"), |(_, name)| (*name).to_owned()),
            memory: MEMORY.contains(&kind),
        })
    }
}

/// Fails unless `needed` bytes are at most half of the free memory.
pub(crate) fn check_memory(needed: u64) -> Result<(), CalibrateError> {
    let available = free_memory() / 2;
    if needed > available {
        return Err(CalibrateError::NoMemory { needed, available });
    }
    Ok(())
}

/// Returns the bytes of memory that are free or hold pages that can be dropped.
pub(crate) fn free_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes = text.lines().find_map(|line| {
        let rest = line.strip_prefix("MemAvailable:")?;
        rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    let limit = ram_bytes();
    kibibytes.map_or(limit, |kibibytes| limit.min(kibibytes * 1024))
}

/// Returns the bytes of the largest cache of the first CPU, or 0 if the system does not tell.
pub(crate) fn cache_bytes() -> u64 {
    let size = |index: u32| -> Option<u64> {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = fs::read_to_string(path).ok()?;
        let kibibytes: u64 = text.trim().strip_suffix('K')?.parse().ok()?;
        Some(kibibytes << 10)
    };
    (0..8).filter_map(size).max().unwrap_or(0)
}

/// Fails unless the path is a directory.
pub(crate) fn check_directory(path: &Path) -> Result<(), CalibrateError> {
    let found = fs::metadata(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => MediaError::NotFound {
            path: path.to_owned(),
        },
        _ => MediaError::Io {
            action: "examine",
            path: path.to_owned(),
            source,
        },
    })?;
    if found.is_dir() {
        Ok(())
    } else {
        Err(CalibrateError::NotADirectory {
            path: path.to_owned(),
        })
    }
}

/// Creates an empty medium in the directory, in a file without a name.
pub(crate) fn medium(directory: &Path) -> Result<FileMedium, MediaError> {
    let path = new_name(directory);
    let options = FileOptions {
        create: true,
        ..FileOptions::default()
    };
    let opened = FileMedium::open(&path, &options);
    let removed = remove(&path);
    let medium = opened?;
    removed.map(|()| medium)
}

/// Creates an empty file without a name in the directory, for direct I/O if the file system supports it.
/// Returns true with it if so.
pub(crate) fn file(directory: &Path) -> Result<(File, bool), MediaError> {
    let path = new_name(directory);
    let create = |flags: i32| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        options.custom_flags(flags).open(&path)
    };
    if let Ok(file) = create(libc::O_DIRECT) {
        return remove(&path).map(|()| (file, true));
    }
    // The failed call may have created the file.
    let _ = fs::remove_file(&path);
    let opened = create(0);
    let file = opened.map_err(|source| MediaError::Io {
        action: "create",
        path: path.clone(),
        source,
    })?;
    remove(&path).map(|()| (file, false))
}

fn new_name(directory: &Path) -> PathBuf {
    directory.join(format!(
        ".halocline-calibrate-{}-{:016x}",
        std::process::id(),
        RandomState::new().hash_one(directory)
    ))
}

fn remove(path: &Path) -> Result<(), MediaError> {
    fs::remove_file(path).map_err(|source| MediaError::Io {
        action: "remove",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use halocline_media::{MediumAccess, MediumBackend};

    use super::*;

    #[test]
    fn scratch_files_have_no_names() {
        let folder = tempfile::tempdir().unwrap();
        let medium = medium(folder.path()).unwrap();
        medium.grow(1 << 20).unwrap();
        medium.store_u64(0, 5);
        let (_file, _direct) = file(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_system_is_not_filled() {
        let folder = tempfile::tempdir().unwrap();
        let (file, _) = file(folder.path()).unwrap();
        assert!(
            !FileSystem::examine(&file, folder.path(), 1)
                .unwrap()
                .name
                .is_empty()
        );
        let error = FileSystem::examine(&file, folder.path(), 1 << 60).unwrap_err();
        let CalibrateError::NoSpace { needed, kept, .. } = error else {
            panic!("{error}");
        };
        assert!(needed == 1 << 60 && kept <= MIN_FREE_BYTES);
    }

    #[test]
    fn memory_and_directories_are_checked() {
        assert!(check_memory(1).is_ok() && free_memory() > 0);
        assert!(matches!(
            check_memory(u64::MAX),
            Err(CalibrateError::NoMemory { .. })
        ));
        let folder = tempfile::tempdir().unwrap();
        assert!(check_directory(folder.path()).is_ok());
        let path = folder.path().join("f");
        let error = check_directory(&path).unwrap_err();
        assert!(matches!(
            error,
            CalibrateError::Media(MediaError::NotFound { .. })
        ));
        fs::write(&path, "").unwrap();
        let error = check_directory(&path).unwrap_err();
        assert!(error.to_string().contains("is not a directory"), "{error}");
    }
}
