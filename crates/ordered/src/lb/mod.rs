//! The LB+-Tree (Liu and Chen, PVLDB 13(7), 2020): leaves on the slow tier, inner nodes in DRAM, few lines per change.
//!
//! - *Entry moving* (3.2 there): an insert that cannot use the header's line takes entries of that line with it, so that the
//!   next ones can.
//! - *Logless splits* (3.3): a leaf has two links to its right; a split sets the one that is not live, and one store of 8 bytes to the
//!   header makes it live and forgets the entries that have moved.
//! - *Distributed headers* (3.4): leaves of several blocks of 256 bytes have a header in each. A split switches the first, and
//!   then clears what has moved of the others; after a crash in between, what belongs to the next leaf is cleared.
//!
//! Instead of hardware transactions, optimistic lock coupling ([`crate::hybrid`]); the lock bit of a leaf is never set, and ignored.

mod absorb;
mod append;
mod fresh;
mod layout;
mod leaf;
mod leaves;
pub(crate) mod mistake;
mod put;
mod split;
mod tree;

#[cfg(test)]
pub(crate) use leaves::LbLeafFormat;
pub use tree::{LbOptions, LbTree};
