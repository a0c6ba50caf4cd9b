//! Trees that lie wholly on the slow tier: inner nodes and leaves are nodes of one slab, 512 bytes each.
//!
//! What is here does not know how a node keeps its entries; a [`NodeFormat`] does: that of FAST&FAIR ([`crate::fair`]) or of the
//! wB+-Tree ([`crate::wb`]). All nodes have a [`NodeHeadValues`](layout::NodeHeadValues): their level, the keys that belong to them, from `low` to `high`, and their right
//! sibling. An inner node's entries are its children, each with the least key that belongs to it.
//!
//! Nodes are read without a lock: a reader looks at a node's version in DRAM ([`crate::locks`]) before and after it has read the node, and at
//! the link's source once more after it has the target's version. Who comes to a node whose keys end before its own follows the
//! sibling. A writer locks the nodes it changes, the parent with them if there will be another child or one less, and never waits
//! for one lock with another in hand. A node that is given back says in its bytes that it is none, before its lock is let go.
//!
//! Opening reads inner nodes only. What a crash has left half done in a leaf is finished when the leaf is first visited
//! ([`VisitedLeaves`](visited::VisitedLeaves)), so that all other code meets finished nodes only; and entries are counted when that is asked for ([`LazyEntryCount`](entry_count::LazyEntryCount)).

mod batch;
mod bulk;
mod check;
mod descend;
mod entries;
mod entry_count;
mod format;
mod grow;
mod layout;
mod node;
mod recover;
mod remove;
mod scan;
mod tree;
mod visited;
mod write;

pub(crate) use entries::SortedEntries;
pub(crate) use format::{NodeFormat, NodeSplit, NodeSummary};
pub(crate) use layout::{HEAD, NODE, NodeHead, NodeHeadValues};
pub(crate) use node::{NodeRef, NodeWriter, offset_of};
pub(crate) use tree::{PersistentTree, stored_tree};
