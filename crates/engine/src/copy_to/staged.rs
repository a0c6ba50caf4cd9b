//! A file that is written beside the name it is to have.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use halocline_sql::EngineError;

use super::cannot_write;

/// Tells the files of this process apart.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A file under a temporary name, which is removed with it unless it is published.
#[derive(Debug)]
pub(super) struct StagedFile {
    file: File,
    temporary: PathBuf,
    /// The path that the user gave.
    named: PathBuf,
    /// The path that it resolves to.
    target: PathBuf,
    published: bool,
}

impl StagedFile {
    /// Creates the file that is to be `named`, and the directories that lead to it.
    ///
    /// # Errors
    /// [`EngineError::CannotWrite`].
    pub(super) fn create(named: &Path) -> Result<Self, EngineError> {
        Self::try_create(named).map_err(|error| cannot_write(named, error))
    }

    fn try_create(named: &Path) -> io::Result<Self> {
        let permissions = match fs::metadata(named) {
            Ok(found) if !found.is_file() => return Err(io::Error::other("it is not a regular file")),
            Ok(found) if found.permissions().readonly() => {
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "it may not be written",
                ));
            }
            Ok(found) => Some(found.permissions()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let target = match permissions {
            Some(_) => fs::canonicalize(named)?,
            None => named.to_owned(),
        };
        let directory = target.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = directory.join(format!(".{}-{number}.part", process::id()));
        let file = File::options().write(true).create_new(true).open(&temporary)?;
        let staged = Self {
            file,
            temporary,
            named: named.to_owned(),
            target,
            published: false,
        };
        if let Some(permissions) = permissions {
            staged.file.set_permissions(permissions)?;
        }
        Ok(staged)
    }

    /// Returns the name it has until then.
    pub(super) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Returns the name it is to have, links followed.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    /// Writes bytes at an offset.
    ///
    /// # Errors
    /// [`EngineError::CannotWrite`].
    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> Result<(), EngineError> {
        let written = self.file.write_all_at(bytes, offset);
        written.map_err(|error| cannot_write(&self.named, error))
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// [`EngineError::CannotWrite`].
    pub(super) fn publish(mut self) -> Result<(), EngineError> {
        fs::rename(&self.temporary, &self.target).map_err(|error| cannot_write(&self.named, error))?;
        self.published = true;
        Ok(())
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if !self.published {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
