//! Descending from the root to the node of a key.

use crate::TreeError;
use crate::locks::Backoff;

use super::entries::SortedEntries;
use super::format::NodeFormat;
use super::layout::TOP;
use super::tree::PersistentTree;

/// A node and the version at which it was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VersionedNode {
    pub(crate) number: u32,
    pub(crate) version: u64,
}

/// The nodes on the path from the root to the leaf of a key, indexed by level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RootPath {
    pub(crate) nodes: [u32; TOP as usize],
    /// Level of the root.
    pub(crate) height: u32,
}

/// A copy of a lowest inner node: its children and the range of their keys.
#[derive(Debug)]
pub(crate) struct PersistentParentSnapshot {
    pub(crate) entries: SortedEntries,
    low: u64,
    high: u64,
    /// Offset of its right sibling.
    pub(crate) right: u64,
}

impl PersistentParentSnapshot {
    /// Returns the least and the greatest key of the range.
    pub(crate) fn keys(&self) -> (u64, u64) {
        (self.low, self.high)
    }

    /// Returns the greatest key that belongs to a child.
    pub(crate) fn high(&self, child: usize) -> u64 {
        self.entries.high(child, self.high)
    }
}

impl<F: NodeFormat> PersistentTree<F> {
    /// Descends to the node of a key on level `down_to`. Returns `None` if a concurrent change interferes.
    /// Data read from the node is valid if the version is unchanged afterwards.
    ///
    /// # Errors
    /// [`TreeError::Damaged`].
    #[inline(always)]
    pub(super) fn try_descend(&self, key: u64, down_to: u32) -> Result<Option<VersionedNode>, TreeError> {
        self.follow(key, down_to, |_, _| ())
    }

    /// Descends like [`try_descend`](PersistentTree::try_descend) and calls `passing` with the number and
    /// level of each node on the path that covers the key.
    #[inline(always)]
    pub(super) fn follow(
        &self,
        key: u64,
        down_to: u32,
        mut passing: impl FnMut(u32, u32),
    ) -> Result<Option<VersionedNode>, TreeError> {
        let (number, mut level) = self.root();
        if level < down_to {
            // Another thread has removed the root since the caller read the height.
            return Ok(None);
        }
        let Some(version) = self.locks.read(number) else {
            return Ok(None);
        };
        let mut at = VersionedNode { number, version };
        let mut from = None;
        // Lower bound that a sibling must have: its keys begin after those of the node that links to it. This
        // keeps damaged links from forming cycles.
        let mut least = 0;
        loop {
            self.intact(at.number)?;
            if !self.visited.has(at.number) {
                return self.first_visit(key, level, from, at);
            }
            let node = self.node(at.number);
            let low = node.low();
            if !node.is::<F>(level) || key < low || low < least {
                return self.contradiction(from, at, from);
            }
            let high = node.high();
            least = 0;
            let link = if key > high {
                least = high + 1;
                node.sibling()
            } else if level == down_to {
                passing(at.number, level);
                return Ok(Some(at));
            } else {
                passing(at.number, level);
                level -= 1;
                F::child(node, key)
            };
            let number = self.number(link);
            if number == 0 {
                return self.contradiction(from, at, None);
            }
            self.node(number).fetch();
            let Some(version) = self.locks.read(number) else {
                return Ok(None);
            };
            if !self.locks.validate(at.number, at.version) {
                return Ok(None);
            }
            from = Some(at);
            at = VersionedNode { number, version };
        }
    }

    /// Handles a node that is inconsistent with the link from `from` (`None` for the root). Either a
    /// concurrent change interfered, or the node is damaged. `other` is the damaged one instead if all
    /// other links agree with the node's own head.
    #[cold]
    pub(super) fn contradiction(
        &self,
        from: Option<VersionedNode>,
        at: VersionedNode,
        other: Option<VersionedNode>,
    ) -> Result<Option<VersionedNode>, TreeError> {
        let culprit = other.filter(|_| self.is_in_place(at.number)).unwrap_or(at);
        let still = |at: VersionedNode| self.locks.validate(at.number, at.version);
        let linked = match from {
            Some(from) => still(from),
            None => self.root().0 == at.number,
        };
        if linked && still(at) {
            Err(self.damaged(
                culprit.number,
                "its level, key range or links do not fit its position in the tree",
            ))
        } else {
            Ok(None)
        }
    }

