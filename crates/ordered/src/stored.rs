//! The interface through which the registry creates and opens a tree of any kind.

use halocline_pool::Pool;

use crate::open_mode::OpenMode;
use crate::{OrderedIndex, TreeError};

/// Default of the minimum number of bytes that a tree allocates from the pool at a time.
pub(crate) const DEFAULT_CHUNK: u64 = 256 << 10;

/// A tree type that the registry can create and open.
pub(crate) trait StoredTree: OrderedIndex + Sized + 'static {
    /// Owner tag of its slab.
    const OWNER: [u8; 8];

    /// Creates an empty tree with default options, whose slab grows by at least `chunk` bytes at a time.
    fn create_stored(pool: &Pool, name: &str, chunk: u64) -> Result<Self, TreeError>;

    /// Opens a tree with default options.
    fn open_stored(pool: &Pool, name: &str, open_mode: OpenMode) -> Result<Self, TreeError>;
}
