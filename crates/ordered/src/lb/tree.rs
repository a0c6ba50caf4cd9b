//! The tree as a whole: creating, opening, reading one key.

use halocline_media::{AnyMedium, Medium};
use halocline_pool::{Pool, Slab, SlabOptions};

use crate::inner::{Inner, Place};
use crate::kind::{CHUNK, Stored};
use crate::latch::Latch;
use crate::locks::{Backoff, Locks};
use crate::{CheckReport, OrderedIndex, TreeError, TreeStats};

use super::layout::BLOCK;
use super::leaf::Leaf;
use super::recover;
use crate::broken::Broken;
use crate::count::Count;

/// Offsets of leaves are kept by their 256 bytes, in 32 bits.
const REACH: u64 = 1 << 40;

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
            chunk: CHUNK,
        }
    }
}

/// An LB+-Tree whose leaves have `B` blocks of 256 bytes: 1, 2 or 4.
///
/// Costs of one operation on a leaf of one block: an insert writes one or two lines and waits for as many fences, about 1.6 and
/// 1.3 on average with splits; an update or a removal one of each.
#[derive(Debug)]
pub struct LbTree<M: Medium = AnyMedium, const B: usize = 1> {
    pub(crate) slab: Slab<M>,
    pub(crate) inner: Inner,
    pub(super) locks: Locks,
    pub(super) count: Count,
    pub(super) broken: Broken,
    pub(super) latch: Latch,
    pub(super) options: LbOptions,
}

impl<M: Medium, const B: usize> LbTree<M, B> {
    /// What a slab of such a tree says it holds.
    const TAG: [u8; 8] = {
        assert!(B == 1 || B == 2 || B == 4, "leaves of 1, 2 or 4 blocks");
        let mut owner = *b"lb-tree0";
        owner[7] += B as u8;
        owner
    };

    /// Creates an empty tree as an object of this name.
    ///
    /// # Errors
    /// [`TreeError::Pool`], as [`Pool::create_slab`].
    pub fn create(pool: &Pool<M>, name: &str, options: LbOptions) -> Result<LbTree<M, B>, TreeError> {
        let slab = SlabOptions {
            node_size: (B as u64 * BLOCK) as u32,
            owner: Self::TAG,
            chunk: options.chunk,
        };
        drop(pool.create_slab(name, &slab)?);
        Self::open(pool, name, options)
    }

    /// Opens a tree: walks along its leaves, finishes what a crash has left half done, and builds the inner nodes, on all
    /// cores. Linear in the number of leaves. Damaged leaves do not keep it from opening: what needs them is refused.
    ///
    /// # Errors
    /// [`TreeError::Pool`], as [`Pool::open_slab`], and if the links between leaves are damaged.
    pub fn open(pool: &Pool<M>, name: &str, options: LbOptions) -> Result<LbTree<M, B>, TreeError> {
        recover::recover(pool.open_slab(name, Self::TAG)?, options)
    }

    /// As [`open`](LbTree::open), also if the machine went down before all was synced
    /// ([`PoolError::SlabUnsynced`](halocline_pool::PoolError::SlabUnsynced)): any part of what was written since the last sync
    /// may be missing. [`check`](OrderedIndex::check) the tree.
    ///
    /// # Errors
    /// As [`open`](LbTree::open).
    pub fn open_unsynced(pool: &Pool<M>, name: &str, options: LbOptions) -> Result<LbTree<M, B>, TreeError> {
        recover::recover(pool.open_slab_unsynced(name, Self::TAG)?, options)
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.slab.name()
    }

    /// Makes all that was written survive power loss, on every medium.
    ///
    /// # Errors
    /// [`TreeError::Pool`] if the disk fails.
    pub fn sync(&self) -> Result<(), TreeError> {
        Ok(self.slab.sync()?)
    }

