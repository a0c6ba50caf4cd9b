//! Searches of an Elf alone, without planning, on emulated memory.
//!
//! [`SearchSource`] draws searches from the rows of a table, [`TierIndex`] runs them on one tier. The code of
//! an Elf is generic and compiled where it is used: here, in a crate that release builds optimise fully, as
//! they do not optimise the program that prints the times.

mod searches;
mod tier;

pub use searches::{IndexSearches, RANGE_SHARE, SEARCH_BATCH, SearchKind, SearchSource};
pub use tier::{FoundRows, SearchTime, TierIndex};
