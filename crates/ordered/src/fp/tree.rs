//! The public FPTree: creating and opening.

use halocline_pool::Pool;

use crate::TreeError;
use crate::facade::is_index;
use crate::hybrid::{HybridTree, LeafFormat};
use crate::open_mode::OpenMode;
use crate::stored::{DEFAULT_CHUNK, StoredTree, TreeSpace};

use super::leaves::FpLeafFormat;

/// Options of an [`FpTree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FpOptions {
    /// Minimum number of bytes that a new tree allocates from the pool at a time.
    pub chunk: u64,
}

impl Default for FpOptions {
    fn default() -> FpOptions {
        FpOptions { chunk: DEFAULT_CHUNK }
    }
}

/// An FPTree, with leaves of 56 entries in 1 KiB.
///
/// Average costs including splits: an insert writes 2.3 lines and waits for 2.0 fences. An update costs
/// the same, or one line and one fence in a full leaf. A removal costs one line and one fence.
#[derive(Debug)]
pub struct FpTree(pub(crate) HybridTree<FpLeafFormat>);

impl FpTree {
    /// Creates an empty tree as an object with this name.
    ///
    /// # Errors
    /// [`TreeError::Pool`], as [`Pool::create_slab`].
    pub fn create(pool: &Pool, name: &str, options: FpOptions) -> Result<FpTree, TreeError> {
        Self::create_stored(pool, name, TreeSpace::of_chunks(options.chunk))
    }

    /// Opens a tree and completes the changes recorded in its micro-logs. One that is intact and has at least
    /// 4,096 leaves is opened from a checkpoint, without reading its leaves; the first operation in each
    /// block of about a thousand leaves reads the block. Otherwise all leaves are read, using all cores,
    /// in time linear in their number. A tree with damaged leaves can be opened; operations that need
    /// them fail.
    ///
    /// # Errors
    /// [`TreeError::Pool`], as [`Pool::open_slab`], and if the links between leaves are damaged;
    /// [`TreeError::Damaged`] if a micro-log is.
    pub fn open(pool: &Pool, name: &str) -> Result<FpTree, TreeError> {
        HybridTree::open(pool, name, OpenMode::Write, FpLeafFormat::default()).map(FpTree)
    }

    /// Opens a tree read-only, alongside other readers; see
    /// [`open_tree_read_only`](crate::open_tree_read_only).
    ///
    /// # Errors
    /// As [`open`](FpTree::open), and [`TreeError::NeedsRecovery`](crate::TreeError::NeedsRecovery).
    pub fn open_read_only(pool: &Pool, name: &str) -> Result<FpTree, TreeError> {
        HybridTree::open(pool, name, OpenMode::Read, FpLeafFormat::default()).map(FpTree)
    }

    /// Opens a tree like [`open`](FpTree::open) even if the machine went down before the tree was synced
    /// ([`PoolError::SlabUnsynced`](halocline_pool::PoolError::SlabUnsynced)). Any part of what was written
    /// since the last sync may be missing; [`check`](crate::OrderedIndex::check) the tree.
    ///
    /// # Errors
    /// As [`open`](FpTree::open).
    pub fn open_unsynced(pool: &Pool, name: &str) -> Result<FpTree, TreeError> {
        HybridTree::open(pool, name, OpenMode::Accept, FpLeafFormat::default()).map(FpTree)
    }

    /// Returns the name of the tree's object.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Makes all completed changes survive power loss, on every kind of medium.
    ///
    /// # Errors
    /// [`TreeError::Pool`] if the disk fails.
    pub fn sync(&self) -> Result<(), TreeError> {
        Ok(self.0.slab.sync()?)
    }
}

is_index!([] FpTree);

impl StoredTree for FpTree {
    const OWNER: [u8; 8] = FpLeafFormat::OWNER;

    fn create_stored(pool: &Pool, name: &str, space: TreeSpace) -> Result<Self, TreeError> {
        HybridTree::create(pool, name, space, FpLeafFormat::default()).map(FpTree)
    }

    fn open_stored(pool: &Pool, name: &str, open_mode: OpenMode) -> Result<Self, TreeError> {
        HybridTree::open(pool, name, open_mode, FpLeafFormat::default()).map(FpTree)
    }
}
