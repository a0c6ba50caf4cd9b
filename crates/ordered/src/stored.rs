//! The interface through which the registry creates and opens a tree of any kind.

use halocline_pool::Pool;

use crate::open_mode::OpenMode;
use crate::{OrderedIndex, TreeError};

/// The least bytes of the pool that a tree takes at a time, unless said otherwise.
pub(crate) const DEFAULT_CHUNK: u64 = 256 << 10;

/// A tree that can be picked by its kind.
pub(crate) trait StoredTree: OrderedIndex + Sized + 'static {
    /// What its slab says it holds.
    const OWNER: [u8; 8];

    /// Creates an empty one with default options, whose slab takes at least `chunk` bytes at a time.
    fn create_stored(pool: &Pool, name: &str, chunk: u64) -> Result<Self, TreeError>;

    /// Opens one with default options.
    fn open_stored(pool: &Pool, name: &str, open_mode: OpenMode) -> Result<Self, TreeError>;
}
