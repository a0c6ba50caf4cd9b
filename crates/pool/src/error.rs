//! Errors of a pool, and how to recover from them.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use halocline_media::MediaError;

use crate::{LogDamage, ObjectKind};

/// An error of a pool. Its message names the pool and the next step; what was published before is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The file does not exist.
    #[error("{} does not exist; create the pool first, or check the path", path.display())]
    NotFound {
        /// The path to open.
        path: PathBuf,
    },
    /// The file to create already exists.
    #[error("{} already exists; open it, remove it, or give another path", path.display())]
    AlreadyExists {
        /// The path to open.
        path: PathBuf,
    },
    /// The file is not a pool.
    #[error("{} is not a pool: {reason}; check the path", path.display())]
    NotAPool {
        /// The file.
        path: PathBuf,
        /// The difference from a pool.
        reason: &'static str,
    },
    /// The file is shorter than the pool in it.
    #[error(
        "{} was truncated: the pool needs {expected} bytes, the file has {actual}; restore it from a copy",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Length that the pool needs, in bytes.
        expected: u64,
        /// Length of the file, in bytes.
        actual: u64,
    },
    /// The path no longer leads to the open file.
    #[error(
        "{} was deleted, moved or replaced while it was open, so changes written now would be lost; put the \
         file back, or close the pool and open the file at that path",
        path.display()
    )]
    FileGone {
        /// The path that it was opened with.
        path: PathBuf,
    },
    /// Both superblocks that publishes write are damaged.
    #[error(
        "both superblocks of {} are damaged; run `halocline check {} --repair`, which returns to the last \
         synced state, or restore the file from a copy",
        path.display(), path.display()
    )]
    DamagedSuperblock {
        /// The file.
        path: PathBuf,
    },
    /// The directory does not match its checksum or contradicts itself.
    #[error(
        "the directory of generation {generation} of {} is damaged ({reason}); run `halocline check {} \
         --repair`, which looks for an intact older generation, or restore the file from a copy",
        path.display(), path.display()
    )]
    DamagedDirectory {
        /// The file.
        path: PathBuf,
        /// The generation it belongs to.
        generation: u64,
        /// The defect.
        reason: Cow<'static, str>,
    },
    /// The pool has a format version that this program does not support.
    #[error(
        "{} has format version {found}, but this program supports versions up to {supported}; use a newer \
         program (the pool was not changed)",
        path.display()
    )]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format version.
        found: u32,
        /// The newest supported version.
        supported: u32,
    },
    /// The pool uses features that this program must know to read it.
    #[error(
        "{} requires features that this program does not support ({features}); use a newer program (the \
         pool was not changed)",
        path.display()
    )]
    UnknownFeature {
        /// The file.
        path: PathBuf,
        /// The unknown bits with their words.
        features: String,
    },
    /// The pool uses features that this program must know to write it.
    #[error(
        "{} has features that this program does not support ({features}) and so cannot be written; open it \
         read-only (--read-only), or use a newer program (the pool was not changed)",
        path.display()
    )]
    ReadOnlyFeature {
        /// The file.
        path: PathBuf,
        /// The unknown bits with their words.
        features: String,
    },
    /// The file system is full, or the process may not write files of this size; the transaction is rolled
    /// back when it is dropped.
    #[error(
        "cannot grow {} by {wanted} bytes because its file system is full; free space on it (or raise the \
         limit `ulimit -f`), or drop an object, and retry",
        path.display()
    )]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// Bytes requested beyond its length.
        wanted: u64,
    },
    /// Another writer holds the lock of the pool.
    #[error("{} is being written by {}; wait until it is done, or end it", path.display(), holder(*pid))]
    Locked {
        /// The file.
        path: PathBuf,
        /// The process id of the writer, or `None` if it is unknown or the writer is in this process.
        pid: Option<u32>,
    },
    /// The pool was opened read-only.
    #[error("{} was opened read-only; open it for writing", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The machine went down with published but unsynced changes, any part of which may be missing.
    #[error(
        "{} has changes up to generation {newest} that were not synced when the machine went down (synced: \
         {synced}); run `halocline check {} --repair`, which keeps them if they are intact and otherwise \
         returns to the synced state",
        path.display(), path.display()
    )]
    UnsyncedAfterReboot {
        /// The file.
        path: PathBuf,
        /// The newest generation found.
        newest: u64,
        /// The newest generation that is known to be intact.
        synced: u64,
    },
    /// No generation of the pool is intact.
    #[error(
        "no generation of {} is intact: {problem}; restore it from a copy, or read the objects that `check` \
         reports as intact",
        path.display()
    )]
    BeyondRepair {
        /// The file.
        path: PathBuf,
        /// The defect of the newest generation.
        problem: String,
    },
    /// An extent does not match its checksum.
    #[error(
        "extent {extent} of object '{object}' in {} does not match its checksum: the file is damaged; run \
         `check` to list all damage, drop and import the object again, or restore the file from a copy",
        path.display()
    )]
    ChecksumMismatch {
        /// The file.
        path: PathBuf,
        /// The object's name.
        object: String,
        /// The index of the extent in the object.
        extent: usize,
    },
    /// No object has this name.
    #[error("{} has no object '{name}'; check the name, or list the objects", path.display())]
    NoSuchObject {
        /// The file.
        path: PathBuf,
        /// The requested name.
        name: String,
    },
    /// An object has no extent with this index.
    #[error(
        "object '{object}' of {} has {count} extents, so extent {extent} does not exist; read the object \
         with the program that wrote it",
        path.display()
    )]
    NoSuchExtent {
        /// The file.
        path: PathBuf,
        /// The object's name.
        object: String,
        /// The requested index.
        extent: usize,
        /// The number of its extents.
        count: usize,
    },
    /// The name is longer than a directory can hold.
    #[error(
        "the object name '{name:.40}…' has {len} bytes, but at most {max} are allowed; choose a shorter \
         name"
    )]
    NameTooLong {
        /// The name.
        name: String,
        /// Its length in bytes.
        len: usize,
        /// The maximum length in bytes.
        max: usize,
    },
    /// The name is empty or contains control characters.
    #[error("{name:?} is not a valid object name: {reason}; choose another name")]
    InvalidName {
        /// The name.
        name: String,
        /// The defect.
        reason: &'static str,
    },
    /// An object's metadata is longer than a directory can hold.
    #[error(
        "the metadata of object '{name}' has {len} bytes, but at most {max} are allowed; store bulk data in \
         extents"
    )]
    MetaTooLong {
        /// The object's name.
        name: String,
        /// Its length in bytes.
        len: usize,
        /// The maximum length in bytes.
        max: usize,
    },
    /// The extent passed to `put` belongs neither to this transaction nor to a published object.
    #[error(
        "the extent at {offset} put into object '{object}' was neither finished in this transaction nor \
         published; finish it in this transaction first"
    )]
    UnknownExtent {
        /// The object's name.
        object: String,
        /// Offset of the extent in the pool.
        offset: u64,
    },
    /// A log has too little space left for a record.
    #[error(
        "the log '{name}' of {} has {free} of {capacity} bytes left, but the record needs {wanted}; publish \
         the contents of the log and create an empty one, with a larger capacity if necessary",
        path.display()
    )]
    LogFull {
        /// The file.
        path: PathBuf,
        /// The log's name.
        name: String,
        /// Bytes that the record needs.
        wanted: u64,
        /// Remaining bytes.
        free: u64,
        /// Capacity of the log in bytes.
        capacity: u64,
    },
    /// A log ends before the record that its count says is the last.
    #[error(
        "the log '{name}' of {} is damaged at record {} (position {}), {}; it cannot be read or appended to \
         until `halocline check {} --repair` has kept the {} intact records before it, or the file is \
         restored from a copy",
        path.display(), damage.intact + 1, damage.position, lost(damage.lost), path.display(), damage.intact
    )]
    DamagedLog {
        /// The file.
        path: PathBuf,
        /// The log's name.
        name: String,
        /// The position of the damage, and the number of lost records.
        damage: LogDamage,
    },
    /// A transaction would publish a generation without the contents of the previous log.
    #[error(
        "the log '{name}' of {} has records that the transaction would lose; put their contents into other \
         objects, then create an empty log (put_log) or remove it",
        path.display()
    )]
    LogNotFolded {
        /// The file.
        path: PathBuf,
        /// The log's name.
        name: String,
    },
    /// The object is not a log.
    #[error(
        "'{name}' of {} is not a log but a {kind}; check the name, or create a log under another name \
         (put_log)",
        path.display()
    )]
    NotALog {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
        /// The kind of the object.
        kind: ObjectKind,
    },
    /// The object is, or would be, a log.
    #[error("'{name}' of {} is a log; create it with put_log and read it with log_records", path.display())]
    IsALog {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
    },
    /// The object is, or would be, a slab.
    #[error("'{name}' of {} is a slab; create it with create_slab and open it with open_slab", path.display())]
    IsASlab {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
    },
    /// The object is not a slab.
    #[error("'{name}' of {} is not a slab but a {kind}; check the name", path.display())]
    NotASlab {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
        /// The kind of the object.
        kind: ObjectKind,
    },
    /// The slab belongs to another owner.
    #[error(
        "'{name}' of {} holds a '{found}', not a '{expected}'; check the name, or open it as a '{found}'",
        path.display()
    )]
    WrongSlab {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
        /// The owner of the slab.
        found: String,
        /// The owner that it was opened for.
        expected: String,
    },
    /// A slab that is in use cannot be opened, replaced or removed.
    #[error(
        "'{name}' of {} is open in {}; wait until it is closed there, or end that", path.display(), holder(*pid)
    )]
    SlabInUse {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
        /// The process id of who has it open, or `None` if it is unknown or in this process.
        pid: Option<u32>,
    },
    /// The machine went down while a slab was being written without durable fences.
    #[error(
        "'{name}' of {} was being written and was not synced when the machine went down, so any part of the \
         last changes may be missing; check it, then accept its state or restore the file from a copy",
        path.display()
    )]
    SlabUnsynced {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
    },
    /// The head of a slab is damaged.
    #[error(
        "the slab '{name}' of {} is damaged: {reason}; open the remaining data with `halocline kv {} --name \
         NAME check --accept`, or restore the file from a copy",
        path.display(), path.display()
    )]
    DamagedSlab {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
        /// The defect.
        reason: &'static str,
    },
    /// A link in a slab is damaged.
    #[error(
        "a link to {offset} in '{name}' of {} is damaged: {reason}; restore the file from a copy",
        path.display()
    )]
    NotANode {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
        /// The target of the link.
        offset: u64,
        /// The defect.
        reason: &'static str,
    },
    /// The node size is not supported.
    #[error("'{name}' cannot have nodes of {node_size} bytes; choose a multiple of 256 up to 65536")]
    InvalidSlab {
        /// The object's name.
        name: String,
        /// The requested size in bytes.
        node_size: u32,
    },
    /// An object with the name to create already exists.
    #[error("{} already has an object '{name}'; remove it first, or choose another name", path.display())]
    AlreadyThere {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
    },
    /// No record of the log ends at this position.
    #[error(
        "no record of the log '{name}' of {} ends at position {position}; start from 0, because positions \
         are valid for one generation only",
        path.display()
    )]
    NoSuchPosition {
        /// The file.
        path: PathBuf,
        /// The log's name.
        name: String,
        /// The requested position.
        position: u64,
    },
    /// The operating system reported an error outside the medium, for locks or renames.
    #[error("cannot {action} {}: {source}; check the path, its permissions and the disk", path.display())]
    Io {
        /// The failed action, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The medium failed.
    #[error(transparent)]
    Media(MediaError),
}

impl PoolError {
    pub(crate) fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> PoolError {
        PoolError::Io {
            action,
            path: path.to_owned(),
            source: source.into(),
        }
    }
}

impl From<MediaError> for PoolError {
    fn from(error: MediaError) -> PoolError {
        match error {
            MediaError::NotFound { path } => PoolError::NotFound { path },
            MediaError::DiskFull { path, wanted } => PoolError::DiskFull { path, wanted },
            MediaError::Truncated {
                path,
                expected,
                actual,
            } => PoolError::Truncated {
                path,
                expected,
                actual,
            },
            other => PoolError::Media(other),
        }
    }
}

pub(crate) fn lost(records: Option<u64>) -> String {
    match records {
        Some(1) => "which is lost".to_owned(),
        Some(records) => format!("and {records} acknowledged records from it on are lost"),
        None => "and an unknown number of records from it on is lost".to_owned(),
    }
}

fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process or another part of this one".to_owned(),
    }
}
