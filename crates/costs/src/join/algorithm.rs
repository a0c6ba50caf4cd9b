//! The algorithms that are compared. The crate `joins` implements them, and describes them there.

use std::fmt;

/// An algorithm of an equi-join with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinAlgorithm {
    /// All build rows are in one hash table in DRAM.
    Hash,
    /// Build rows that do not fit are spilled, with the probe rows that may have partners among them.
    Hybrid,
    /// All rows are spilled in partitions that fit.
    Grace,
    /// Both inputs are read once for each part of the keys.
    Segmented {
        /// Number of parts.
        parts: usize,
        /// Number of parts that are spilled.
        spilled: usize,
    },
    /// The probe side is read once for each piece of the build side.
    NestedLoops,
    /// Build rows are fetched from where they are stored, by keys that say where.
    Array,
}

impl fmt::Display for JoinAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            JoinAlgorithm::Hash => "hash",
            JoinAlgorithm::Hybrid => "hybrid",
            JoinAlgorithm::Grace => "grace",
            JoinAlgorithm::Segmented { parts, spilled } => {
                return f.pad(&format!("segmented {spilled}/{parts}"));
            }
            JoinAlgorithm::NestedLoops => "nested loops",
            JoinAlgorithm::Array => "array",
        })
    }
}
