//! Trees with leaves on the slow tier and inner nodes in DRAM: the part that is independent of the leaf
//! format.
//!
//! A [`LeafFormat`] defines the layout of a leaf and crash-consistent changes of it. This module has
//! the rest: lookups, scans, batches, locking, freeing leaves, bulk loads, checks and recovery.
//!
//! Concurrency control is optimistic lock coupling with versions in DRAM ([`crate::inner`],
//! [`crate::locks`]). A writer holds the lock of the leaf it changes, and that of the inner node above if
//! leaves are added or removed. An empty leaf is unlinked, or takes over its right neighbour; the node that
//! is no longer needed is reused.

mod batch;
mod build_block;
mod bulk;
mod check;
pub(crate) mod checkpoint;
pub(crate) mod fault;
mod lazy;
mod leaf_ref;
mod leaves;
mod open;
mod pins;
mod recover;
mod remove;
mod scan;
mod split;
mod tree;
mod write;

pub(crate) use leaf_ref::{LINE_WORDS, LeafRef, LoadWords, StoreWords};
pub(crate) use leaves::{InsertOutcome, LeafEntry, LeafFormat};
pub(crate) use split::{FailedSplit, LeafSplit};
pub(crate) use tree::HybridTree;
