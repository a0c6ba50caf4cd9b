//! The interface of a node format: [`NodeFormat`].

use std::fmt::Debug;

use halocline_pool::{Slab, SlabRecovery};

use crate::TreeError;

use super::entries::SortedEntries;
use super::layout::{KIND, NodeHeadValues, kind};
use super::node::{NodeRef, NodeWriter};

/// Result of reading a whole node.
#[derive(Debug, Clone)]
pub(crate) struct NodeSummary {
    pub(crate) entries: SortedEntries,
    /// True if a crash has left a change unfinished; [`NodeFormat::repair`] completes it.
    pub(crate) unfinished: bool,
}

/// A split of a full node. The caller holds the locks of the node, the new node and the parent, which has
/// room.
#[derive(Debug)]
pub(crate) struct NodeSplit<'a, 'm> {
    pub(crate) parent: NodeRef<'m>,
    pub(crate) node: NodeRef<'m>,
    /// Offset of the new node, the right sibling.
    pub(crate) new: u64,
    pub(crate) level: u32,
    /// The node's entries.
    pub(crate) entries: &'a SortedEntries,
    /// Index of the first entry that moves.
    pub(crate) middle: usize,
    /// Lower bound of the new node.
    pub(crate) bound: u64,
    /// An additional entry for one of the two nodes.
    pub(crate) own: Option<(u64, u64)>,
}

impl NodeSplit<'_, '_> {
    /// Returns the head of the new node.
    pub(crate) fn head(&self) -> NodeHeadValues {
        NodeHeadValues {
            level: self.level,
            sibling: self.node.sibling(),
            low: self.bound,
            high: self.node.high(),
        }
    }

    /// Returns the entries of the new node.
    pub(crate) fn moved(&self) -> SortedEntries {
        let mut moved = SortedEntries::new();
        self.entries[self.middle..]
            .iter()
            .for_each(|entry| moved.push(*entry));
        self.own
            .into_iter()
            .filter(|own| own.0 >= self.bound)
            .for_each(|own| moved.insert(own));
        moved
    }

    /// Returns the additional entry if it belongs to the old node.
    pub(crate) fn stays(&self) -> Option<(u64, u64)> {
        self.own.filter(|own| own.0 < self.bound)
    }
}

/// A layout of the entries in a node, and crash-consistent changes of it. Functions that change a node
/// require its lock and return when the change is durable. Functions that read may run during a change;
/// the caller validates their results.
pub(crate) trait NodeFormat: Debug + Send + Sync + Sized + 'static {
    /// Owner tag of the slab.
    const OWNER: [u8; 8];
    /// Tag in the head of each node.
    const TAG: u16;
    /// Capacity of a node in entries.
    const CAPACITY: usize;
    /// Volatile state for changes of several nodes.
    type Log: Debug + Send + Sync;

    fn log(slab: &Slab) -> Self::Log;

    /// Completes the changes of several nodes that a crash has interrupted, as far as that needs no check
    /// of the nodes.
    ///
    /// # Errors
    /// Fails if the medium does, or if the logs are inconsistent.
    fn replay(recovery: &SlabRecovery) -> Result<(), TreeError>;

    /// Returns the number of entries.
    fn count(node: NodeRef<'_>) -> usize;

    /// Returns the position of a key's entry, and its value.
    fn find(node: NodeRef<'_>, key: u64) -> Option<(usize, u64)>;

    /// Returns the value of the last entry whose key is not greater, or of the first entry if there is none.
    fn child(node: NodeRef<'_>, key: u64) -> u64;

    /// Calls `take` with all entries in order, at most [`CAPACITY`](NodeFormat::CAPACITY).
    fn each(node: NodeRef<'_>, take: impl FnMut(u64, u64));

    /// Stores and flushes a new node that is not referenced yet.
    fn write_new(out: &mut NodeWriter<'_>, offset: u64, head: &NodeHeadValues, entries: &[(u64, u64)]);

    /// Inserts an entry. The key must be absent and the node must have room.
    fn insert(out: &mut NodeWriter<'_>, node: NodeRef<'_>, key: u64, value: u64);

    /// Replaces the value of an entry found by [`find`](NodeFormat::find).
    fn set_value(out: &mut NodeWriter<'_>, node: NodeRef<'_>, at: usize, value: u64);

    /// Removes an entry found by [`find`](NodeFormat::find).
    fn remove(out: &mut NodeWriter<'_>, node: NodeRef<'_>, at: usize);

    /// Splits a node and inserts the new one into the parent.
    fn split(out: &mut NodeWriter<'_>, log: &Self::Log, split: &NodeSplit<'_, '_>);

    /// Merges `right` into `left`, which must have room. Both are adjacent children of `parent`. On return
    /// no durable link leads to `right`.
    fn join(
        out: &mut NodeWriter<'_>,
        log: &Self::Log,
        parent: NodeRef<'_>,
        left: NodeRef<'_>,
        right: NodeRef<'_>,
    );

    /// Reads and checks a whole node.
    ///
    /// # Errors
    /// A description of the inconsistency.
    fn examine(node: NodeRef<'_>) -> Result<NodeSummary, &'static str>;

    /// Completes a change within a node that a crash has interrupted.
    fn repair(out: &mut NodeWriter<'_>, node: NodeRef<'_>);

    /// Returns the child whose change together with its sibling may be unfinished: the sibling may be
    /// missing from this inner node, or the child's greatest key may be too great.
    fn unfinished_child(node: NodeRef<'_>) -> Option<u64>;

    /// Returns true if a test wants bulk loads published before they are durable.
    fn load_unfenced() -> bool;
}

impl SortedEntries {
    /// Copies the entries of a node. The result must be validated if there are concurrent writers.
    #[inline]
    pub(crate) fn from_node<F: NodeFormat>(node: NodeRef<'_>) -> SortedEntries {
        let mut entries = SortedEntries::new();
        F::each(node, |key, value| entries.push((key, value)));
        entries
    }
}

impl NodeRef<'_> {
    /// Returns true if it is a node of this level.
    #[inline(always)]
    pub(crate) fn is<F: NodeFormat>(&self, level: u32) -> bool {
        self.meta() & KIND == kind(F::TAG, level)
    }

    /// Returns the node's level, or `None` if it is not a node.
    pub(crate) fn level<F: NodeFormat>(&self) -> Option<u32> {
        let meta = self.meta();
        (meta >> 16 & 0xFFFF == u64::from(F::TAG)).then_some(meta as u32 & 0xFF)
    }
}

impl NodeHeadValues {
    /// Returns the first word of the head.
    pub(crate) fn meta<F: NodeFormat>(&self) -> u64 {
        kind(F::TAG, self.level)
    }
}
