//! The one trait: [`OrderedIndex`].

use std::fmt;

use crate::TreeError;

/// An ordered map from `u64` to `u64` that survives crashes. A value may be the offset of a record.
///
/// Any number of threads may call any method at once, but for [`bulk_load`](OrderedIndex::bulk_load), which is alone. The
/// trait is object-safe: a caller that picks a tree at run time pays one indirect call an operation.
pub trait OrderedIndex: Send + Sync {
    /// The value of a key. `O(log n)`; writes nothing.
    ///
    /// # Errors
    /// [`TreeError::Damaged`].
    fn get(&self, key: u64) -> Result<Option<u64>, TreeError>;

    /// The values of many keys, in any order, each as by [`get`](OrderedIndex::get): their paths are followed side by side, so
    /// that they wait for memory together.
    ///
    /// # Errors
    /// [`TreeError::Damaged`]; some values may have been set.
    ///
    /// # Panics
    /// If the slices differ in length.
    fn get_batch(&self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), TreeError>;

    /// Adds an entry; false if there is one with this key, which stays as it is.
    ///
    /// # Errors
    /// [`TreeError::Pool`] if the pool is full, [`TreeError::Media`], [`TreeError::Poisoned`], [`TreeError::Damaged`].
    fn insert(&self, key: u64, value: u64) -> Result<bool, TreeError>;

    /// Adds an entry or replaces its value, which is returned.
    ///
    /// # Errors
    /// As [`insert`](OrderedIndex::insert).
    fn upsert(&self, key: u64, value: u64) -> Result<Option<u64>, TreeError>;

    /// Replaces the value of a key that is there, and returns the one before; nothing happens if it is not.
    ///
    /// # Errors
    /// As [`insert`](OrderedIndex::insert).
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>, TreeError>;

    /// Removes the entry of a key and returns its value; nothing happens if there is none.
    ///
    /// # Errors
    /// As [`insert`](OrderedIndex::insert).
    fn remove(&self, key: u64) -> Result<Option<u64>, TreeError>;

    /// Appends entries with keys from `from` on to `into`, in ascending order: at least `count` of them, unless there are fewer,
    /// and at most a node's more. [`Range`](crate::Range) makes an iterator of it.
    ///
    /// # Errors
    /// [`TreeError::Damaged`].
    fn scan(&self, from: u64, count: usize, into: &mut Vec<(u64, u64)>) -> Result<(), TreeError>;

    /// As [`scan`](OrderedIndex::scan), for keys up to `from`, in descending order.
    ///
    /// # Errors
    /// [`TreeError::Damaged`].
    fn scan_back(&self, from: u64, count: usize, into: &mut Vec<(u64, u64)>) -> Result<(), TreeError>;

    /// Loads entries, in ascending order of their keys, into an index that is empty, and returns how many. Nodes are filled
    /// up to `fill`, a part of 1. After a crash all of them are there, or none.
    ///
    /// # Errors
    /// [`TreeError::NotEmpty`], [`TreeError::NotSorted`], and as [`insert`](OrderedIndex::insert).
    fn bulk_load(
        &mut self,
        entries: &mut dyn Iterator<Item = (u64, u64)>,
        fill: f64,
    ) -> Result<u64, TreeError>;

    /// How many entries there are. A number that was right at some moment of the call if nobody writes.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Looks at every node, and reports all that contradict what a tree must be. From then on whatever needs a damaged node
    /// is refused. Nobody may write meanwhile, or nodes that are being changed count as damaged.
    ///
    /// # Errors
    /// [`TreeError::Pool`] if the links between nodes are broken, so that not all can be looked at; [`TreeError::NeedsRecovery`].
    fn check(&self) -> Result<TreeCheckReport, TreeError>;

    /// Numbers about it.
    fn stats(&self) -> TreeStats;
}

/// What [`OrderedIndex::check`] has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeCheckReport {
    /// Entries in intact nodes.
    pub entries: u64,
    /// Leaves, damaged ones included.
    pub leaves: u64,
    /// All that is wrong, in the order of keys.
    pub problems: Vec<TreeProblem>,
}

impl TreeCheckReport {
    /// Whether nothing is wrong.
    pub fn is_intact(&self) -> bool {
        self.problems.is_empty()
    }
}

/// A damaged node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeProblem {
    /// Its offset in the pool.
    pub node: u64,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for TreeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the node at {}: {}", self.node, self.reason)
    }
}

/// Numbers about an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeStats {
    /// Entries.
    pub entries: u64,
    /// Leaves in use.
    pub leaves: u64,
    /// Inner nodes in use.
    pub inner_nodes: u64,
    /// Levels of inner nodes.
    pub height: u32,
    /// Bytes of DRAM for inner nodes and locks.
    pub dram_bytes: u64,
    /// Bytes of the pool, free nodes included.
    pub slow_bytes: u64,
}
