//! The durable file: superblock, directory of named objects, extents.
//!
//! A [`Pool`] is one file (or any other [`Medium`](halocline_media::Medium)) that holds named objects. An
//! object has some metadata and any number of *extents*: large immutable bytes with a checksum. One writer at
//! a time changes objects in a [`Txn`] and publishes all its changes atomically, as the next *generation*.
//! Any number of readers, here and in other processes, each see one generation, as a [`Snapshot`], for as
//! long as they hold it.
//!
//! ```
//! use halocline_pool::{ObjectKind, Pool, PoolOptions};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("example.pool");
//! let pool = Pool::create(&path, &PoolOptions::default())?;
//! let txn = pool.begin()?;
//! let mut writer = txn.alloc(1 << 20)?;
//! writer.append(b"immutable from now on");
//! let len = writer.position();
//! let extent = writer.finish(len)?;
//! txn.put("table/first", ObjectKind::TABLE, b"{}", vec![extent])?;
//! txn.commit()?;
//!
//! let snapshot = pool.snapshot()?;
//! let bytes = snapshot.object("table/first")?.extent(0)?;
//! assert_eq!(&*bytes, b"immutable from now on");
//! # Ok(())
//! # }
//! ```
//!
//! A small change need not publish a generation: a [log](Txn::put_log) is an object that is appended to, with
//! one fence per record, until a publish *folds* it, which moves its contents to other objects and creates an
//! empty log.
//!
//! Trees are [slabs](Slab): nodes of a few hundred bytes that their owner changes in place, by its own rules.
//!
//! `docs/format/protocols.md` defines when data is durable, and argues that no crash can tear a generation.

mod access;
mod alloc;
mod bytes;
mod check;
mod claims;
mod directory;
mod error;
mod fault;
mod features;
mod free_map;
mod layout;
mod leftovers;
mod limbo;
mod locks;
mod log;
mod log_count;
mod object;
mod open;
mod pins;
mod pool;
mod probe;
mod relocate;
mod repair;
mod reserve;
mod slab;
mod snapshot;
mod space;
mod sums;
mod superblock;
mod turn;
mod txn;
mod vacuum;
mod verify;
mod writer;

pub use bytes::ExtentBytes;
pub use check::{PoolCheckProgress, PoolCheckReport, PoolProblem};
pub use error::PoolError;
pub use layout::{FORMAT_VERSION, MAX_META, MAX_NAME};
pub use log::LogRecords;
pub use log_count::LogDamage;
pub use object::{ExtentRef, ObjectKind};
pub use pool::{Pool, PoolInfo, PoolOptions};
pub use probe::is_pool_file;
pub use repair::{RepairPlan, RepairReport, saved_state_path};
pub use reserve::ReserveUse;
pub use slab::{
    ConfirmedNode, NodeAtRest, NodeSet, NodeSums, Slab, SlabOptions, SlabPin, SlabRecovery, SlabStats,
};
pub use snapshot::{Object, Snapshot};
pub use txn::Txn;
pub use vacuum::VacuumReport;
pub use verify::{VerifiedReads, VerifyMode};
pub use writer::{ExtentWriter, FrozenScratch, ScratchExtent};

#[cfg(test)]
mod tests;
