//! Errors of the server.

use std::io;
use std::path::PathBuf;

use halocline_cache::CacheError;
use halocline_media::MediaError;
use halocline_ordered::TreeError;
use halocline_pool::PoolError;
use halocline_store::StoreError;

/// An error of the server or of one of its commands.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemcachedError {
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An error of the pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// An error of a tree.
    #[error(transparent)]
    Tree(TreeError),
    /// An error of the medium.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// An error of a storage that is not of this crate.
    #[error("the storage of the items failed: {0}")]
    Storage(Box<dyn std::error::Error + Send + Sync>),
    /// The pool has items in another storage than the one that was asked for.
    #[error(
        "the items of {path} are {found}, not in trees of kind `{asked}`; start without --tree to use what the \
         pool has, or with another pool"
    )]
    OtherStorage {
        /// Path of the pool.
        path: PathBuf,
        /// Where they are.
        found: String,
        /// The kind of tree that was asked for.
        asked: &'static str,
    },
    /// The record of an item is damaged.
    #[error("the record at offset {offset} of {path} is damaged: {reason}; the item is lost, store it again")]
    DamagedRecord {
        /// Path of the pool.
        path: PathBuf,
        /// Offset of the record.
        offset: u64,
        /// Description of the damage.
        reason: &'static str,
    },
    /// An error of a cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The value of a key was not written by this server.
    #[error("the value is no item; keys of the stores `memcached/...` belong to the server")]
    NoItem,
    /// An address or socket cannot be listened on.
    #[error("cannot listen on {at}: {source}")]
    Listen {
        /// The address or path.
        at: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A file of users, certificates or keys cannot be used.
    #[error("{path}: {reason}")]
    File {
        /// Its path.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// An error of the system.
    #[error("{what}: {source}")]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

impl From<TreeError> for MemcachedError {
    fn from(error: TreeError) -> MemcachedError {
        match error {
            TreeError::Pool(error) => MemcachedError::Pool(error),
            TreeError::Media(error) => MemcachedError::Media(error),
            error => MemcachedError::Tree(error),
        }
    }
}

impl MemcachedError {
    /// Returns true if the disk is full. Nothing was changed then.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            MemcachedError::Store(error) => error.is_full(),
            MemcachedError::Pool(error) => matches!(error, PoolError::DiskFull { .. }),
            _ => false,
        }
    }
}

/// The result of an operation of the server.
pub(crate) type Result<T> = std::result::Result<T, MemcachedError>;
