//! Caching of slow-tier data in DRAM: placements, budgets and replacement policies.
//!
//! Everything here is volatile and has no influence on durability: a cache may be dropped at any moment, and
//! requests are then served from the slow tier. A [`Placement`] defines which parts of an index are in DRAM.

mod adaptive;
mod aged_counts;
mod budget;
mod draw;
mod error;
mod gate;
mod hash_index;
mod hot_queue;
mod items;
mod lists;
mod pairs;
mod placement;
mod policy;
mod tuples;
mod write_marks;
mod zeroed_array;

pub use adaptive::{AdaptiveSelector, StrategyChoice};
pub use aged_counts::AgedCounts;
pub use budget::{DramBudget, Reservation};
pub use error::CacheError;
pub use gate::PairTimes;
pub use hot_queue::{HotQueue, HotQueueOptions};
pub use items::{ItemCache, ItemCacheStats, ItemLookup, ItemTicket, ItemWrite};
pub use lists::{ListCache, Statistics};
pub use pairs::{PairCache, PairLookup, PairStats, PairTicket, PairWrite};
pub use placement::{Links, Placement, StaticLists};
pub use policy::{CacheItem, Capacity, Policy, PolicyKind};
pub use tuples::{Key, Packing, TupleCache};
