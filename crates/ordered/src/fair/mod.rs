//! FAST&FAIR (Hwang et al., FAST 2018): sorted entries in nodes that are entirely on the slow tier,
//! changed in place without a log.
//!
//! - *FAST* (section 3): an insert shifts the greater entries to the right and a removal shifts them to the
//!   left, by stores of 8 bytes. Each line is durable before the next one is touched. If two neighbours have
//!   the same key, the right one is valid, so after each store the node holds either its old or its new
//!   entries. (The paper recognizes a copy by equal pointers. Values are arbitrary here, so the keys are
//!   compared instead.)
//! - *FAIR* (section 4): a split writes the new node, links it as the sibling and updates the parent last. A
//!   reader that reaches a node whose keys end before its own key follows the sibling link. The parent stores
//!   the child of the latest change as a hint, in a word that is flushed with the new node and needs no fence
//!   of its own. The first visit of a parent therefore checks one child for an unfinished change instead of
//!   all of them.
//!
//! Unlike in the paper, readers validate the versions of nodes ([`crate::persistent`]), so operations
//! are linearizable. Empty nodes, and inner nodes with few children, are merged with a neighbour by the
//! steps of a split in reverse order.

pub(crate) mod fault;
mod layout;
mod nodes;
mod shift;
mod split;

#[cfg(test)]
pub(crate) use layout::entry_offset as key_offset;
pub(crate) use nodes::FairFormat;

crate::persistent::stored_tree! {
    /// A FAST&FAIR tree with nodes of 512 bytes. An insert or a removal writes the lines from its position
    /// to the last entry of the node and waits for one fence per line; an update takes one line and one
    /// fence. Reads are `O(log n)`. Opening reads only the root.
    FastFair, FairFormat
}
