//! How a node keeps its entries: [`NodeFormat`].

use std::fmt::Debug;

use halocline_pool::{Slab, SlabRecovery};

use crate::TreeError;

use super::entries::SortedEntries;
use super::layout::{KIND, NodeHeadValues, kind};
use super::node::{NodeRef, NodeWriter};

/// What a look at all of a node has found.
#[derive(Debug, Clone)]
pub(crate) struct NodeSummary {
    pub(crate) entries: SortedEntries,
    /// Whether a crash has left it half done, to be finished by [`NodeFormat::mend`].
    pub(crate) unfinished: bool,
}

/// A full node becomes two, under the locks of both and of the parent, which has room.
#[derive(Debug)]
pub(crate) struct NodeSplit<'a, 'm> {
    pub(crate) parent: NodeRef<'m>,
    pub(crate) node: NodeRef<'m>,
    /// Will be right of it.
    pub(crate) new: u64,
    pub(crate) level: u32,
    /// The node's.
    pub(crate) entries: &'a SortedEntries,
    /// Those from here on move.
    pub(crate) middle: usize,
    /// The least key that belongs to the new node.
    pub(crate) bound: u64,
    /// A further entry, for one of the two.
    pub(crate) own: Option<(u64, u64)>,
}

impl NodeSplit<'_, '_> {
    /// What the head of the new node is to say.
    pub(crate) fn head(&self) -> NodeHeadValues {
        NodeHeadValues {
            level: self.level,
            sibling: self.node.sibling(),
            low: self.bound,
            high: self.node.high(),
        }
    }

    /// What the new node gets.
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

    /// The further entry, if the old node gets it.
    pub(crate) fn stays(&self) -> Option<(u64, u64)> {
        self.own.filter(|own| own.0 < self.bound)
    }
}

/// A way to keep entries in a node, crash-consistently. Functions that change a node are called with its lock held, and return when
/// the change is durable; those that read may meet a node that is being changed, whose answers are thrown away.
pub(crate) trait NodeFormat: Debug + Send + Sync + Sized + 'static {
    /// What a slab of such a tree says it holds.
    const OWNER: [u8; 8];
    /// In each node's head.
    const TAG: u16;
    /// Entries of a node.
    const CAPACITY: usize;
    /// What changes of several nodes need besides the nodes; in DRAM.
    type Log: Debug + Send + Sync;

    fn log(slab: &Slab) -> Self::Log;

    /// Finishes what a crash has left of changes of several nodes, as far as nodes need not be looked at for that.
    ///
    /// # Errors
    /// Of the medium, or if what is there makes no sense.
    fn replay(recovery: &SlabRecovery) -> Result<(), TreeError>;

    /// How many entries there are.
    fn count(node: NodeRef<'_>) -> usize;

    /// Where the entry of a key is, and its value.
    fn find(node: NodeRef<'_>, key: u64) -> Option<(usize, u64)>;

    /// The value of the last entry whose key is not greater; of the first one if there is none such.
    fn child(node: NodeRef<'_>, key: u64) -> u64;

    /// All entries, in order; never more than [`CAPACITY`](NodeFormat::CAPACITY).
    fn each(node: NodeRef<'_>, take: impl FnMut(u64, u64));

    /// Stores and flushes a whole node that nobody knows yet.
    fn write_new(out: &mut NodeWriter<'_>, offset: u64, head: &NodeHeadValues, entries: &[(u64, u64)]);

    /// Adds an entry. There is room, and none with this key.
    fn insert(out: &mut NodeWriter<'_>, node: NodeRef<'_>, key: u64, value: u64);

    /// Replaces the value of the entry that [`find`](NodeFormat::find) has found.
    fn set_value(out: &mut NodeWriter<'_>, node: NodeRef<'_>, at: usize, value: u64);

    /// Removes it.
    fn remove(out: &mut NodeWriter<'_>, node: NodeRef<'_>, at: usize);

    /// Splits a node, and tells the parent.
    fn split(out: &mut NodeWriter<'_>, log: &Self::Log, split: &NodeSplit<'_, '_>);

    /// Gives a node all that its right sibling has, and the keys that belong to it. Both are children of `parent`. There is room. Nothing leads to the
    /// sibling any more when this returns.
    fn join(
        out: &mut NodeWriter<'_>,
        log: &Self::Log,
        parent: NodeRef<'_>,
        left: NodeRef<'_>,
        right: NodeRef<'_>,
    );

    /// Looks at all of a node.
    ///
    /// # Errors
    /// What contradicts itself.
    fn examine(node: NodeRef<'_>) -> Result<NodeSummary, &'static str>;

    /// Finishes what a crash has left half done within a node.
    fn mend(out: &mut NodeWriter<'_>, node: NodeRef<'_>);

    /// The child of an inner node whose right sibling the node may not know, or which may not know where its own keys end.
    fn unsettled(node: NodeRef<'_>) -> Option<u64>;

    /// Whether a test wants a bulk load to be published before it is durable.
    fn load_unfenced() -> bool;
}

impl SortedEntries {
    /// Those of a node; to be validated if others may write.
    #[inline]
    pub(crate) fn of<F: NodeFormat>(node: NodeRef<'_>) -> SortedEntries {
        let mut entries = SortedEntries::new();
        F::each(node, |key, value| entries.push((key, value)));
        entries
    }
}

impl NodeRef<'_> {
    /// Whether it is a node of this level.
    #[inline(always)]
    pub(crate) fn is<F: NodeFormat>(&self, level: u32) -> bool {
        self.meta() & KIND == kind(F::TAG, level)
    }

    /// Its level, if it is a node at all.
    pub(crate) fn level<F: NodeFormat>(&self) -> Option<u32> {
        let meta = self.meta();
        (meta >> 16 & 0xFFFF == u64::from(F::TAG)).then_some(meta as u32 & 0xFF)
    }
}

impl NodeHeadValues {
    /// The first word.
    pub(crate) fn meta<F: NodeFormat>(&self) -> u64 {
        kind(F::TAG, self.level)
    }
}
