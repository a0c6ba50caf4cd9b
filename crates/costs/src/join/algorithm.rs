//! The algorithms that are compared. The crate `joins` implements them.

use std::fmt;

/// An algorithm that joins by hash tables of its build rows. All return the same rows, in an order of their
/// own. All but nested loops begin to read the probe side once the build side has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Hash join in DRAM; fails if the build side does not fit.
    Hash,
    /// Keeps as many partitions of the build side in DRAM as fit, and spills the others with the probe rows
    /// that may have partners there.
    Hybrid,
    /// Grace hash join: partitions both sides to spill space.
    Grace,
    /// Segmented Grace join: splits both sides into `parts`, spills `spilled` of them, and reads both inputs
    /// once again for each of the others.
    Segmented {
        /// Number of parts; at least 1.
        parts: usize,
        /// Number of parts that are spilled; at most `parts`.
        spilled: usize,
    },
    /// Block nested loops: reads the probe side once for each part of the build side that fits.
    NestedLoops,
}

/// An algorithm of an equi-join with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinAlgorithm {
    /// Build rows are in hash tables.
    Hashed(Algorithm),
    /// Build rows are fetched from where they are stored, by keys that say where.
    Array,
}

impl fmt::Display for JoinAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            JoinAlgorithm::Hashed(Algorithm::Hash) => "hash",
            JoinAlgorithm::Hashed(Algorithm::Hybrid) => "hybrid",
            JoinAlgorithm::Hashed(Algorithm::Grace) => "grace",
            JoinAlgorithm::Hashed(Algorithm::Segmented { parts, spilled }) => {
                return f.pad(&format!("segmented {spilled}/{parts}"));
            }
            JoinAlgorithm::Hashed(Algorithm::NestedLoops) => "nested loops",
            JoinAlgorithm::Array => "array",
        })
    }
}
