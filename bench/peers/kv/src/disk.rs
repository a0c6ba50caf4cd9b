//! Files and directories: their size, and the kind of file system.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The type of a tmpfs in statfs(2).
const TMPFS_MAGIC: i128 = 0x0102_1994;
/// The unit of `st_blocks`.
const BLOCK: u64 = 512;

/// Returns true if `path` is on a tmpfs.
pub(crate) fn is_tmpfs(path: &Path) -> Result<bool> {
    let found = rustix::fs::statfs(path).with_context(|| path.display().to_string())?;
    Ok(i128::from(found.f_type) == TMPFS_MAGIC)
}

/// Returns the bytes of the blocks that the files below a directory occupy; holes do not count.
pub(crate) fn allocated_bytes(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // Stores delete files in the background, between the listing and this call.
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes += allocated_bytes(&entry.path())?,
            Ok(metadata) => bytes += metadata.blocks() * BLOCK,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// A directory that is removed with all its files when the value is dropped.
pub(crate) struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    /// Creates an empty directory in `parent`. All systems get the same one, one after another.
    pub(crate) fn create(parent: &Path) -> Result<Self> {
        let path = parent.join(format!("halocline-kv-peers-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // A directory that stays behind is in temporary storage; there is nothing better to do.
        let _ = fs::remove_dir_all(&self.0);
    }
}
