//! A transactional key-value store of byte strings whose data is on a slow tier.
//!
//! All [`Stores`] of a pool share one log; a [`Store`] is a named, ordered map in it.
//!
//! ```
//! use halocline_pool::{Pool, PoolOptions};
//! use halocline_store::Stores;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("example.pool");
//! let pool = Pool::create(&path, &PoolOptions::default())?;
//! let stores = Stores::open(&pool)?;
//! let cities = stores.store("cities")?;
//! cities.put("fr/paris", "2,103,000")?;
//! cities.put("fr/lyon", "520,000")?;
//! cities.put("it/rome", "2,748,000")?;
//! assert_eq!(cities.get("fr/lyon")?.as_deref(), Some(&b"520,000"[..]));
//! let french: Result<Vec<_>, _> = cities.scan_prefix("fr/").collect();
//! assert_eq!(french?.len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! The [`cookbook`] has an example for each task.
//!
//! # How it works
//! A commit appends its records to the log and waits for one fence. Records stay where they are: a tree of
//! leaves on the slow tier, below branches in DRAM, leads to them. New values of keys that a leaf has are set
//! in place; new keys wait in DRAM for a *checkpoint*, which adds them to the leaves and writes changed
//! branches. After a crash the log after the last checkpoint is read, which is bounded, whatever the stores
//! hold.
//!
//! A new store can be [loaded](Stores::load_sorted) from sorted pairs: its tree is built from the leaves
//! upwards, and one checkpoint makes it durable.
//!
//! Segments of the log with many superseded records are emptied and used again. Versions that a
//! [`StoreSnapshot`] sees are kept until it is dropped: at most one for each key that is written meanwhile
//! and each snapshot.
//!
//! # Invariants
//! - What a commit wrote is durable when it returns, all of it or, after a crash in between, all or nothing.
//! - Readers wait for no commit's fence and no checkpoint.
//! - A record or page that is read is what was written, or the read fails with [`StoreError::Damaged`].

mod annexed;
mod append;
mod batch;
mod branch;
mod catalog;
mod catalog_parts;
mod check;
mod check_step;
mod checkpoint;
mod commit;
mod commit_times;
mod committer;
pub mod cookbook;
mod decided;
mod deleted_ranges;
mod drop_store;
mod due;
mod durable;
mod error;
mod expiring;
mod expiry;
mod fault;
mod follow;
mod gc;
mod give_back;
mod handle;
mod hidden_keys;
mod hiding_range;
mod keeper;
mod key_cut;
mod key_range;
mod layout;
mod leaf;
mod leaf_bounds;
mod limits;
mod load_log;
mod load_segments;
mod load_tree;
mod loaded_pairs;
mod loader;
mod log;
mod log_segments;
mod lookup;
mod memtable;
mod merge;
mod moves;
mod newer_keys;
mod observer;
mod options;
mod pace;
mod page_source;
mod pair;
mod pair_merge;
mod pair_runs;
mod pair_sorter;
mod pair_window;
mod pointers;
mod prepared;
mod publish;
mod readers;
mod reads;
mod recent;
mod record;
mod record_arena;
mod recover;
mod relocate;
mod replay;
mod room;
mod scan;
mod scan_cursors;
mod scan_hidden;
mod scan_iterator;
mod scan_pairs;
mod segments;
mod settle;
mod snapshot;
mod snapshots;
mod sorting_loader;
mod state;
mod store;
mod stores;
mod transaction;
mod tree;
mod turns;

#[cfg(test)]
mod tests;

pub use batch::WriteBatch;
pub use check::{StoresCheckProgress, StoresCheckReport, StoresProblem};
pub use decided::DecidedBatch;
pub use error::{Result, StoreError};
pub use layout::{MAX_KEY, MAX_VALUE};
pub use loaded_pairs::LoadedPairs;
pub use loader::StoreLoader;
pub use options::{Clock, MergeOperator, StoresOptions};
pub use pair::{PairScan, StoreLookup, StorePair};
pub use pair_runs::SpillFactory;
pub use pair_sorter::{PairSorter, SortedPairs};
pub use pair_window::NumberedPair;
pub use prepared::PreparedTransaction;
pub use scan_iterator::Scan;
pub use snapshot::StoreSnapshot;
pub use sorting_loader::{LoadOptions, SortingLoader};
pub use store::Store;
pub use stores::{Stores, StoresStats};
pub use transaction::{Isolation, StoreTransaction, TransactionScan};
