//! What can go wrong with a medium, and what to do about it.

use std::io;
use std::path::PathBuf;

/// An error of a medium. Each names the path or the number that is needed to act on it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The file to open does not exist.
    #[error("{} does not exist; create it first, or check the path", path.display())]
    NotFound {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The path names a directory, a device or a pipe.
    #[error("{} is not a regular file; give the path of a file", path.display())]
    NotAFile {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The file system has not enough room, or the process may not write files of this size; nothing was changed, and the
    /// call may be repeated once there is room.
    #[error(
        "no room for {} to grow by {wanted} bytes; free some space on its file system (or raise the limit `ulimit -f`) \
         and try again",
        path.display()
    )]
    DiskFull {
        /// The file that was to grow.
        path: PathBuf,
        /// Bytes that were wanted beyond what the file already has.
        wanted: u64,
    },
    /// The medium was opened to be read only.
    #[error("{name} was opened read-only; open it for writing")]
    ReadOnly {
        /// The file's path, or the kind of a medium without one.
        name: String,
    },
    /// The file has become shorter than what is mapped of it. Bytes behind its end must not be touched.
    #[error(
        "{} was cut off: it has {actual} bytes, {expected} are in use; restore it from a copy and open it again",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes that were mapped.
        expected: u64,
        /// Bytes the file has now.
        actual: u64,
    },
    /// The medium would outgrow the addresses set aside for it when it was opened.
    #[error(
        "{wanted} bytes do not fit the {reserved} bytes of addresses reserved; open it with a larger `reserve`"
    )]
    AddressSpace {
        /// The length that was wanted, in bytes.
        wanted: u64,
        /// The addresses reserved, in bytes.
        reserved: u64,
    },
    /// The operating system gives no (more) memory or addresses.
    #[error(
        "the system gives no {bytes} bytes of memory: {source}; lower the memory budget or raise `ulimit -v`"
    )]
    OutOfMemory {
        /// Bytes that were asked for.
        bytes: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// The operating system reported an error for the file.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// An earlier I/O error left it unknown what is durable: close the medium and open it again.
    #[error(
        "{name} failed earlier and takes no more writes ({first}); close it, look after the disk, open it again"
    )]
    Poisoned {
        /// The file's path, or the kind of a medium without one.
        name: String,
        /// The text of the first error.
        first: String,
    },
}
