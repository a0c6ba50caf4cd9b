//! Removing entries, and freeing nodes that become empty.

use crate::TreeError;
use crate::locks::Backoff;

use super::descend::RootPath;
use super::entries::SortedEntries;
use super::format::NodeFormat;
use super::grow::{SpareNode, SplitTarget};
use super::layout::NodeHead;
use super::node::{NodeRef, NodeWriter};
use super::tree::PersistentTree;

/// Maximum number of attempts to free nodes despite concurrent changes. If all fail, the nodes remain until
/// the next removal nearby.
const MAX_ATTEMPTS: usize = 256;

/// Two adjacent children of an inner node that are to be merged.
struct SiblingPair {
    parent: u32,
    /// The parent's version at which they were found.
    version: u64,
    left: u32,
    right: u32,
    /// Level of the children.
    level: u32,
}

impl<F: NodeFormat> PersistentTree<F> {
    /// Inner nodes with at most this number of children are merged with a neighbour.
    const MAX_MERGED_CHILDREN: usize = F::CAPACITY / 4;

    /// Removes the entry of a key and returns its value.
    pub(crate) fn remove(&self, key: u64) -> Result<Option<u64>, TreeError> {
        self.write_gate.check(&self.slab)?;
        let (number, locked) = self.lock_leaf(key)?;
        let node = self.node(number);
        let Some((at, value)) = F::find(node, key) else {
            locked.unchanged();
            return Ok(None);
        };
        let mut out = NodeWriter::new(self.slab.medium());
        F::remove(&mut out, node, at);
        let empty = F::count(node) == 0;
        self.entry_count.add(number, key, -1);
        drop(locked);
        self.write_gate.keep(out.done())?;
        if empty {
            self.free_empty(key)?;
        }
        Ok(Some(value))
    }

    /// Frees the leaf of a key if it is empty and not the only one, and merges inner nodes above it that
    /// have few children.
    #[cold]
    fn free_empty(&self, key: u64) -> Result<(), TreeError> {
        let mut backoff = Backoff::default();
        for _ in 0..MAX_ATTEMPTS {
            match self.try_free_empty(key)? {
                Some(true) => {}
                Some(false) => return Ok(()),
                None => backoff.wait(),
            }
        }
        Ok(())
    }

    /// Returns true if something was changed, so that there may be more to do, and `None` if a concurrent
    /// change interfered.
    fn try_free_empty(&self, key: u64) -> Result<Option<bool>, TreeError> {
        let Some(path) = self.try_path(key)? else {
            return Ok(None);
        };
        for level in (1..=path.height).rev() {
            let number = path.nodes[level as usize];
            let node = self.node(number);
            let Some(version) = self.locks.read(number) else {
                return Ok(None);
            };
            let fits = node.is::<F>(level) && node.covers(key);
            let entries = SortedEntries::from_node::<F>(node);
            if !(fits && self.locks.validate(number, version) && !entries.is_empty()) {
                return Ok(None);
            }
            if level == path.height && level > 1 && entries.len() == 1 {
                return if self.is_usable(entries[0], level - 1)? {
                    self.shrink_root(&path, version, entries[0].1)
                } else {
                    Ok(Some(false))
                };
            }
            let child = entries.child(key);
            let count_of = |child: usize| F::count(self.node(self.number(entries[child].1)));
            let count = count_of(child);
            let few = count == 0 || level > 1 && count <= Self::MAX_MERGED_CHILDREN;
            if !few || entries.len() < 2 {
                continue;
            }
            // For an empty leaf it is cheapest if its left neighbour takes over its keys.
            let left = if child + 1 == entries.len() || level == 1 && child > 0 {
                child - 1
            } else {
                child
            };
            let pair = SiblingPair {
                parent: number,
                version,
                left: self.number(entries[left].1),
                right: self.number(entries[left + 1].1),
                level: level - 1,
            };
            if !(self.is_usable(entries[left], level - 1)? && self.is_usable(entries[left + 1], level - 1)?) {
                continue;
            }
            if count_of(left) + count_of(left + 1) <= F::CAPACITY {
                return self.join(&pair);
            }
            if level == 1 {
                // The leaf is no longer empty.
                return Ok(Some(false));
            }
            // After a split of the neighbour, half of it will fit.
            let neighbour = if left == child { left + 1 } else { left };
            let mut spare = SpareNode::new(self);
            if entries.len() < F::CAPACITY && spare.fill().is_ok() {
                let wanted = SplitTarget {
                    parent: number,
                    child: self.number(entries[neighbour].1),
                    level: level - 1,
                    key: entries[neighbour].0,
                    least: F::CAPACITY / 2,
                };
                return Ok(self.split(&wanted, None, &mut spare)?.then_some(true));
            }
        }
        Ok(Some(false))
    }

