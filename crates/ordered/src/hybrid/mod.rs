//! Trees whose leaves are on the slow tier and whose inner nodes are in DRAM: all that such trees share.
//!
//! What differs is how a leaf is laid out and how it is changed so that no crash tears it: [`Leaves`]. Here are the rest: reading,
//! scans, batches, locks, giving leaves back, bulk loads, checks, recovery.
//!
//! Optimistic lock coupling on versions in DRAM ([`crate::inner`], [`crate::locks`]): who changes a leaf has its lock, and that of
//! the inner node above it if leaves are added or go. A leaf that becomes empty is unlinked, or takes over its right neighbour,
//! and its node is used again.

mod batch;
mod bulk;
mod check;
mod leaves;
pub(crate) mod mistake;
mod recover;
mod remove;
mod scan;
mod split;
mod tree;
mod words;
mod write;

pub(crate) use leaves::{At, Entry, Leaves, Put};
pub(crate) use split::{Refused, Split};
pub(crate) use tree::Hybrid;
pub(crate) use words::{LINE_WORDS, Load, Store};