    /// Compares a node with what its parent says about it, both at one version: the level and the range of
    /// keys, which writers change together. A thread that finds a node inconsistent calls this before it
    /// retries, so damage cannot make it retry forever. Returns false if a concurrent change interferes.
    ///
    /// # Errors
    /// [`TreeError::Damaged`], of the node or of its parent.
    #[cold]
    pub(crate) fn verify_place(&self, key: u64, level: u32) -> Result<bool, TreeError> {
        let Some(above) = self.try_descend(key, level + 1)? else {
            return Ok(false);
        };
        let parent = self.node(above.number);
        let examined = F::examine(parent);
        if !self.locks.validate(above.number, above.version) {
            return Ok(false);
        }
        let summary = examined.map_err(|reason| self.damaged(above.number, reason))?;
        let child = summary.entries.child(key);
        let Some((low, link)) = summary.entries.get(child).copied() else {
            return Err(self.damaged(above.number, "it has no child for a key in its range"));
        };
        let number = self.number(link);
        if number == 0 {
            return Err(self.damaged(above.number, "one of its links does not lead to a node"));
        }
        let Some(version) = self.locks.read(number) else {
            return Ok(false);
        };
        let node = self.node(number);
        let keys = (low, summary.entries.high(child, parent.high()));
        let agrees = node.is::<F>(level) && (node.low(), node.high()) == keys;
        let still = self.locks.validate(above.number, above.version) && self.locks.validate(number, version);
        if agrees || !still {
            return Ok(still);
        }
        Err(if self.is_in_place(number) {
            self.damaged(above.number, "one of its links does not lead to a child of it")
        } else {
            self.damaged(number, "its level or key range differs from what its parent says")
        })
    }

    /// Returns true if the path from the root to the node's own level and keys ends at this node, with the
    /// same range. A link that contradicts the node is then wrong.
    pub(super) fn is_in_place(&self, number: u32) -> bool {
        let node = self.node(number);
        let (Some(level), low) = (node.level::<F>(), node.low()) else {
            return false;
        };
        let (mut at, mut above) = self.root();
        while above > level {
            let parent = self.node(at);
            if self.damaged_nodes.has(at) || !parent.is::<F>(above) || !parent.covers(low) {
                return false;
            }
            let entries = SortedEntries::from_node::<F>(parent);
            let child = entries.child(low);
            above -= 1;
            match entries.get(child) {
                Some(entry) if above == level => {
                    let keys = (entry.0, entries.high(child, parent.high()));
                    return entry.1 == node.offset && keys == (low, node.high());
                }
                Some(entry) => at = self.number(entry.1),
                None => return false,
            }
        }
        number != 0 && number == at
    }

    /// Returns the last key that cannot be reached because of the damaged node on the path of `key`.
    pub(super) fn damage_ends(&self, key: u64) -> u64 {
        let (mut at, mut level) = self.root();
        let mut high = u64::MAX;
        while level > 0 && !self.damaged_nodes.has(at) {
            let node = self.node(at);
            let entries = SortedEntries::from_node::<F>(node);
            let child = entries.child(key);
            if !node.is::<F>(level) || !node.covers(key) || entries.is_empty() {
                break;
            }
            high = entries.high(child, high).max(key);
            at = self.number(entries[child].1);
            level -= 1;
        }
        high
    }

    /// Returns the leaf of a key.
    #[inline]
    pub(super) fn leaf_for(&self, key: u64) -> Result<VersionedNode, TreeError> {
        let mut backoff = Backoff::default();
        loop {
            match self.try_descend(key, 0)? {
                Some(at) => return Ok(at),
                None => backoff.wait(),
            }
        }
    }

    /// Returns all nodes on the path of a key, or `None` if a concurrent change interferes.
    pub(super) fn try_path(&self, key: u64) -> Result<Option<RootPath>, TreeError> {
        let mut path = RootPath {
            nodes: [0; TOP as usize],
            height: 0,
        };
        let leaf = self.follow(key, 0, |number, level| {
            path.nodes[level as usize] = number;
            path.height = path.height.max(level);
        })?;
        Ok(leaf.map(|_| path))
    }

    /// Returns the leaves around a key: those with the same parent.
    pub(super) fn parent_snapshot(&self, key: u64) -> Result<PersistentParentSnapshot, TreeError> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(at) = self.try_descend(key, 1)? {
                let node = self.node(at.number);
                let snapshot = PersistentParentSnapshot {
                    entries: SortedEntries::from_node::<F>(node),
                    low: node.low(),
                    high: node.high(),
                    right: node.sibling(),
                };
                if self.locks.validate(at.number, at.version) {
                    if snapshot.entries.is_empty() {
                        return Err(self.damaged(at.number, "it has no children"));
                    }
                    return Ok(snapshot);
                }
            }
            backoff.wait();
        }
    }

    /// Returns the offset of the node on a level that a key belongs to.
    #[cfg(test)]
    pub(crate) fn node_for(&self, key: u64, level: u32) -> Result<u64, TreeError> {
        loop {
            if let Some(at) = self.try_descend(key, level)? {
                return Ok(super::node::offset_of(at.number));
            }
        }
    }
}
