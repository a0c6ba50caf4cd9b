//! From the root to the node that a key belongs to.

use crate::TreeError;
use crate::locks::Backoff;
use crate::open_mode::{NOT_AS_CLOSED, has_changed, may_finish};

use super::entries::SortedEntries;
use super::format::NodeFormat;
use super::layout::TOP;
use super::node::NodeWriter;
use super::tree::PersistentTree;

/// A node, and the version at which it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VersionedNode {
    pub(crate) number: u32,
    pub(crate) version: u64,
}

/// The nodes from the root to the leaf of a key, as they were found, by their levels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RootPath {
    pub(crate) nodes: [u32; TOP as usize],
    /// The root's level.
    pub(crate) height: u32,
}

/// A copy of a lowest inner node: its children, and the keys that belong to them.
#[derive(Debug)]
pub(crate) struct PersistentParentSnapshot {
    pub(crate) entries: SortedEntries,
    low: u64,
    high: u64,
    /// Its right sibling.
    pub(crate) right: u64,
}

impl PersistentParentSnapshot {
    /// The keys that belong to all of them, from and to.
    pub(crate) fn keys(&self) -> (u64, u64) {
        (self.low, self.high)
    }

    /// The greatest key that belongs to a child.
    pub(crate) fn high(&self, child: usize) -> u64 {
        self.entries.high(child, self.high)
    }
}

impl<F: NodeFormat> PersistentTree<F> {
    /// The node of a level that a key belongs to; nothing if others came in between. What is read of it counts if it has still the
    /// same version afterwards.
    ///
    /// # Errors
    /// [`TreeError::Damaged`].
    #[inline(always)]
    pub(super) fn try_descend(&self, key: u64, down_to: u32) -> Result<Option<VersionedNode>, TreeError> {
        self.follow(key, down_to, |_, _| ())
    }

