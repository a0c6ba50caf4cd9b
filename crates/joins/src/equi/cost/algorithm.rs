//! The algorithms that are compared.

use std::fmt;

use crate::equi::join::Algorithm;

/// An algorithm with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinAlgorithm {
    /// [`Algorithm::Hash`].
    Hash,
    /// [`Algorithm::Hybrid`].
    Hybrid,
    /// [`Algorithm::Grace`].
    Grace,
    /// [`Algorithm::Segmented`].
    Segmented {
        /// Number of parts.
        parts: usize,
        /// Number of parts that are spilled.
        spilled: usize,
    },
    /// [`Algorithm::NestedLoops`].
    NestedLoops,
    /// [`EquiJoin::run_array`](crate::equi::EquiJoin::run_array).
    Array,
}

impl JoinAlgorithm {
    /// Returns the algorithm of [`EquiJoin::run`](crate::equi::EquiJoin::run); `None` for an array join.
    pub fn algorithm(self) -> Option<Algorithm> {
        Some(match self {
            JoinAlgorithm::Hash => Algorithm::Hash,
            JoinAlgorithm::Hybrid => Algorithm::Hybrid,
            JoinAlgorithm::Grace => Algorithm::Grace,
            JoinAlgorithm::Segmented { parts, spilled } => Algorithm::Segmented { parts, spilled },
            JoinAlgorithm::NestedLoops => Algorithm::NestedLoops,
            JoinAlgorithm::Array => return None,
        })
    }
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
