//! The LB+-Tree (Liu and Chen, PVLDB 13(7), 2020): leaves on the slow tier, inner nodes in DRAM, and
//! few line writes per change.
//!
//! - *Entry moving* (section 3.2): an insert that finds no room in the header's line moves entries out of
//!   that line together with its own, so that later inserts find room there.
//! - *Logless splits* (3.3): a leaf has two links. A split sets the one that is not live; one store of 8
//!   bytes to the header then makes it live and frees the entries that have moved.
//! - *Distributed headers* (3.4): in leaves of several blocks of 256 bytes, each block has a header. A split
//!   switches the first one and then clears the moved entries of the others. After a crash in between,
//!   recovery clears entries that belong to the next leaf.
//!
//! Concurrency control is optimistic lock coupling ([`crate::hybrid`]) instead of hardware
//! transactions. The lock bit of a leaf is never set, and ignored.

mod absorb;
mod append;
pub(crate) mod fault;
mod fresh;
mod layout;
mod leaf;
mod leaves;
mod put;
mod split;
mod tree;

#[cfg(test)]
pub(crate) use leaves::LbLeafFormat;
pub use tree::{LbOptions, LbTree};