    /// A leaf by its number.
    #[inline(always)]
    pub(super) fn leaf(&self, leaf: u32) -> Leaf<'_, M, B> {
        Leaf {
            medium: self.slab.medium(),
            offset: offset_of(leaf),
        }
    }

    /// # Errors
    /// [`TreeError::Damaged`] if the leaf was found to be.
    #[inline(always)]
    pub(super) fn intact(&self, leaf: u32) -> Result<(), TreeError> {
        match self.broken.reason(leaf) {
            None => Ok(()),
            Some(reason) => Err(TreeError::Damaged {
                name: self.name().to_owned(),
                node: offset_of(leaf),
                reason,
            }),
        }
    }

    /// The number of a node, if it is within reach.
    pub(super) fn number_of(&self, offset: u64) -> Result<u32, TreeError> {
        number_of(offset, self.name())
    }

    /// Reads one leaf; nothing if something has come in between.
    #[inline(always)]
    fn try_get(&self, place: &Place, key: u64) -> Option<Option<u64>> {
        let leaf = self.leaf(place.leaf);
        leaf.fetch();
        let version = self.locks.read(place.leaf)?;
        if !self.inner.is_current(place) {
            return None;
        }
        let headers = leaf.headers();
        let value = leaf.find(&headers, key).map(|at| leaf.value(at));
        self.locks.validate(place.leaf, version).then_some(value)
    }
}

/// Where the leaf of a number lies.
#[inline(always)]
pub(super) fn offset_of(leaf: u32) -> u64 {
    u64::from(leaf) * BLOCK
}

/// The number of the leaf at an offset.
pub(super) fn number_of(offset: u64, name: &str) -> Result<u32, TreeError> {
    u32::try_from(offset / BLOCK).map_err(|_| TreeError::TooFar {
        name: name.to_owned(),
        node: offset,
        most: REACH,
    })
}

impl<M: Medium, const B: usize> Stored<M> for LbTree<M, B> {
    const OWNER: [u8; 8] = Self::TAG;

    fn create_stored(pool: &Pool<M>, name: &str, chunk: u64) -> Result<Self, TreeError> {
        let options = LbOptions {
            chunk,
            ..LbOptions::default()
        };
        Self::create(pool, name, options)
    }

    fn open_stored(pool: &Pool<M>, name: &str, unsynced: bool) -> Result<Self, TreeError> {
        match unsynced {
            false => Self::open(pool, name, LbOptions::default()),
            true => Self::open_unsynced(pool, name, LbOptions::default()),
        }
    }
}

impl<M: Medium, const B: usize> OrderedIndex for LbTree<M, B> {
    #[inline]
    fn get(&self, key: u64) -> Result<Option<u64>, TreeError> {
        let mut backoff = Backoff::default();
        loop {
            let place = self.inner.find(key);
            if let Some(value) = self.try_get(&place, key) {
                self.intact(place.leaf)?;
                return Ok(value);
            }
            backoff.wait();
        }
    }

    fn get_batch(&self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), TreeError> {
        self.batch(keys, values)
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) -> Result<bool, TreeError> {
        Ok(self.put(key, value, false)?.is_none())
    }

    #[inline]
    fn upsert(&self, key: u64, value: u64) -> Result<Option<u64>, TreeError> {
        self.put(key, value, true)
    }

    fn update(&self, key: u64, value: u64) -> Result<Option<u64>, TreeError> {
        self.replace(key, value)
    }

    fn remove(&self, key: u64) -> Result<Option<u64>, TreeError> {
        self.take(key)
    }

    fn scan(&self, from: u64, count: usize, into: &mut Vec<(u64, u64)>) -> Result<(), TreeError> {
        self.scan_up(from, count, into)
    }

    fn scan_back(&self, from: u64, count: usize, into: &mut Vec<(u64, u64)>) -> Result<(), TreeError> {
        self.scan_down(from, count, into)
    }

    fn bulk_load(
        &mut self,
        entries: &mut dyn Iterator<Item = (u64, u64)>,
        fill: f64,
    ) -> Result<u64, TreeError> {
        self.load(entries, fill)
    }

    fn len(&self) -> u64 {
        self.count.get()
    }

    fn check(&self) -> Result<CheckReport, TreeError> {
        self.examine_all()
    }

    fn stats(&self) -> TreeStats {
        let slab = self.slab.stats();
        TreeStats {
            entries: self.count.get(),
            leaves: slab.used,
            inner_nodes: self.inner.nodes(),
            height: self.inner.height(),
            dram_bytes: self.inner.bytes() + self.locks.bytes(),
            slow_bytes: slab.bytes,
        }
    }
}
