//! FAST&FAIR (Hwang et al., FAST 2018): sorted entries in nodes that lie wholly on the slow tier, changed in place without a log.
//!
//! - *FAST* (3 there): an insert shifts the greater entries to the right, a removal to the left, by stores of 8 bytes, and each line is
//!   durable before the next one is touched. Of two neighbours with the same key the right one counts, so that after each of these
//!   stores the node holds the entries it had or the ones it will have. (The paper tells a copy by equal pointers; values here are
//!   any, so the keys tell.)
//! - *FAIR* (4): a split writes the new node, links it as the sibling, and tells the parent last; who comes to a node whose keys end before its own follows
//!   the sibling. The parent remembers which child it was last, in a word that is flushed with the new node and waits for no fence of its own; so opening need not look
//!   at all children for one that was left half done.
//!
//! Unlike there, readers take versions of nodes into account ([`crate::persistent`]), so that operations are linearizable; nodes that became empty, and inner nodes with few children, join
//! a neighbour by the steps of a split in reverse order.

mod layout;
pub(crate) mod mistake;
mod nodes;
mod shift;
mod split;

#[cfg(test)]
pub(crate) use layout::entry_offset as key_offset;
pub(crate) use nodes::FairFormat;

crate::persistent::stored_tree! {
    /// A FAST&FAIR tree, with nodes of 512 bytes. An insert or a removal writes the lines from its place to the node's last entry, and waits for a fence for each; an
    /// update one of each. Reads are `O(log n)`; opening reads the inner nodes only.
    FastFair, FairFormat
}
