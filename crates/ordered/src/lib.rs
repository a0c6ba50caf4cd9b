//! Ordered, crash-consistent indexes with keys and values of 8 bytes. Their data is on a slow tier,
//! their hot parts are in DRAM.
//!
//! An index is an object of a [`Pool`](halocline_pool::Pool): a slab of nodes that are changed in
//! place. Any number of threads can use it at the same time through one trait, [`OrderedIndex`]:
//!
//! ```
//! use std::sync::Arc;
//!
//! use halocline_media::Dram;
//! use halocline_ordered::{LbOptions, LbTree, OrderedIndex, Range};
//! use halocline_pool::Pool;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = Pool::create_on(Arc::new(Dram::new(0)?))?;
//! let tree: LbTree = LbTree::create(&pool, "index/numbers", LbOptions::default())?;
//! for key in 0..1000 {
//!     tree.insert(key * 2, key)?;
//! }
//! assert_eq!(tree.get(10)?, Some(5));
//! assert_eq!(tree.insert(10, 7)?, false);
//! assert_eq!(tree.remove(12)?, Some(6));
//! let some: Result<Vec<_>, _> = Range::new(&tree, 9..16).collect();
//! assert_eq!(some?, [(10, 5), (14, 7)]);
//! assert_eq!(tree.len(), 999);
//! # Ok(())
//! # }
//! ```
//!
//! # What every index promises
//! - An operation that has returned is as durable as a fence on its medium makes it. One that is in flight at
//!   a crash takes effect entirely or not at all.
//! - Operations on one key are linearizable. A range sees every entry that is present throughout, none that
//!   never existed, and each key at most once, in order.
//! - No lock survives a restart: locks are in DRAM, and lock bits found in a node are ignored.
//! - Closing a tree, which happens when it is dropped, stores checksums of its nodes. They are verified when
//!   a node is first read after the tree is opened again; [`OrderedIndex::check`] verifies all of them.
//! - After the first error of the medium, all writes fail ([`TreeError::Poisoned`]); reads continue.

mod damaged;
mod entry_counter;
mod error;
mod facade;
mod fair;
mod fault;
mod fp;
mod hot;
mod hybrid;
mod index;
mod inner;
mod kernel;
mod kind;
mod lb;
mod locks;
mod open_mode;
mod persistent;
mod range;
mod registry;
mod scan;
mod sched;
mod seal;
mod sorted_input;
mod stored;
mod sync;
mod version;
mod wb;
mod write_gate;

pub use error::TreeError;
pub use fair::FastFair;
pub use fp::{FpOptions, FpTree};
pub use hot::{HotIndex, HotIndexOptions, HotIndexStats, HotMode};
pub use index::{OrderedIndex, TreeCheckReport, TreeProblem, TreeStats};
pub use kind::TreeKind;
pub use lb::{LbOptions, LbTree};
pub use range::Range;
pub use registry::{
    create_tree, create_tree_in, create_tree_using_reserve, open_tree, open_tree_read_only,
    open_tree_unsynced, tree_kind, trees,
};
pub use wb::WbTree;

#[cfg(test)]
mod tests;
