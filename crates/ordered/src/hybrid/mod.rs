//! Trees whose leaves are on the slow tier and whose inner nodes are in DRAM: all that such trees share.
//!
//! What differs is how a leaf is laid out and how it is changed so that no crash tears it: [`LeafFormat`]. Here are the rest: reading,
//! scans, batches, locks, giving leaves back, bulk loads, checks, recovery.
//!
//! Optimistic lock coupling on versions in DRAM ([`crate::inner`], [`crate::locks`]): who changes a leaf has its lock, and that of
//! the inner node above it if leaves are added or go. A leaf that becomes empty is unlinked, or takes over its right neighbour,
//! and its node is used again.

mod batch;
mod bulk;
mod check;
mod leaf_ref;
mod leaves;
pub(crate) mod mistake;
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
