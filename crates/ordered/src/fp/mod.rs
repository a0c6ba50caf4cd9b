//! The FPTree (Oukid, Lasperas, Nica, Willhalm, Lehner; SIGMOD 2016): leaves on the slow tier, inner nodes in DRAM, a byte of a hash
//! of each key to look at before any key.
//!
//! - *Fingerprints* (4.2 there) and the bitmap of entries in use share a leaf's first line: a search reads that line and, nearly
//!   always, one entry; an insert writes two lines.
//! - *Updates out of place* (5.3): the new entry goes to a free slot, and one store to the bitmap switches both. A leaf without a
//!   free slot has its 8 bytes of value replaced where they are.
//! - *Micro-logs* (5.1): what changes both a leaf's bitmap and its link, a split or taking over a neighbour, is noted in a line of the
//!   tree's root first, and done again from there after a crash. Unlinking an empty leaf is one store and needs none: the paper's log
//!   for it is for the allocator, and nodes of a slab are free when nothing leads to them.
//!
//! Instead of hardware transactions, optimistic lock coupling ([`crate::hybrid`]); there are no locks in leaves.

mod append;
mod layout;
mod leaf;
mod leaves;
mod micro_log;
pub(crate) mod mistake;
mod split;
mod tree;

#[cfg(test)]
pub(crate) use layout::LOGS_AT;
#[cfg(test)]
pub(crate) use leaves::FpLeafFormat;
pub use tree::{FpOptions, FpTree};
