//! The interface through which the registry creates and opens a tree of any kind.

use halocline_pool::{Pool, PoolError, ReserveUse, SlabOptions};

use crate::open_mode::OpenMode;
use crate::{OrderedIndex, TreeError};

/// Default of the minimum number of bytes that a tree allocates from the pool at a time.
pub(crate) const DEFAULT_CHUNK: u64 = 256 << 10;

/// The space of a new tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeSpace {
    /// Minimum number of bytes that the tree allocates from the pool at a time.
    pub(crate) chunk: u64,
    /// Set if the first of them may come from the reserve of the pool.
    pub(crate) reserve_use: Option<ReserveUse>,
}

impl TreeSpace {
    /// Returns the space of a tree that does not take the reserve.
    pub(crate) fn of_chunks(chunk: u64) -> TreeSpace {
        TreeSpace {
            chunk,
            reserve_use: None,
        }
    }

    /// Creates the slab of a tree, and closes it.
    pub(crate) fn create_slab(
        self,
        pool: &Pool,
        name: &str,
        node_size: u32,
        owner: [u8; 8],
    ) -> Result<(), PoolError> {
        let options = SlabOptions {
            node_size,
            owner,
            chunk: self.chunk,
        };
        let created = match self.reserve_use {
            None => pool.create_slab(name, &options),
            Some(purpose) => pool.create_slab_using_reserve(name, &options, purpose),
        };
        created.map(drop)
    }
}

/// A tree type that the registry can create and open.
pub(crate) trait StoredTree: OrderedIndex + Sized + 'static {
    /// Owner tag of its slab.
    const OWNER: [u8; 8];

    /// Creates an empty tree with default options.
    fn create_stored(pool: &Pool, name: &str, space: TreeSpace) -> Result<Self, TreeError>;

    /// Opens a tree with default options.
    fn open_stored(pool: &Pool, name: &str, open_mode: OpenMode) -> Result<Self, TreeError>;
}
