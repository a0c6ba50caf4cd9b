//! Errors of placements, caches and budgets.

use thiserror::Error;

/// An error of a placement or a cache.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The text does not denote a placement.
    #[error(
        "unknown placement `{text}`; use slow-only, hybrid, volatile, static, static:LEVELS, dynamic[:POLICY], \
         static+dynamic[:POLICY], dual-access or auto"
    )]
    UnknownPlacement {
        /// The text that was given.
        text: String,
    },
    /// The name does not denote a replacement policy.
    #[error(
        "unknown replacement policy `{name}`; use one of {}",
        crate::PolicyKind::names()
    )]
    UnknownPolicy {
        /// The text that was given.
        name: String,
    },
    /// The number of levels of a static placement is invalid.
    #[error("invalid number of levels `{text}`; use a positive number, for example static:3")]
    UnknownLevels {
        /// The text that was given.
        text: String,
    },
    /// The budget is smaller than the smallest possible cache.
    #[error(
        "the DRAM budget of {bytes} bytes is too small for a cache; give it at least {least} bytes, or use slow-only"
    )]
    BudgetTooSmall {
        /// Budget of the cache in bytes.
        bytes: u64,
        /// Minimum budget in bytes.
        least: u64,
    },
    /// The requested key length is not supported by tuple caches.
    #[error(
        "a tuple cache cannot have keys of {words} words; use 1, 2 or 3 words, or leave such tuples uncached"
    )]
    TupleWords {
        /// Requested number of words.
        words: usize,
    },
    /// The shared budget of all caches has less free than requested.
    #[error(
        "a cache needs {asked} bytes of DRAM, but only {free} of the {limit} bytes for all caches are free; raise \
         halocline.dram_budget, or lower the limit of an index (ALTER INDEX … SET (dram = …))"
    )]
    BudgetUsedUp {
        /// Requested bytes.
        asked: u64,
        /// Free bytes.
        free: u64,
        /// Total budget in bytes.
        limit: u64,
    },
    /// The operating system is out of memory.
    #[error("cannot allocate {bytes} bytes for a cache: the system is out of memory; lower the budget")]
    OutOfMemory {
        /// Requested bytes.
        bytes: u64,
    },
}
