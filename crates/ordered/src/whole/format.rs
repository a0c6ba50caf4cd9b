//! How a node keeps its entries: [`Format`].

use std::fmt::Debug;
use std::ops::Deref;

use halocline_pool::{Slab, SlabRecovery};

use crate::TreeError;

use super::layout::Head;
use super::node::{Node, Out};

/// The most entries a node of any format has.
const MOST: usize = 30;

/// A node's entries in ascending order of their keys, in private memory, with room for one more.
#[derive(Debug, Clone)]
pub(crate) struct Entries {
    count: usize,
    all: [(u64, u64); MOST + 1],
}

impl Entries {
    #[inline(always)]
    pub(crate) fn new() -> Entries {
        Entries {
            count: 0,
            all: [(0, 0); MOST + 1],
        }
    }

    /// Those of a node; to be validated if others may write.
    #[inline]
    pub(crate) fn of<F: Format>(node: Node<'_>) -> Entries {
        let mut entries = Entries::new();
        F::each(node, |key, value| entries.push((key, value)));
        entries
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, entry: (u64, u64)) {
        self.all[self.count] = entry;
        self.count += 1;
    }

    /// Puts an entry in the place of the last one.
    pub(crate) fn replace_last(&mut self, entry: (u64, u64)) {
        self.all[self.count - 1] = entry;
    }

    /// Puts an entry where it belongs.
    pub(crate) fn insert(&mut self, entry: (u64, u64)) {
        let at = self.rank(entry.0);
        self.all.copy_within(at..self.count, at + 1);
        self.all[at] = entry;
        self.count += 1;
    }

    /// How many have keys below this one.
    pub(crate) fn rank(&self, key: u64) -> usize {
        self.partition_point(|entry| entry.0 < key)
    }

    /// Which child the key belongs to.
    pub(crate) fn child(&self, key: u64) -> usize {
        self.partition_point(|entry| entry.0 <= key).saturating_sub(1)
    }

    /// The greatest key that belongs to a child of a node whose own is `high`.
    pub(crate) fn high(&self, child: usize, high: u64) -> u64 {
        self.get(child + 1).map_or(high, |next| next.0.wrapping_sub(1))
    }
}

impl Deref for Entries {
    type Target = [(u64, u64)];

    #[inline(always)]
    fn deref(&self) -> &[(u64, u64)] {
        &self.all[..self.count]
    }
}

/// What a look at all of a node has found.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) entries: Entries,
    /// Whether a crash has left it half done, to be finished by [`Format::mend`].
    pub(crate) unfinished: bool,
}

/// A full node becomes two, under the locks of both and of the parent, which has room.
#[derive(Debug)]
pub(crate) struct Split<'a, 'm> {
    pub(crate) parent: Node<'m>,
    pub(crate) node: Node<'m>,
    /// Will be right of it.
    pub(crate) new: u64,
    pub(crate) level: u32,
    /// The node's.
    pub(crate) entries: &'a Entries,
    /// Those from here on move.
    pub(crate) middle: usize,
    /// The least key that belongs to the new node.
    pub(crate) bound: u64,
    /// A further entry, for one of the two.
    pub(crate) own: Option<(u64, u64)>,
}

impl Split<'_, '_> {
    /// What the head of the new node is to say.
    pub(crate) fn head(&self) -> Head {
        Head {
            level: self.level,
            sibling: self.node.sibling(),
            low: self.bound,
            high: self.node.high(),
        }
    }

    /// What the new node gets.
    pub(crate) fn moved(&self) -> Entries {
        let mut moved = Entries::new();
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
pub(crate) trait Format: Debug + Send + Sync + Sized + 'static {
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
    fn count(node: Node<'_>) -> usize;

    /// Where the entry of a key is, and its value.
    fn find(node: Node<'_>, key: u64) -> Option<(usize, u64)>;

    /// The value of the last entry whose key is not greater; of the first one if there is none such.
    fn child(node: Node<'_>, key: u64) -> u64;

    /// All entries, in order; never more than [`CAPACITY`](Format::CAPACITY).
    fn each(node: Node<'_>, take: impl FnMut(u64, u64));

    /// Stores and flushes a whole node that nobody knows yet.
    fn write_new(out: &mut Out<'_>, offset: u64, head: &Head, entries: &[(u64, u64)]);

    /// Adds an entry. There is room, and none with this key.
    fn insert(out: &mut Out<'_>, node: Node<'_>, key: u64, value: u64);

    /// Replaces the value of the entry that [`find`](Format::find) has found.
    fn set_value(out: &mut Out<'_>, node: Node<'_>, at: usize, value: u64);

    /// Removes it.
    fn remove(out: &mut Out<'_>, node: Node<'_>, at: usize);

    /// Splits a node, and tells the parent.
    fn split(out: &mut Out<'_>, log: &Self::Log, split: &Split<'_, '_>);

    /// Gives a node all that its right sibling has, and the keys that belong to it. Both are children of `parent`. There is room. Nothing leads to the
    /// sibling any more when this returns.
    fn join(out: &mut Out<'_>, log: &Self::Log, parent: Node<'_>, left: Node<'_>, right: Node<'_>);

    /// Looks at all of a node.
    ///
    /// # Errors
    /// What contradicts itself.
    fn examine(node: Node<'_>) -> Result<Facts, &'static str>;

    /// Finishes what a crash has left half done within a node.
    fn mend(out: &mut Out<'_>, node: Node<'_>);

    /// The child of an inner node whose right sibling the node may not know, or which may not know where its own keys end.
    fn unsettled(node: Node<'_>) -> Option<u64>;

    /// Whether a test wants a bulk load to be published before it is durable.
    fn load_unfenced() -> bool;
}
