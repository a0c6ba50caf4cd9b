//! The wB+-Tree (Chen and Jin, PVLDB 8(7), 2015): nodes that are entirely on the slow tier and keep
//! their entries unsorted, so that an insert writes few lines. A slot array holds the order.
//!
//! - *Bitmap and slot array* (section 3.2): one word holds the bitmap of used entries and the validity bit of
//!   the slot array. An insert invalidates the slot array, writes slot array and entry, and validates both by
//!   one store. The paper flushes and fences each of the three steps. Here the slot array shares a line with
//!   the bitmap, whose stores arrive in order, so only the entry needs a fence before the bitmap. An invalid
//!   slot array is recomputed from the entries. An update replaces the word of the value.
//! - *Redo log*: a change of several nodes, a split or a merge, is a list of words to store, written to one
//!   of a few logs in the slab's root. A valid log is applied, and durably cleared before any other thread
//!   changes these nodes. Opening applies the valid logs it finds.
//!
//! Locks, versions, freeing of nodes and opening are common to all trees on the slow tier
//! ([`crate::persistent`]).

pub(crate) mod fault;
mod layout;
mod multi_node;
mod nodes;
mod redo_log;
mod slot_array;

#[cfg(test)]
pub(crate) use layout::entry_offset as key_offset;
pub(crate) use nodes::WbFormat;

crate::persistent::stored_tree! {
    /// A wB+-Tree with nodes of 512 bytes. An insert flushes two lines and waits for two fences; a removal
    /// or an update costs one of each. Reads are `O(log n)`. Opening reads only logs and root.
    WbTree, WbFormat
}
