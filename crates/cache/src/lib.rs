//! Which slow bytes also live in DRAM: placements, budgets, replacement policies.
//!
//! Everything here is volatile and decides nothing about what is durable: a cache may be dropped at any moment, and what
//! is asked then comes from the slow tier. A [`Placement`] says what of an index is in DRAM.

mod adaptive;
mod aged_counts;
mod budget;
mod draw;
mod error;
mod hash_index;
mod lists;
mod placement;
mod policy;
mod tuples;

pub use adaptive::{AdaptiveSelector, StrategyChoice};
pub use aged_counts::AgedCounts;
pub use budget::{Budget, Reservation};
pub use error::CacheError;
pub use lists::{ListCache, Statistics};
pub use placement::{Links, Placement, PolicyKind, StaticLists};
pub use policy::{CacheItem, Capacity, Policy};
pub use tuples::{Key, Packing, TupleCache};
