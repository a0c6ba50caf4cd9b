//! Splitting of full nodes. Full inner nodes on the path are split first, from the root down, so that a
//! parent always has room when one of its children is split.

use crate::TreeError;

use super::entries::SortedEntries;
use super::format::{NodeFormat, NodeSplit};
use super::layout::{NodeHeadValues, TOP};
use super::node::{NodeRef, NodeWriter, number_of};
use super::tree::PersistentTree;

/// A node allocated for a split. It is freed if it has not been used.
pub(super) struct SpareNode<'a, F: NodeFormat> {
    tree: &'a PersistentTree<F>,
    node: Option<u64>,
}

impl<'a, F: NodeFormat> SpareNode<'a, F> {
    pub(super) fn new(tree: &'a PersistentTree<F>) -> SpareNode<'a, F> {
        SpareNode { tree, node: None }
    }

    /// Allocates a node if there is none.
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

/// A node to be split.
pub(super) struct SplitTarget {
    pub(super) parent: u32,
    pub(super) child: u32,
    /// The child's level.
    pub(super) level: u32,
    /// A key that belongs to the child.
    pub(super) key: u64,
    /// Minimum number of entries for the split to take place.
    pub(super) least: usize,
}

impl<F: NodeFormat> PersistentTree<F> {
    /// Splits the highest full node on the path of a key. If that is the leaf, also inserts the entry and
    /// returns true.
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

    /// Splits a node and inserts an entry if the target is still as described. Returns true if it was.
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
            && self.is_consistent_child(parent, node, key)
            && F::count(parent) < F::CAPACITY
            && node.is::<F>(level)
            && node.covers(key)
            && F::count(node) >= least
            && (level > 0 || self.visited.has(wanted.child) && F::find(node, key).is_none());
        if !fits {
            locked.unchanged();
            return Ok(false);
        }
        let entries = SortedEntries::from_node::<F>(node);
        // At the right end, ascending keys are likely to follow: move as little as possible, so that nodes
        // stay full.
        let last = node.high() == u64::MAX && entries.last().is_some_and(|last| last.0 <= key);
        let middle = match (last, level) {
            (false, _) => entries.len() / 2,
            (true, 0) => entries.len(),
            (true, _) => entries.len() - 1,
        };
        // If nothing moves, the additional entry is the first of the new node.
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

    /// Returns true if a node is the child of `parent` for a key and both agree on its range of keys. The
    /// caller holds their locks. This keeps damage from spreading to other nodes.
    pub(super) fn is_consistent_child(&self, parent: NodeRef<'_>, node: NodeRef<'_>, key: u64) -> bool {
        let entries = SortedEntries::from_node::<F>(parent);
        let child = entries.child(key);
        entries.get(child).is_some_and(|(low, link)| {
            *link == node.offset && (*low, entries.high(child, parent.high())) == (node.low(), node.high())
        })
    }

    /// Adds a new root above a full one. The full node is split by the next attempt.
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
        // The new root must be durable before the slab's root refers to it.
        out.fence();
        self.store_root(&mut out, new);
        self.set_root(number_of(new), level + 1);
        self.add_inner_nodes(1);
        self.visited.add(number_of(new));
        spare.node = None;
        drop(locked);
        self.write_gate.keep(out.done())
    }

    /// Makes a node the root durably.
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
