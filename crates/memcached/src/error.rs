//! Errors of the server.

use std::io;
use std::path::PathBuf;

use halocline_cache::CacheError;
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
    /// An error of the eviction policy.
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

/// The result of an operation of the server.
pub(crate) type Result<T> = std::result::Result<T, MemcachedError>;
