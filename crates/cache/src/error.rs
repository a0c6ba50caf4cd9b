//! What can be wrong with a placement or a budget.

use thiserror::Error;

/// A placement or a cache that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CacheError {
    /// No placement is written like this.
    #[error(
        "`{text}` is no placement: write slow-only, hybrid, volatile, static, static:LEVELS, dynamic[:POLICY], \
         static+dynamic[:POLICY], dual-access or auto"
    )]
    UnknownPlacement {
        /// What was written.
        text: String,
    },
    /// No replacement policy has this name.
    #[error(
        "`{name}` is no replacement policy: use one of {}",
        crate::PolicyKind::names()
    )]
    UnknownPolicy {
        /// What was written.
        name: String,
    },
    /// A number of levels that is none.
    #[error("`{text}` is no number of levels: write for example static:3")]
    UnknownLevels {
        /// What was written.
        text: String,
    },
    /// Less DRAM than the least cache takes.
    #[error(
        "a cache takes at least {least} bytes of DRAM, and its budget is {bytes}: give it more, or use slow-only"
    )]
    BudgetTooSmall {
        /// What it may take.
        bytes: u64,
        /// What it must be given.
        least: u64,
    },
    /// Keys of a length that no tuple cache has.
    #[error("a tuple cache has keys of 1, 2 or 3 words, not of {words}: leave such tuples uncached")]
    TupleWords {
        /// The words asked for.
        words: usize,
    },
    /// What is left of the budget that all caches share is less than was asked for.
    #[error(
        "a cache asks for {asked} bytes of DRAM, and {free} of the {limit} for all caches are free: raise \
         halocline.dram_budget, or give this or another index less (ALTER INDEX … SET (dram = …))"
    )]
    BudgetUsedUp {
        /// What was asked for.
        asked: u64,
        /// What could have been had.
        free: u64,
        /// The budget of all.
        limit: u64,
    },
    /// The system gives no more memory.
    #[error("the system has no {bytes} bytes of memory left for a cache: lower its budget")]
    OutOfMemory {
        /// What was asked for.
        bytes: u64,
    },
}
