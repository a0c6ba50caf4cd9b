//! Temporary files that an import writes.

use std::fmt::Debug;
use std::fs::File;
use std::io;

/// Makes temporary files.
pub trait TemporaryFiles: Debug + Send + Sync {
    /// Creates a file that is gone when it is closed.
    ///
    /// # Errors
    /// That of the system, with the name of the directory.
    fn file(&self) -> io::Result<File>;
}

/// Files in the directory of the system.
#[cfg(test)]
#[derive(Debug)]
pub(super) struct SystemFiles;

#[cfg(test)]
impl TemporaryFiles for SystemFiles {
    fn file(&self) -> io::Result<File> {
        tempfile::tempfile()
    }
}
