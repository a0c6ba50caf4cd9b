//! Room for more: full nodes become two. Full inner nodes are split first, from the root down, so that a parent always has room for another
//! child when one of its children is split.

use crate::TreeError;

use super::entries::SortedEntries;
use super::format::{NodeFormat, NodeSplit};
use super::layout::{NodeHeadValues, TOP};
use super::node::{NodeRef, NodeWriter, number_of};
use super::tree::PersistentTree;

/// A node that was taken from the pool and is given back if it is not needed.
pub(super) struct SpareNode<'a, F: NodeFormat> {
    tree: &'a PersistentTree<F>,
    node: Option<u64>,
}

impl<'a, F: NodeFormat> SpareNode<'a, F> {
    pub(super) fn new(tree: &'a PersistentTree<F>) -> SpareNode<'a, F> {
        SpareNode { tree, node: None }
    }

    /// Sees to it that there is one.
    ///
    /// # Errors
    /// As [`PersistentTree::take`].
    pub(super) fn fill(&mut self) -> Result<(), TreeError> {
        if self.node.is_none() {
            self.node = Some(self.tree.take()?);
        }
        Ok(())
    }
}

impl<F: NodeFormat> Drop for SpareNode<'_, F> {
    fn drop(&mut self) {
        if let Some(node) = self.node {
            self.tree.slab.free(node);
        }
    }
}

/// What is to be split.
pub(super) struct SplitTarget {
    pub(super) parent: u32,
    pub(super) child: u32,
    /// The child's.
    pub(super) level: u32,
    /// Belongs to it.
    pub(super) key: u64,
    /// It has so many entries at least.
    pub(super) least: usize,
}

impl<F: NodeFormat> PersistentTree<F> {
    /// Splits one node on the way to a key, the highest one that is full; if that is the leaf, adds an entry with this key. Whether it did
    /// that.
    pub(super) fn make_room(
        &self,
        key: u64,
        value: u64,
        spare: &mut SpareNode<'_, F>,
    ) -> Result<bool, TreeError> {
        let Some(path) = self.try_path(key)? else {
            return Ok(false);
        };
        let full = |level: u32| F::count(self.node(path.nodes[level as usize])) == F::CAPACITY;
        let highest = (1..=path.height).rev().find(|level| full(*level)).unwrap_or(0);
        if highest == path.height {
            self.grow_root(path.nodes[highest as usize], highest, spare)?;
            return Ok(false);
        }
        let wanted = SplitTarget {
            parent: path.nodes[highest as usize + 1],
            child: path.nodes[highest as usize],
            level: highest,
            key,
            least: F::CAPACITY,
        };
        let own = (highest == 0).then_some((key, value));
        Ok(self.split(&wanted, own, spare)? && highest == 0)
    }

    /// Splits a node and adds an entry, if it is still what is wanted; whether it was.
    pub(super) fn split(
        &self,
        wanted: &SplitTarget,
        own: Option<(u64, u64)>,
        spare: &mut SpareNode<'_, F>,
    ) -> Result<bool, TreeError> {
        let Some(new) = spare.node else {
            return Ok(false);
        };
        let SplitTarget {
            level, key, least, ..
        } = *wanted;
        let Some(locked) = self
            .locks
            .try_lock_all([wanted.parent, wanted.child, number_of(new)])
        else {
            return Ok(false);
        };
        let (parent, node) = (self.node(wanted.parent), self.node(wanted.child));
        let fits = parent.is::<F>(level + 1)
            && parent.covers(key)
            && self.agree(parent, node, key)
            && F::count(parent) < F::CAPACITY
            && node.is::<F>(level)
            && node.covers(key)
            && F::count(node) >= least
            && (level > 0 || self.visited.has(wanted.child) && F::find(node, key).is_none());
        if !fits {
            locked.unchanged();
            return Ok(false);
        }
        let entries = SortedEntries::of::<F>(node);
        // Behind the last of all, nothing is likely to come but more behind it.
        let last = node.high() == u64::MAX && entries.last().is_some_and(|last| last.0 <= key);
        let middle = match (last, level) {
            (false, _) => entries.len() / 2,
            (true, 0) => entries.len(),
            (true, _) => entries.len() - 1,
        };
        let bound = entries.get(middle).map_or(key, |entry| entry.0);
        let mut out = NodeWriter::new(self.slab.medium());
        let split = NodeSplit {
            parent,
            node,
            new,
            level,
            entries: &entries,
            middle,
            bound,
            own,
        };
        F::split(&mut out, &self.log, &split);
        spare.node = None;
        self.visited.add(number_of(new));
        if own.is_some() {
            self.entry_count.add(wanted.child, key, 1);
        }
        if level > 0 {
            self.add_inner_nodes(1);
        }
        drop(locked);
        self.write_gate.keep(out.done())?;
        Ok(true)
    }

    /// Whether a node is the child of a parent that a key belongs to, and both say the same of the keys that belong to it: their locks are
    /// held. What is damaged must not be copied to another node.
    pub(super) fn agree(&self, parent: NodeRef<'_>, node: NodeRef<'_>, key: u64) -> bool {
        let entries = SortedEntries::of::<F>(parent);
        let child = entries.child(key);
        entries.get(child).is_some_and(|(low, link)| {
            *link == node.offset && (*low, entries.high(child, parent.high())) == (node.low(), node.high())
        })
    }

    /// Puts a new root above a full one, which is split the next time.
    fn grow_root(&self, root: u32, level: u32, spare: &mut SpareNode<'_, F>) -> Result<(), TreeError> {
        let Some(new) = spare.node.filter(|_| level + 1 < TOP) else {
            return Ok(());
        };
        let Some(locked) = self.locks.try_lock_all([root, number_of(new)]) else {
            return Ok(());
        };
        if self.root() != (root, level) {
            locked.unchanged();
            return Ok(());
        }
        let mut out = NodeWriter::new(self.slab.medium());
        let head = NodeHeadValues {
            level: level + 1,
            sibling: 0,
            low: 0,
            high: u64::MAX,
        };
        F::write_new(&mut out, new, &head, &[(0, self.node(root).offset)]);
        out.fence();
        self.store_root(&mut out, new);
        self.set_root(number_of(new), level + 1);
        self.add_inner_nodes(1);
        self.visited.add(number_of(new));
        spare.node = None;
        drop(locked);
        self.write_gate.keep(out.done())
    }

    /// Makes a node the root, durably.
    pub(super) fn store_root(&self, out: &mut NodeWriter<'_>, node: u64) {
        let root = self.slab.root();
        out.store(root, node);
        out.flush(root);
        out.fence();
    }

    pub(super) fn add_inner_nodes(&self, more: u64) {
        self.inner_nodes
            .fetch_add(more, std::sync::atomic::Ordering::Relaxed);
    }
}