    /// As [`try_descend`](PersistentTree::try_descend), and tells the number of each node that the key belongs to, and its level.
    #[inline(always)]
    fn follow(
        &self,
        key: u64,
        down_to: u32,
        mut passing: impl FnMut(u32, u32),
    ) -> Result<Option<VersionedNode>, TreeError> {
        let (number, mut level) = self.root();
        let Some(version) = self.locks.read(number) else {
            return Ok(None);
        };
        let mut at = VersionedNode { number, version };
        let mut from = None;
        // The least key that belongs to a sibling: beyond the node it is the sibling of.
        let mut least = 0;
        loop {
            self.intact(at.number)?;
            if level == 0 && !self.visited.has(at.number) {
                return self.first_visit(key, from, at);
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

    /// A node to which a link of `from` has led (none leads to the root) does not make sense there: others came in between, or it is
    /// damaged; or `other` is, if all other links lead to it as it is.
    #[cold]
    fn contradiction(
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
        match linked && still(at) {
            true => Err(self.damaged(
                culprit.number,
                "it has not the level, the keys or the links that its place needs",
            )),
            false => Ok(None),
        }
    }

    /// Looks at a leaf that nobody has looked at since the tree was opened; nothing, so that the caller looks for it anew.
    #[cold]
    fn first_visit(
        &self,
        key: u64,
        from: Option<VersionedNode>,
        at: VersionedNode,
    ) -> Result<Option<VersionedNode>, TreeError> {
        if !self.node(at.number).is::<F>(0) {
            return self.contradiction(from, at, from);
        }
        self.verify_place(key, 0)?;
        self.visit(at.number)?;
        Ok(None)
    }

    /// Compares a node of a level with what its parent says of it, both at one version: the level and the first and last key that
    /// belong to it, which no writer leaves different. Whoever finds that a node does not fit calls this before trying again, so that only
    /// other threads can make anyone try again. Does nothing if they came in between.
    ///
    /// # Errors
    /// [`TreeError::Damaged`], of the node or of its parent.
    #[cold]
    pub(super) fn verify_place(&self, key: u64, level: u32) -> Result<(), TreeError> {
        let Some(above) = self.try_descend(key, level + 1)? else {
            return Ok(());
        };
        let parent = self.node(above.number);
        let examined = F::examine(parent);
        if !self.locks.validate(above.number, above.version) {
            return Ok(());
        }
        let facts = examined.map_err(|reason| self.damaged(above.number, reason))?;
        let child = facts.entries.child(key);
        let Some((low, link)) = facts.entries.get(child).copied() else {
            return Err(self.damaged(above.number, "it has no child for a key that belongs to it"));
        };
        let number = self.number(link);
        if number == 0 {
            return Err(self.damaged(above.number, "one of its links leads to no node"));
        }
        let Some(version) = self.locks.read(number) else {
            return Ok(());
        };
        let node = self.node(number);
        let keys = (low, facts.entries.high(child, parent.high()));
        let agrees = node.is::<F>(level) && (node.low(), node.high()) == keys;
        let still = self.locks.validate(above.number, above.version) && self.locks.validate(number, version);
        if agrees || !still {
            return Ok(());
        }
        Err(match self.is_in_place(number) {
            true => self.damaged(above.number, "one of its links leads to no child of it"),
            false => self.damaged(number, "it has not the level or the keys that its parent says"),
        })
    }

    /// Whether the parent that the links lead to by a node's own level and keys says the same of it: then a link that says something
    /// else is wrong.
    pub(super) fn is_in_place(&self, number: u32) -> bool {
        let node = self.node(number);
        let (Some(level), low) = (node.level::<F>(), node.low()) else {
            return false;
        };
        let (mut at, mut above) = self.root();
        while above > level {
            let parent = self.node(at);
            if self.broken.has(at) || !parent.is::<F>(above) || !parent.covers(low) {
                return false;
            }
            let entries = SortedEntries::of::<F>(parent);
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

    /// The last key that is out of reach together with one, as a damaged node is on the way to it.
    pub(super) fn damage_ends(&self, key: u64) -> u64 {
        let (mut at, mut level) = self.root();
        let mut high = u64::MAX;
        while level > 0 && !self.broken.has(at) {
            let node = self.node(at);
            let entries = SortedEntries::of::<F>(node);
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

    /// The leaf that a key belongs to.
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

    /// All nodes on the way to a key; nothing if others came in between.
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

    /// The leaves around a key: those with the same parent.
    pub(super) fn family(&self, key: u64) -> Result<PersistentParentSnapshot, TreeError> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(at) = self.try_descend(key, 1)? {
                let node = self.node(at.number);
                let family = PersistentParentSnapshot {
                    entries: SortedEntries::of::<F>(node),
                    low: node.low(),
                    high: node.high(),
                    right: node.sibling(),
                };
                if self.locks.validate(at.number, at.version) {
                    if family.entries.is_empty() {
                        return Err(self.damaged(at.number, "it has no children"));
                    }
                    return Ok(family);
                }
            }
            backoff.wait();
        }
    }

    /// Offset of the node of a level that a key belongs to.
    #[cfg(test)]
    pub(crate) fn node_for(&self, key: u64, level: u32) -> Result<u64, TreeError> {
        loop {
            if let Some(at) = self.try_descend(key, level)? {
                return Ok(super::node::offset_of(at.number));
            }
        }
    }

    /// Looks at a leaf for the first time, and finishes what a crash has left half done there.
    ///
    /// # Errors
    /// [`TreeError::Damaged`], [`TreeError::Media`].
    #[cold]
    pub(super) fn visit(&self, number: u32) -> Result<(), TreeError> {
        let _locked = self.locks.lock(number);
        let node = self.node(number);
        if !node.is::<F>(0) || self.visited.has(number) {
            // Not a leaf any more, or somebody else was here.
            return Ok(());
        }
        if has_changed(&self.slab, node.offset) {
            return Err(self.damaged(number, NOT_AS_CLOSED));
        }
        let facts = F::examine(node).map_err(|reason| self.damaged(number, reason))?;
        if facts.unfinished {
            may_finish(&self.slab)?;
            self.write_gate.check(&self.slab)?;
            let mut out = NodeWriter::new(self.slab.medium());
            F::mend(&mut out, node);
            self.write_gate.keep(out.done())?;
        }
        self.visited.add(number);
        Ok(())
    }
}
