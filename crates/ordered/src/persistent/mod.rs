//! Trees that are entirely on the slow tier. Inner nodes and leaves are nodes of one slab, 512 bytes each.
//!
//! This module is independent of the layout of entries, which a [`NodeFormat`] defines: that of
//! FAST&FAIR ([`crate::fair`]) or of the wB+-Tree ([`crate::wb`]). All nodes have a [`NodeHead`] with
//! their level, the range of their keys (`low..=high`) and their right sibling. The entries of an inner
//! node are its children with their lower bounds.
//!
//! Nodes are read without locks. A reader validates a node's version in DRAM ([`crate::locks`]) after
//! reading it, and that of the node with the link again after it has read the target's version. A
//! reader that reaches a node whose keys end before its own key follows the sibling link. A writer
//! locks the nodes it changes, and the parent if a child is added or removed; it never waits for one
//! lock while it holds another. A freed node is marked as such before its lock is released.
//!
//! Opening reads only the root. A change that a crash has interrupted is completed when the node, or for
//! a change of several nodes their parent, is first [visited](visit), so all other code sees complete
//! nodes. Entries are counted on demand ([`LazyEntryCount`](entry_count::LazyEntryCount)), and a
//! [walk](usage) that goes on with each allocation finds out which nodes are in use.

mod batch;
mod bulk;
mod check;
mod descend;
mod entries;
mod entry_count;
pub(crate) mod fault;
mod format;
mod grow;
mod layout;
mod node;
mod open;
mod remove;
mod scan;
mod tree;
mod usage;
mod visit;
mod write;

pub(crate) use entries::SortedEntries;
pub(crate) use format::{NodeFormat, NodeSplit, NodeSummary};
pub(crate) use layout::{HEAD, NODE, NodeHead, NodeHeadValues};
pub(crate) use node::{NodeRef, NodeWriter, offset_of};
pub(crate) use tree::{PersistentTree, stored_tree};
