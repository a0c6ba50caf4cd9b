//! Errors of the stores: [`StoreError`].

use std::path::PathBuf;

use halocline_media::MediaError;
use halocline_pool::PoolError;

use crate::layout::{MAX_KEY, MAX_VALUE};

/// The result of an operation on a store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// An error of an operation on a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The key has more bytes than [`MAX_KEY`].
    #[error("a key of {len} bytes for store '{store}' exceeds the maximum of {MAX_KEY} bytes; shorten it")]
    KeyTooLong {
        /// The store.
        store: String,
        /// The key's length in bytes.
        len: usize,
    },
    /// The value has more bytes than [`MAX_VALUE`].
    #[error(
        "a value of {len} bytes for store '{store}' exceeds the maximum of {MAX_VALUE} bytes; split it over several \
         keys"
    )]
    ValueTooLong {
        /// The store.
        store: String,
        /// The value's length in bytes.
        len: usize,
    },
    /// The name of a store is empty or too long.
    #[error("'{name}' cannot be the name of a store: use 1 to 255 bytes without control characters")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// There is no store of this name.
    #[error("there is no store '{name}' in {}", path.display())]
    NoSuchStore {
        /// The pool.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// There is a store of the name of one that is loaded.
    #[error("there is a store '{name}' already; drop it first, or choose another name")]
    StoreExists {
        /// The name.
        name: String,
    },
    /// A pair that is loaded has the key of another one.
    #[error("pair {pair} for store '{store}' has the key of an earlier one; give one pair for each key")]
    DuplicateKey {
        /// The store.
        store: String,
        /// The key.
        key: Vec<u8>,
        /// The number of the later pair among those given, from 1.
        pair: u64,
    },
    /// A temporary file of a load could not be written or read.
    #[error("a load could not sort its pairs in a temporary file: {source}")]
    Spill {
        /// The error of the system.
        source: std::io::Error,
    },
    /// A pair that is loaded has a smaller key than the one before.
    #[error("the pairs for store '{store}' are not in the order of their keys; sort them first")]
    NotAscending {
        /// The store.
        store: String,
    },
    /// A load was cancelled.
    #[error("the load was cancelled; nothing was written")]
    Cancelled,
    /// The store was dropped while this handle to it existed.
    #[error("store '{name}' was dropped; open it again")]
    Dropped {
        /// The name.
        name: String,
    },
    /// The store is one of another pool, or of one that was opened again.
    #[error("store '{store}' was not opened by these stores; open it through the handle that is used")]
    Foreign {
        /// The name.
        store: String,
    },
    /// Another transaction changed something that this one has read.
    #[error("another transaction changed {what} of store '{store}' meanwhile; run the transaction again")]
    Conflict {
        /// The store.
        store: String,
        /// The key or the range, for messages.
        what: String,
    },
    /// The store has no merge operator.
    #[error("store '{store}' has no merge operator, which merging values needs; give it one first")]
    NoMergeOperator {
        /// The store.
        store: String,
    },
    /// The merge operator of the store panicked.
    #[error("the merge operator of store '{store}' panicked; nothing was written")]
    MergePanicked {
        /// The store.
        store: String,
    },
    /// Durable bytes are not what was written.
    #[error("damaged stores in {}: {what} at offset {offset}; restore a backup, or salvage with `check`", path.display())]
    Damaged {
        /// The pool.
        path: PathBuf,
        /// Offset in the pool.
        offset: u64,
        /// The damage.
        what: &'static str,
    },
    /// The stores were written by a newer program.
    #[error("the stores in {} have format {found}, and this program reads up to {supported}; update it", path.display())]
    NewerFormat {
        /// The pool.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format that this program reads.
        supported: u32,
    },
    /// The stores are open for reading only.
    #[error("the stores in {} are open for reading; open them for writing to change them", path.display())]
    ReadOnly {
        /// The pool.
        path: PathBuf,
    },
    /// The pool has no stores that could be read.
    #[error("there are no stores in {}; they are created when they are first opened for writing", path.display())]
    NoStores {
        /// The pool.
        path: PathBuf,
    },
    /// The state that a reader beside the writer sees is gone.
    #[error(
        "the stores in {} were opened for writing again, which ended the state that was read here; read again, from a \
         newer state on", path.display()
    )]
    Stale {
        /// The pool.
        path: PathBuf,
    },
    /// A writer uses space again faster than a reader beside it can read.
    #[error(
        "the process that writes the stores in {} used space again {attempts} times while it was read here; read again \
         when it writes less, or read fewer keys at once", path.display()
    )]
    Overtaken {
        /// The pool.
        path: PathBuf,
        /// Number of attempts.
        attempts: u32,
    },
    /// A transaction that changed tables and stores was interrupted after its commit.
    #[error(
        "a process was killed while it committed to the stores in {}, and who has had them open for reading since then cannot \
         see the commit; open them again, for reading or for writing", path.display()
    )]
    Interrupted {
        /// The pool.
        path: PathBuf,
    },
    /// An earlier write failed, and it is unknown what is durable.
    #[error("an earlier write to the stores failed ({reason}); open the pool again")]
    Poisoned {
        /// The first error.
        reason: String,
    },
    /// The thread for maintenance could not be started.
    #[error(
        "the thread that maintains the stores could not be started; open them without one, or free resources"
    )]
    Thread {
        /// The error of the system.
        source: std::io::Error,
    },
    /// The pool refused an operation.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The medium refused an operation.
    #[error(transparent)]
    Media(#[from] MediaError),
}

impl StoreError {
    /// Returns true if the disk is full. Nothing has changed then.
    pub fn is_full(&self) -> bool {
        matches!(self, StoreError::Pool(PoolError::DiskFull { .. }))
    }
}
