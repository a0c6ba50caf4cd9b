//! The tree as a whole: creating and opening.

use halocline_pool::Pool;

use crate::TreeError;
use crate::facade::is_index;
use crate::hybrid::{HybridTree, LeafFormat};
use crate::open_mode::OpenMode;
use crate::stored::{DEFAULT_CHUNK, StoredTree};

use super::leaves::FpLeafFormat;

/// How an [`FpTree`] works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FpOptions {
    /// Of a new tree, the least bytes of the pool it takes at a time.
    pub chunk: u64,
}

impl Default for FpOptions {
    fn default() -> FpOptions {
        FpOptions { chunk: DEFAULT_CHUNK }
    }
}

/// An FPTree, with leaves of 56 entries in 1 KiB.
///
/// Costs of one operation: an insert writes two lines and waits for as many fences, about 2.3 and 2.0 on average with splits; an
/// update the same, or one of each in a full leaf; a removal one of each.
#[derive(Debug)]
pub struct FpTree(pub(crate) HybridTree<FpLeafFormat>);

impl FpTree {
    /// Creates an empty tree as an object of this name.
    ///
    /// # Errors
    /// [`TreeError::Pool`], as [`Pool::create_slab`].
    pub fn create(pool: &Pool, name: &str, options: FpOptions) -> Result<FpTree, TreeError> {
        HybridTree::create(pool, name, options.chunk, FpLeafFormat::default()).map(FpTree)
    }

    /// Opens a tree: finishes what its micro-logs say was interrupted, walks along its leaves, and builds the inner nodes, on all
    /// cores. Linear in the number of leaves. Damaged leaves do not keep it from opening: what needs them is refused.
    ///
    /// # Errors
    /// [`TreeError::Pool`], as [`Pool::open_slab`], and if the links between leaves are damaged; [`TreeError::Damaged`] if a
    /// micro-log is.
    pub fn open(pool: &Pool, name: &str) -> Result<FpTree, TreeError> {
        HybridTree::open(pool, name, OpenMode::Write, FpLeafFormat::default()).map(FpTree)
    }

    /// As [`open`](FpTree::open), to read it, beside other readers; see [`open_tree_read_only`](crate::open_tree_read_only).
    ///
    /// # Errors
    /// As [`open`](FpTree::open), and [`TreeError::NeedsRecovery`](crate::TreeError::NeedsRecovery).
    pub fn open_read_only(pool: &Pool, name: &str) -> Result<FpTree, TreeError> {
        HybridTree::open(pool, name, OpenMode::Read, FpLeafFormat::default()).map(FpTree)
    }

    /// As [`open`](FpTree::open), also if the machine went down before all was synced
    /// ([`PoolError::SlabUnsynced`](halocline_pool::PoolError::SlabUnsynced)): any part of what was written since the last sync
    /// may be missing. [`check`](crate::OrderedIndex::check) the tree.
    ///
    /// # Errors
    /// As [`open`](FpTree::open).
    pub fn open_unsynced(pool: &Pool, name: &str) -> Result<FpTree, TreeError> {
        HybridTree::open(pool, name, OpenMode::Accept, FpLeafFormat::default()).map(FpTree)
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Makes all that was written survive power loss, on every medium.
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

    fn create_stored(pool: &Pool, name: &str, chunk: u64) -> Result<Self, TreeError> {
        Self::create(pool, name, FpOptions { chunk })
    }

    fn open_stored(pool: &Pool, name: &str, open_mode: OpenMode) -> Result<Self, TreeError> {
        HybridTree::open(pool, name, open_mode, FpLeafFormat::default()).map(FpTree)
    }
}
