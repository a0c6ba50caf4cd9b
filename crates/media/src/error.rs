//! Errors of a medium, and how to recover from them.

use std::io;
use std::path::PathBuf;

/// An error of a medium. Its message contains the path or the number that is needed to act on it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The file to open does not exist.
    #[error("{} does not exist; create it first, or check the path", path.display())]
    NotFound {
        /// The path to open.
        path: PathBuf,
    },
    /// The path names a directory, a device or a pipe.
    #[error("{} is not a regular file; give the path of a file", path.display())]
    NotAFile {
        /// The path to open.
        path: PathBuf,
    },
    /// The file system lacks space, or the process may not write files of this size. Nothing was changed, and
    /// the call may be repeated once there is space.
    #[error(
        "cannot grow {} by {wanted} bytes because its file system is full; \
         free space on it (or raise the limit `ulimit -f`) and try again",
        path.display()
    )]
    DiskFull {
        /// The file that was to grow.
        path: PathBuf,
        /// Bytes requested beyond what the file already has.
        wanted: u64,
    },
    /// The medium was opened for reading only.
    #[error("{name} was opened read-only; open it for writing")]
    ReadOnly {
        /// The file's path, or the kind of a medium without one.
        name: String,
    },
    /// The file has become shorter than its mapping. Bytes past its end must not be touched.
    #[error(
        "{} was truncated while it was open: it has {actual} bytes instead of {expected}; \
         restore it from a copy and open it again",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Mapped bytes.
        expected: u64,
        /// Current length of the file, in bytes.
        actual: u64,
    },
    /// The medium would outgrow the address space that was reserved when it was opened.
    #[error(
        "cannot grow to {wanted} bytes because {reserved} bytes of address space are reserved; \
         open the medium with a larger `reserve`"
    )]
    AddressSpace {
        /// The requested length, in bytes.
        wanted: u64,
        /// The reserved address space, in bytes.
        reserved: u64,
    },
    /// The operating system provides no more memory or address space.
    #[error(
        "cannot allocate {bytes} bytes of memory: {source}; lower the memory budget or raise `ulimit -v`"
    )]
    OutOfMemory {
        /// Requested bytes.
        bytes: u64,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The operating system reported an error for the file.
    #[error("cannot {action} {}: {source}; check the path, its permissions and the disk", path.display())]
    Io {
        /// The failed action, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// After an earlier I/O error it is unknown what is durable. Close the medium and open it again.
    #[error(
        "{name} accepts no more writes after an earlier error ({first}); close it, check the disk, and open it again"
    )]
    Poisoned {
        /// The file's path, or the kind of a medium without one.
        name: String,
        /// The text of the first error.
        first: String,
    },
}