    /// Visits a child with the lower bound `low` on this level. Returns true if it is not known to be
    /// damaged.
    fn is_usable(&self, (low, link): (u64, u64), level: u32) -> Result<bool, TreeError> {
        let number = self.number(link);
        let visited = if self.visited.has(number) {
            Ok(())
        } else {
            self.verify_place(low, level)
                .and_then(|_| self.visit(number, level))
        };
        match visited.and_then(|()| self.intact(number)) {
            Ok(()) => Ok(true),
            Err(TreeError::Damaged { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Merges two nodes and frees the right one.
    fn join(&self, pair: &SiblingPair) -> Result<Option<bool>, TreeError> {
        let Some(locked) = self.locks.try_lock_all([pair.parent, pair.left, pair.right]) else {
            return Ok(None);
        };
        let [parent, left, right] = [pair.parent, pair.left, pair.right].map(|node| self.node(node));
        let (a, b) = (F::count(left), F::count(right));
        let fits = locked.first_was(pair.version)
            && left.is::<F>(pair.level)
            && right.is::<F>(pair.level)
            && self.is_consistent_child(parent, left, left.low())
            && self.is_consistent_child(parent, right, right.low())
            && a + b <= F::CAPACITY
            && (pair.level > 0 || a == 0 || b == 0);
        if !fits {
            locked.unchanged();
            return Ok(None);
        }
        let mut out = NodeWriter::new(self.slab.medium());
        F::join(&mut out, &self.log, parent, left, right);
        // Before the locks are released, so that no reader takes the freed node for a live one.
        self.mark_freed(&mut out, right);
        if pair.level > 0 {
            self.confirm_inner(pair.right);
            self.add_inner_nodes(1_u64.wrapping_neg());
        }
        drop(locked);
        let result = self.write_gate.keep(out.done());
        self.slab.free(right.offset);
        result.map(|()| Some(true))
    }

    /// Replaces the root by its only child.
    fn shrink_root(&self, path: &RootPath, version: u64, child: u64) -> Result<Option<bool>, TreeError> {
        let number = path.nodes[path.height as usize];
        let Some(locked) = self.locks.try_lock_all([number]) else {
            return Ok(None);
        };
        if self.root() != (number, path.height) || !locked.first_was(version) {
            locked.unchanged();
            return Ok(None);
        }
        let root = self.node(number);
        let mut out = NodeWriter::new(self.slab.medium());
        self.store_root(&mut out, child);
        self.set_root(self.number(child), path.height - 1);
        self.mark_freed(&mut out, root);
        self.confirm_inner(number);
        self.add_inner_nodes(1_u64.wrapping_neg());
        drop(locked);
        let result = self.write_gate.keep(out.done());
        self.slab.free(root.offset);
        result.map(|()| Some(true))
    }

    /// Marks a node as freed for readers on their way to it. The mark need not be durable, because no
    /// durable link leads to the node.
    fn mark_freed(&self, out: &mut NodeWriter<'_>, node: NodeRef<'_>) {
        out.store(node.offset + NodeHead::META, 0);
    }
}
