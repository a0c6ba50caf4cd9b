//! The wB+-Tree (Chen and Jin, PVLDB 8(7), 2015): nodes that lie wholly on the slow tier and keep their entries in any order, so that an insert writes few
//! lines; a slot array has the order.
//!
//! - *Bitmap and slot array* (3.2 there): one word says which entries are in use and whether the slot array counts. An insert makes
//!   the slot array not count, writes slot array and entry, and makes both count by one store. The paper flushes and fences each of the three steps; here the
//!   slot array shares a line with the bitmap, whose stores arrive in order, so only the entry needs a fence before the bitmap. A
//!   slot array that does not count is found again from the entries. An update replaces the word of the value.
//! - *Redo log*: what changes several nodes, a split or a join, is a list of words to store, in one of a few logs in the slab's root. A log that
//!   counts is applied, and durably cleared before anyone else changes these nodes; opening applies those it finds.
//!
//! Locks, versions, empty nodes and opening are those of all trees on the slow tier ([`crate::persistent`]).

mod layout;
pub(crate) mod mistake;
mod multi_node;
mod nodes;
mod redo_log;
mod slot_array;

#[cfg(test)]
pub(crate) use layout::entry_offset as key_offset;
pub(crate) use nodes::WbFormat;

crate::persistent::stored_tree! {
    /// A wB+-Tree, with nodes of 512 bytes. An insert flushes two lines and waits for two fences, a removal or an
    /// update one of each. Reads are `O(log n)`; opening reads the inner nodes only.
    WbTree, WbFormat
}
