//! Which slow bytes also live in DRAM: placements, budgets, replacement policies.
//!
//! Everything here is volatile and decides nothing about what is durable: a cache may be dropped at any moment, and what
//! is asked then comes from the slow tier. A [`Placement`] says what of an index is in DRAM.

mod budget;
mod counts;
mod draw;
mod error;
mod index;
mod lists;
mod placement;
mod policy;
mod trial;
mod tuples;

pub use budget::{Budget, Reservation};
pub use counts::AgedCounts;
pub use error::CacheError;
pub use lists::{ListCache, Statistics};
pub use placement::{Links, Placement, PolicyKind, Upper};
pub use policy::{Capacity, Item, Policy};
pub use trial::{Trial, Turn};
pub use tuples::{Key, Packing, TupleCache};
