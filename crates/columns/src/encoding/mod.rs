//! How the local values of a chunk are stored: one file per encoding, and the choice between them.
//!
//! A *local value* is a key counted from the chunk's smallest, with a place for NULL (see `chunk.rs`). Every encoding
//! stores the same local values; what they mean is the chunk's business alone. Invariant: bytes are checked in O(1)
//! when a chunk is opened, so that no later read leaves them; damaged values give other values, never a panic.

pub(crate) mod choice;
pub(crate) mod list;
pub(crate) mod marks;
pub(crate) mod packed;
pub(crate) mod plain;
pub(crate) mod runs;
pub(crate) mod sections;
pub(crate) mod steps;
