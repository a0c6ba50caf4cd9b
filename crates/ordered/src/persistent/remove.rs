//! Removing entries, and nodes that have none left.

use crate::TreeError;
use crate::locks::Backoff;

use super::descend::RootPath;
use super::entries::SortedEntries;
use super::format::NodeFormat;
use super::grow::{SpareNode, SplitTarget};
use super::layout::NodeHead;
use super::node::{NodeRef, NodeWriter};
use super::tree::PersistentTree;

/// How often it is tried to give nodes back when others come in between; if it fails, they stay until the next removal nearby.
const TRIES: usize = 256;

/// A child of an inner node and the one right of it, to become one.
struct SiblingPair {
    parent: u32,
    /// The parent's version, at which they are its children.
    version: u64,
    left: u32,
    right: u32,
    /// Theirs.
    level: u32,
}

impl<F: NodeFormat> PersistentTree<F> {
    /// With so many children, or fewer, an inner node joins a neighbour.
    const FEW: usize = F::CAPACITY / 4;

    /// Removes the entry of a key and returns its value.
    pub(crate) fn take_out(&self, key: u64) -> Result<Option<u64>, TreeError> {
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
            self.tidy(key)?;
        }
        Ok(Some(value))
    }

    /// Gives back the leaf that a key belongs to, if it is empty and not the only one, and inner nodes above it that are not needed.
    #[cold]
    fn tidy(&self, key: u64) -> Result<(), TreeError> {
        let mut backoff = Backoff::default();
        for _ in 0..TRIES {
            match self.try_tidy(key)? {
                Some(true) => {}
                Some(false) => return Ok(()),
                None => backoff.wait(),
            }
        }
        Ok(())
    }

    /// Whether something was done, after which there may be more to do; nothing if others came in between.
    fn try_tidy(&self, key: u64) -> Result<Option<bool>, TreeError> {
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
            let entries = SortedEntries::of::<F>(node);
            if !(fits && self.locks.validate(number, version) && !entries.is_empty()) {
                return Ok(None);
            }
            if level == path.height && level > 1 && entries.len() == 1 {
                return match self.is_usable(self.number(entries[0].1))? {
                    true => self.shrink_root(&path, version, entries[0].1),
                    false => Ok(Some(false)),
                };
            }
            let child = entries.child(key);
            let count_of = |child: usize| F::count(self.node(self.number(entries[child].1)));
            let count = count_of(child);
            let few = count == 0 || level > 1 && count <= Self::FEW;
            if !few || entries.len() < 2 {
                continue;
            }
            // An empty leaf costs least if the one left of it takes over its keys.
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
            if !(self.is_usable(pair.left)? && self.is_usable(pair.right)?) {
                continue;
            }
            if count_of(left) + count_of(left + 1) <= F::CAPACITY {
                return self.join(&pair);
            }
            if level == 1 {
                // Not empty any more.
                return Ok(Some(false));
            }
            // Half of the neighbour will fit, if there is room for the other half.
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

    /// Whether a node is none that was found damaged; if it is a leaf, it is visited.
    fn is_usable(&self, number: u32) -> Result<bool, TreeError> {
        let visited = match self.visited.has(number) {
            false => self.visit(number),
            true => Ok(()),
        };
        match visited.and_then(|()| self.intact(number)) {
            Ok(()) => Ok(true),
            Err(TreeError::Damaged { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Joins two nodes, and gives the right one back.
    fn join(&self, pair: &SiblingPair) -> Result<Option<bool>, TreeError> {
        let Some(locked) = self.locks.try_lock_all([pair.parent, pair.left, pair.right]) else {
            return Ok(None);
        };
        let [parent, left, right] = [pair.parent, pair.left, pair.right].map(|node| self.node(node));
        let (a, b) = (F::count(left), F::count(right));
        let fits = locked.first_was(pair.version)
            && left.is::<F>(pair.level)
            && right.is::<F>(pair.level)
            && self.agree(parent, left, left.low())
            && self.agree(parent, right, right.low())
            && a + b <= F::CAPACITY
            && (pair.level > 0 || a == 0 || b == 0);
        if !fits {
            locked.unchanged();
            return Ok(None);
        }
        let mut out = NodeWriter::new(self.slab.medium());
        F::join(&mut out, &self.log, parent, left, right);
        self.bury(&mut out, right);
        if pair.level > 0 {
            self.add_inner_nodes(1_u64.wrapping_neg());
        }
        drop(locked);
        let result = self.write_gate.keep(out.done());
        self.slab.free(right.offset);
        result.map(|()| Some(true))
    }

    /// Makes the only child of the root the root.
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
        self.bury(&mut out, root);
        self.add_inner_nodes(1_u64.wrapping_neg());
        drop(locked);
        let result = self.write_gate.keep(out.done());
        self.slab.free(root.offset);
        result.map(|()| Some(true))
    }

    /// Tells readers that are on their way to a node that it is none any more. Need not be durable, as no durable link leads there.
    fn bury(&self, out: &mut NodeWriter<'_>, node: NodeRef<'_>) {
        out.store(node.offset + NodeHead::META, 0);
    }
}
