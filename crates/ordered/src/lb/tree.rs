//! The tree as a whole: creating and opening.

use halocline_pool::Pool;

use crate::TreeError;
use crate::facade::is_index;
use crate::hybrid::HybridTree;
use crate::open_mode::OpenMode;
use crate::stored::{DEFAULT_CHUNK, StoredTree};

use super::leaves::LbLeafFormat;

/// How an [`LbTree`] works; nothing of it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LbOptions {
    /// Whether an insert prefers the header's line and moves entries out of it to make room. If not, it takes any free slot, and
    /// writes the entry's line and the header's; only to measure what it is worth.
    pub moving: bool,
    /// Of a new tree, the least bytes of the pool it takes at a time.
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
/// Costs of one operation on a leaf of one block: an insert writes one or two lines and waits for as many fences, about 1.6 and
/// 1.3 on average with splits; an update or a removal one of each.
#[derive(Debug)]
pub struct LbTree<const B: usize = 1>(pub(crate) HybridTree<LbLeafFormat<B>>);

impl<const B: usize> LbTree<B> {
    /// Creates an empty tree as an object of this name.
    ///
    /// # Errors
    /// [`TreeError::Pool`], as [`Pool::create_slab`].
    pub fn create(pool: &Pool, name: &str, options: LbOptions) -> Result<LbTree<B>, TreeError> {
        HybridTree::create(pool, name, options.chunk, LbLeafFormat::new(options)).map(LbTree)
    }

    /// Opens a tree: walks along its leaves, finishes what a crash has left half done, and builds the inner nodes, on all
    /// cores. Linear in the number of leaves. Damaged leaves do not keep it from opening: what needs them is refused.
    ///
    /// # Errors
    /// [`TreeError::Pool`], as [`Pool::open_slab`], and if the links between leaves are damaged.
    pub fn open(pool: &Pool, name: &str, options: LbOptions) -> Result<LbTree<B>, TreeError> {
        HybridTree::open(pool, name, OpenMode::Write, LbLeafFormat::new(options)).map(LbTree)
    }

    /// As [`open`](LbTree::open), to read it, beside other readers; see [`open_tree_read_only`](crate::open_tree_read_only).
    ///
    /// # Errors
    /// As [`open`](LbTree::open), and [`TreeError::NeedsRecovery`](crate::TreeError::NeedsRecovery).
    pub fn open_read_only(pool: &Pool, name: &str, options: LbOptions) -> Result<LbTree<B>, TreeError> {
        HybridTree::open(pool, name, OpenMode::Read, LbLeafFormat::new(options)).map(LbTree)
    }

    /// As [`open`](LbTree::open), also if the machine went down before all was synced
    /// ([`PoolError::SlabUnsynced`](halocline_pool::PoolError::SlabUnsynced)): any part of what was written since the last sync
    /// may be missing. [`check`](crate::OrderedIndex::check) the tree.
    ///
    /// # Errors
    /// As [`open`](LbTree::open).
    pub fn open_unsynced(pool: &Pool, name: &str, options: LbOptions) -> Result<LbTree<B>, TreeError> {
        HybridTree::open(pool, name, OpenMode::Accept, LbLeafFormat::new(options)).map(LbTree)
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

is_index!([const B: usize] LbTree<B>);

impl<const B: usize> StoredTree for LbTree<B> {
    const OWNER: [u8; 8] = LbLeafFormat::<B>::TAG;

    fn create_stored(pool: &Pool, name: &str, chunk: u64) -> Result<Self, TreeError> {
        let options = LbOptions {
            chunk,
            ..LbOptions::default()
        };
        Self::create(pool, name, options)
    }

    fn open_stored(pool: &Pool, name: &str, open_mode: OpenMode) -> Result<Self, TreeError> {
        HybridTree::open(pool, name, open_mode, LbLeafFormat::new(LbOptions::default())).map(LbTree)
    }
}
