//! The public LB+-Tree: creating and opening.

use halocline_pool::Pool;

use crate::TreeError;
use crate::facade::is_index;
use crate::hybrid::HybridTree;
use crate::open_mode::OpenMode;
use crate::stored::{DEFAULT_CHUNK, StoredTree, TreeSpace};

use super::leaves::LbLeafFormat;

/// Options of an [`LbTree`]. None of them is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LbOptions {
    /// If true, an insert prefers the header's line and moves entries out of it to make room. If false, it
    /// takes any free slot and writes the entry's line and the header's, which is useful only for
    /// comparisons.
    pub moving: bool,
    /// Minimum number of bytes that a new tree allocates from the pool at a time.
    pub chunk: u64,
}

impl Default for LbOptions {
    fn default() -> LbOptions {
        LbOptions {
            moving: true,
            chunk: DEFAULT_CHUNK,
        }
    }
}

/// An LB+-Tree whose leaves have `B` blocks of 256 bytes: 1, 2 or 4.
///
/// Average costs for leaves of one block, including splits: an insert writes 1.6 lines and waits for
/// 1.3 fences; an update or a removal costs one of each.
#[derive(Debug)]
pub struct LbTree<const B: usize = 1>(pub(crate) HybridTree<LbLeafFormat<B>>);

impl<const B: usize> LbTree<B> {
    /// Creates an empty tree as an object with this name.
    ///
    /// # Errors
    /// [`TreeError::Pool`], as [`Pool::create_slab`].
    pub fn create(pool: &Pool, name: &str, options: LbOptions) -> Result<LbTree<B>, TreeError> {
        let space = TreeSpace::of_chunks(options.chunk);
        HybridTree::create(pool, name, space, LbLeafFormat::new(options)).map(LbTree)
    }

    /// Opens a tree. One that is intact and has at least 4,096 leaves is opened from a checkpoint, without
    /// reading its leaves; the first operation in each block of about a thousand leaves reads the block, and
    /// completes changes there that a crash has interrupted. Otherwise all leaves are read, using all cores,
    /// in time linear in their number. A tree with damaged leaves can be opened; operations that need them
    /// fail.
    ///
    /// # Errors
    /// [`TreeError::Pool`], as [`Pool::open_slab`], and if the links between leaves are damaged.
    pub fn open(pool: &Pool, name: &str, options: LbOptions) -> Result<LbTree<B>, TreeError> {
        HybridTree::open(pool, name, OpenMode::Write, LbLeafFormat::new(options)).map(LbTree)
    }

    /// Opens a tree read-only, alongside other readers; see
    /// [`open_tree_read_only`](crate::open_tree_read_only).
    ///
    /// # Errors
    /// As [`open`](LbTree::open), and [`TreeError::NeedsRecovery`](crate::TreeError::NeedsRecovery).
    pub fn open_read_only(pool: &Pool, name: &str, options: LbOptions) -> Result<LbTree<B>, TreeError> {
        HybridTree::open(pool, name, OpenMode::Read, LbLeafFormat::new(options)).map(LbTree)
    }

    /// Opens a tree like [`open`](LbTree::open) even if the machine went down before the tree was synced
    /// ([`PoolError::SlabUnsynced`](halocline_pool::PoolError::SlabUnsynced)). Any part of what was written
    /// since the last sync may be missing; [`check`](crate::OrderedIndex::check) the tree.
    ///
    /// # Errors
    /// As [`open`](LbTree::open).
    pub fn open_unsynced(pool: &Pool, name: &str, options: LbOptions) -> Result<LbTree<B>, TreeError> {
        HybridTree::open(pool, name, OpenMode::Accept, LbLeafFormat::new(options)).map(LbTree)
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

is_index!([const B: usize] LbTree<B>);

impl<const B: usize> StoredTree for LbTree<B> {
    const OWNER: [u8; 8] = LbLeafFormat::<B>::TAG;

    fn create_stored(pool: &Pool, name: &str, space: TreeSpace) -> Result<Self, TreeError> {
        HybridTree::create(pool, name, space, LbLeafFormat::new(LbOptions::default())).map(LbTree)
    }

    fn open_stored(pool: &Pool, name: &str, open_mode: OpenMode) -> Result<Self, TreeError> {
        HybridTree::open(pool, name, open_mode, LbLeafFormat::new(LbOptions::default())).map(LbTree)
    }
}
