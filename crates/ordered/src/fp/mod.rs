//! The FPTree (Oukid, Lasperas, Nica, Willhalm, Lehner; SIGMOD 2016): leaves on the slow tier, inner
//! nodes in DRAM, and one-byte fingerprints that are compared before any key is read.
//!
//! - *Fingerprints* (section 4.2) share a leaf's first line with the bitmap of used entries. A search reads
//!   that line and almost always exactly one entry; an insert writes two lines.
//! - *Out-of-place updates* (5.3): the new entry is written to a free slot, and one store to the bitmap
//!   switches from the old entry to the new one. In a full leaf the 8 bytes of the value are replaced in
//!   place.
//! - *Micro-logs* (5.1): a change of both the bitmap and the link of a leaf (a split, or a merge with a
//!   neighbour) is first recorded in a line of the tree's root and completed from there after a crash.
//!   Unlinking an empty leaf is one store and needs no log. The paper's log for it serves the allocator; a
//!   slab's node is free when nothing references it.
//!
//! Concurrency control is optimistic lock coupling ([`crate::hybrid`]) instead of hardware
//! transactions. Leaves contain no locks.

mod append;
pub(crate) mod fault;
mod layout;
mod leaf;
mod leaves;
mod micro_log;
mod split;
mod tree;

#[cfg(test)]
pub(crate) use layout::LOGS_AT;
#[cfg(test)]
pub(crate) use leaves::FpLeafFormat;
pub use tree::{FpOptions, FpTree};
