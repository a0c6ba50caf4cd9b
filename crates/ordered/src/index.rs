//! The interface of all indexes: [`OrderedIndex`].

use std::fmt;

use crate::TreeError;

/// An ordered map from `u64` to `u64` that survives crashes. A value may be the offset of a record.
///
/// Any number of threads may call any method at the same time, except for
/// [`bulk_load`](OrderedIndex::bulk_load), which takes `&mut self`. The trait is object-safe: a caller
/// that selects a tree at run time pays one indirect call per operation.
pub trait OrderedIndex: Send + Sync {
    /// Returns the value of a key. `O(log n)`; writes nothing.
    ///
    /// # Errors
    /// [`TreeError::Damaged`].
    fn get(&self, key: u64) -> Result<Option<u64>, TreeError>;

    /// Looks up many keys, in any order, with the results of [`get`](OrderedIndex::get). Their paths are
    /// followed side by side, so that cache misses overlap.
    ///
    /// # Errors
    /// [`TreeError::Damaged`]; some values may have been set.
    ///
    /// # Panics
    /// Panics if the slices differ in length.
    fn get_batch(&self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), TreeError>;

    /// Inserts an entry and returns true. If the key exists, changes nothing and returns false.
    ///
    /// # Errors
    /// [`TreeError::Pool`] if the pool is full, [`TreeError::Media`], [`TreeError::Poisoned`],
    /// [`TreeError::Damaged`].
    fn insert(&self, key: u64, value: u64) -> Result<bool, TreeError>;

    /// Inserts an entry or replaces its value. Returns the previous value.
    ///
    /// # Errors
    /// As [`insert`](OrderedIndex::insert).
    fn upsert(&self, key: u64, value: u64) -> Result<Option<u64>, TreeError>;

    /// Replaces the value of an existing key and returns the previous one. Does nothing if the key is absent.
    ///
    /// # Errors
    /// As [`insert`](OrderedIndex::insert).
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>, TreeError>;

    /// Removes the entry of a key and returns its value. Does nothing if the key is absent.
    ///
    /// # Errors
    /// As [`insert`](OrderedIndex::insert).
    fn remove(&self, key: u64) -> Result<Option<u64>, TreeError>;

    /// Appends entries with keys from `from` on to `into` in ascending order: at least `count` of them, if
    /// there are that many, and at most one node's entries more. [`Range`](crate::Range) is an iterator
    /// on top of it.
    ///
    /// # Errors
    /// [`TreeError::Damaged`].
    fn scan(&self, from: u64, count: usize, into: &mut Vec<(u64, u64)>) -> Result<(), TreeError>;

    /// Appends entries with keys up to `from` in descending order, otherwise like
    /// [`scan`](OrderedIndex::scan).
    ///
    /// # Errors
    /// [`TreeError::Damaged`].
    fn scan_back(&self, from: u64, count: usize, into: &mut Vec<(u64, u64)>) -> Result<(), TreeError>;

    /// Loads entries, in ascending order of their keys, into an empty index and returns their number. Nodes
    /// are filled to the fraction `fill` of their capacity. After a crash either all entries are present
    /// or none.
    ///
    /// # Errors
    /// [`TreeError::NotEmpty`], [`TreeError::NotSorted`], and as [`insert`](OrderedIndex::insert).
    fn bulk_load(
        &mut self,
        entries: &mut dyn Iterator<Item = (u64, u64)>,
        fill: f64,
    ) -> Result<u64, TreeError>;

    /// Returns the number of entries. The result is exact while nobody writes. In a tree with inner nodes in
    /// DRAM that was opened after a crash, the first call reads the leaves that have not been read; entries
    /// of leaves that cannot be read are not counted.
    fn len(&self) -> u64;

    /// Returns true if the index has no entries.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks every node and reports all inconsistencies. Later operations that need a damaged node fail.
    /// There must be no concurrent writers, or nodes that are being changed may be reported as damaged.
    ///
    /// # Errors
    /// [`TreeError::Pool`] if broken links keep some nodes from being checked; [`TreeError::NeedsRecovery`].
    fn check(&self) -> Result<TreeCheckReport, TreeError>;

    /// Returns statistics of the tree.
    fn stats(&self) -> TreeStats;
}

/// The result of [`OrderedIndex::check`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeCheckReport {
    /// Entries in intact nodes.
    pub entries: u64,
    /// Leaves, including damaged ones.
    pub leaves: u64,
    /// All inconsistencies, in the order of keys.
    pub problems: Vec<TreeProblem>,
}

impl TreeCheckReport {
    /// Returns true if no problems were found.
    pub fn is_intact(&self) -> bool {
        self.problems.is_empty()
    }
}

/// A damaged node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeProblem {
    /// Its offset in the pool.
    pub node: u64,
    /// Description of the damage.
    pub reason: String,
}

impl fmt::Display for TreeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the node at {}: {}", self.node, self.reason)
    }
}

/// Statistics of an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeStats {
    /// Number of entries.
    pub entries: u64,
    /// Number of leaves in use.
    pub leaves: u64,
    /// Number of inner nodes in use.
    pub inner_nodes: u64,
    /// Number of levels of inner nodes.
    pub height: u32,
    /// DRAM used for inner nodes and locks, in bytes.
    pub dram_bytes: u64,
    /// Space used in the pool, free nodes included, in bytes.
    pub slow_bytes: u64,
}
