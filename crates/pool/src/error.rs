//! What can go wrong with a pool, and what to do about it.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use halocline_media::MediaError;

use crate::{LogDamage, ObjectKind};

/// An error of a pool. Each names the pool and what to do next; whatever was published before stays as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// There is no such file.
    #[error("{} does not exist; create the pool first, or check the path", path.display())]
    NotFound {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The file to create a pool in exists.
    #[error("{} exists and is not overwritten; open it, remove it, or give another path", path.display())]
    AlreadyExists {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{} is not a pool: {reason}; check the path", path.display())]
    NotAPool {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        reason: &'static str,
    },
    /// The file is shorter than the pool in it.
    #[error("{} was cut off: the pool needs {expected} bytes, the file has {actual}; restore it from a copy", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes the pool needs.
        expected: u64,
        /// Bytes the file has.
        actual: u64,
    },
    /// The path leads to no file any more, or to another one.
    #[error(
        "the file of {} was deleted, moved or replaced while it was open: nothing that is written now would be found again; \
         put the file back, or close the pool and open what is there",
        path.display()
    )]
    FileGone {
        /// The path that it was opened with.
        path: PathBuf,
    },
    /// Both superblocks that publishes write are damaged.
    #[error(
        "both superblocks of {} are damaged; `repair` goes back to the last synced state, or restore it from a copy",
        path.display()
    )]
    DamagedSuperblock {
        /// The file.
        path: PathBuf,
    },
    /// The directory does not match its checksum or contradicts itself.
    #[error(
        "the directory of generation {generation} of {} is damaged ({reason}); `repair` looks for an intact older one, or \
         restore it from a copy",
        path.display()
    )]
    DamagedDirectory {
        /// The file.
        path: PathBuf,
        /// The generation it belongs to.
        generation: u64,
        /// What is wrong.
        reason: Cow<'static, str>,
    },
    /// A newer program wrote the pool.
    #[error(
        "{} has format version {found}, this program reads up to {supported}; use a newer program, the pool was left as it is",
        path.display()
    )]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version this program knows.
        supported: u32,
    },
    /// A newer program wrote the pool, in a way that no other can read.
    #[error(
        "{} needs features that this program does not know ({features}); use a newer program, the pool was left as it is",
        path.display()
    )]
    UnknownFeature {
        /// The file.
        path: PathBuf,
        /// The bits that are not known, with their words.
        features: String,
    },
    /// A newer program wrote the pool, in a way that others can read and not write.
    #[error(
        "{} has features that this program does not know ({features}) and so cannot write: open it read-only (--read-only), or use a newer program; the pool was left as it is",
        path.display()
    )]
    ReadOnlyFeature {
        /// The file.
        path: PathBuf,
        /// The bits that are not known, with their words.
        features: String,
    },
    /// The file system is full, or the process may not write files of this size; the transaction is rolled back when it
    /// is dropped.
    #[error(
        "no room for {} to grow by {wanted} bytes; free some space on its file system (or raise the limit `ulimit -f`), \
         or drop an object and retry",
        path.display()
    )]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// Bytes that were wanted beyond its length.
        wanted: u64,
    },
    /// Another writer has the pool.
    #[error("{} is being written by {}; wait until it is done, or end it", path.display(), holder(*pid))]
    Locked {
        /// The file.
        path: PathBuf,
        /// The other process, where the system tells; unknown also if the writer is in this process.
        pid: Option<u32>,
    },
    /// The pool was opened read-only.
    #[error("{} was opened read-only; open it for writing", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The machine went down with published but unsynced changes, of which any part may be missing.
    #[error(
        "{} holds changes up to generation {newest} that were not synced when the machine went down (synced: {synced}); \
         run `repair`: it keeps them if they are intact, or else goes back to the synced state",
        path.display()
    )]
    UnsyncedAfterReboot {
        /// The file.
        path: PathBuf,
        /// The newest generation found.
        newest: u64,
        /// The newest generation that is certain to be intact.
        synced: u64,
    },
    /// No generation of the pool is intact.
    #[error("no generation of {} is intact: {problem}; restore it from a copy, or read what `check` finds intact", path.display())]
    BeyondRepair {
        /// The file.
        path: PathBuf,
        /// What is wrong with the newest.
        problem: String,
    },
    /// An extent does not match its checksum.
    #[error(
        "extent {extent} of object '{object}' in {} does not match its checksum: the file is damaged; run `check` for all \
         damage, drop and import the object again, or restore the file from a copy",
        path.display()
    )]
    ChecksumMismatch {
        /// The file.
        path: PathBuf,
        /// The object's name.
        object: String,
        /// Which of its extents.
        extent: usize,
    },
    /// There is no object of this name.
    #[error("{} has no object '{name}'; check the name, or list the objects", path.display())]
    NoSuchObject {
        /// The file.
        path: PathBuf,
        /// The name that was asked for.
        name: String,
    },
    /// An object has fewer extents.
    #[error("object '{object}' of {} has {count} extents, number {extent} was asked for; it was written by another program", path.display())]
    NoSuchExtent {
        /// The file.
        path: PathBuf,
        /// The object's name.
        object: String,
        /// The extent that was asked for.
        extent: usize,
        /// How many it has.
        count: usize,
    },
    /// The name is longer than a directory can hold.
    #[error("the object name '{name:.40}…' has {len} bytes, {max} are allowed; choose a shorter one")]
    NameTooLong {
        /// The name.
        name: String,
        /// Its length in bytes.
        len: usize,
        /// The most that is allowed.
        max: usize,
    },
    /// The name is empty or holds control characters.
    #[error("{name:?} cannot name an object: {reason}; choose another")]
    InvalidName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An object's metadata is longer than a directory can hold.
    #[error("the metadata of object '{name}' has {len} bytes, {max} are allowed; put bulk data into extents")]
    MetaTooLong {
        /// The object's name.
        name: String,
        /// Its length in bytes.
        len: usize,
        /// The most that is allowed.
        max: usize,
    },
    /// The extent given to `put` is neither of this transaction nor of a published object.
    #[error(
        "the extent at {offset} put into object '{object}' was not written in this transaction and is not published"
    )]
    UnknownExtent {
        /// The object's name.
        object: String,
        /// Where the extent starts.
        offset: u64,
    },
    /// A log has no room for a record.
    #[error(
        "the log '{name}' of {} has {free} of {capacity} bytes left, a record takes {wanted}; publish what the log holds and \
         name an empty one, of a larger capacity if need be",
        path.display()
    )]
    LogFull {
        /// The file.
        path: PathBuf,
        /// The log's name.
        name: String,
        /// Bytes the record takes.
        wanted: u64,
        /// Bytes that are left.
        free: u64,
        /// Bytes of the log.
        capacity: u64,
    },
    /// A log ends before the record that its count says is the last.
    #[error(
        "the log '{name}' of {} is damaged at record {} (position {}), {}: nothing is read from it or appended to it until \
         `repair` has kept the {} intact records before it, or the file is restored from a copy",
        path.display(), damage.intact + 1, damage.position, lost(damage.lost), damage.intact
    )]
    DamagedLog {
        /// The file.
        path: PathBuf,
        /// The log's name.
        name: String,
        /// Where, and what is lost.
        damage: LogDamage,
    },
    /// A transaction was to publish a generation without what the log of the one before holds.
    #[error(
        "the log '{name}' of {} holds records that the transaction would lose; put what they say into other objects, then \
         name an empty log (put_log) or remove it",
        path.display()
    )]
    LogNotFolded {
        /// The file.
        path: PathBuf,
        /// The log's name.
        name: String,
    },
    /// The object is no log.
    #[error("'{name}' of {} is no log, but a {kind}; check the name, or make a log of another name (put_log)", path.display())]
    NotALog {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
        /// What it is.
        kind: ObjectKind,
    },
    /// The object is, or would be, a log.
    #[error("'{name}' of {} is a log: make it with put_log, read it with log_records", path.display())]
    IsALog {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
    },
    /// The object is, or would be, a slab.
    #[error("'{name}' of {} is a slab of nodes: make it with create_slab, open it with open_slab", path.display())]
    IsASlab {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
    },
    /// The object is no slab.
    #[error("'{name}' of {} is no slab of nodes, but a {kind}; check the name", path.display())]
    NotASlab {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
        /// What it is.
        kind: ObjectKind,
    },
    /// The nodes of the slab are another structure's.
    #[error("'{name}' of {} holds a '{found}', not a '{expected}'; check the name, or open it as what it is", path.display())]
    WrongSlab {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
        /// What it says it holds.
        found: String,
        /// What it was opened as.
        expected: String,
    },
    /// A slab is opened, replaced or removed while someone has it open.
    #[error("'{name}' of {} is open here or in another process; close it there first", path.display())]
    SlabInUse {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
    },
    /// The machine went down while a slab was being written without durable fences.
    #[error(
        "'{name}' of {} was being written when the machine went down, and not synced: any part of the last changes may be \
         missing; check it, and accept what is there or restore the file from a copy",
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
        "the slab '{name}' of {} is damaged: {reason}; `halocline kv {} --name NAME check --accept` opens what is there, or \
         restore the file from a copy",
        path.display(), path.display()
    )]
    DamagedSlab {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
        /// What is wrong with it.
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
        /// Where the link leads.
        offset: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The nodes of a slab cannot have this size.
    #[error("nodes of {node_size} bytes in '{name}' are not possible; choose a multiple of 256 up to 65536")]
    InvalidSlab {
        /// The object's name.
        name: String,
        /// The size that was wanted.
        node_size: u32,
    },
    /// There is an object of the name of the one to create.
    #[error("{} has an object '{name}'; remove it first, or choose another name", path.display())]
    AlreadyThere {
        /// The file.
        path: PathBuf,
        /// The object's name.
        name: String,
    },
    /// No record of the log ends at this position.
    #[error(
        "no record of the log '{name}' of {} ends at {position}; start from 0, positions are those of one generation",
        path.display()
    )]
    NoSuchPosition {
        /// The file.
        path: PathBuf,
        /// The log's name.
        name: String,
        /// The position that was asked for.
        position: u64,
    },
    /// The operating system reported an error beside the mapping: for locks, renames.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
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
        Some(records) => format!("which is lost with all behind it, {records} acknowledged records"),
        None => "which is lost with all behind it; how many there were is not known".to_owned(),
    }
}

fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process or another part of this one".to_owned(),
    }
}
