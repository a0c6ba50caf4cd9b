//! The inner nodes of a tree in DRAM, which map a key to its leaf.
//!
//! Concurrency control is optimistic lock coupling. A reader takes no locks. It reads a node's version
//! before and after the node, and validates the parent again after it has read the child's version; if
//! a version has changed, it restarts. A writer locks the nodes that it changes at the versions it has
//! read, so it never waits for one lock while it holds another.
//!
//! Invariants: all leaves have the same depth, at least 1. A node that has been removed from the tree
//! has a different version than when it was part of it. Leaves are opaque numbers here.

mod build;
mod grow;
mod key_window;
mod locked;
mod node;
mod shrink;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use halocline_media::{HugeArena, MediaError};

use crate::kernel::has_vectors;
use crate::locks::Backoff;
use crate::sched;

pub(crate) use locked::LockedNode;
use node::SEARCHED_BYTES;
pub(crate) use node::{CHILDREN, InnerNode, KEYS};

/// Maximum number of inner nodes. Address space of 26 GiB is reserved for them.
const MAX_NODES: usize = 1 << 25;

/// The leaf of a key as found at some moment. It is still correct if [`InnerNodes::is_current`] returns true.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeafLocation<'a> {
    /// The lowest inner node.
    pub(crate) node: &'a InnerNode,
    pub(crate) version: u64,
    /// Index of the leaf among the node's children.
    pub(crate) slot: u32,
    pub(crate) leaf: u32,
}

/// A copy of the lowest inner node above a key, and the range of keys below it, `low..=high`.
#[derive(Debug)]
pub(crate) struct ParentSnapshot {
    keys: [u64; KEYS],
    leaves: [u32; CHILDREN],
    count: usize,
    /// Index of the key's leaf.
    pub(crate) slot: usize,
    low: u64,
    high: u64,
    node: u32,
    version: u64,
    /// The neighbours that have the same parent, or the node itself where there is none.
    pub(crate) left: u32,
    pub(crate) right: u32,
}

impl ParentSnapshot {
    /// Returns the numbers of the leaves.
    #[inline]
    pub(crate) fn leaves(&self) -> &[u32] {
        &self.leaves[..=self.count]
    }

    /// Returns the least and the greatest key of the range.
    #[inline]
    pub(crate) fn keys(&self) -> (u64, u64) {
        (self.low, self.high)
    }

    /// Returns the least key that belongs to the leaf in `slot`.
    #[inline]
    pub(crate) fn low(&self, slot: usize) -> u64 {
        if slot == 0 { self.low } else { self.keys[slot - 1] }
    }

    /// Returns the greatest key that belongs to the leaf in `slot`.
    #[inline]
    pub(crate) fn high(&self, slot: usize) -> u64 {
        if slot < self.count {
            self.keys[slot].wrapping_sub(1)
        } else {
            self.high
        }
    }
}

/// All inner nodes of a tree.
#[derive(Debug)]
pub(crate) struct InnerNodes {
    arena: HugeArena<InnerNode>,
    /// The root's number in the lower half, the number of levels in the upper one.
    root: AtomicU64,
    spare: Mutex<FreeNodes>,
    /// True if the CPU can compare all keys of a node at once.
    vectors: bool,
}

#[derive(Debug, Default)]
struct FreeNodes {
    freed: Vec<u32>,
    next: u32,
}

impl InnerNodes {
    /// Creates the inner nodes of a tree with one leaf.
    pub(crate) fn new(leaf: u32) -> Result<InnerNodes, MediaError> {
        let inner = InnerNodes {
            arena: HugeArena::new(1, MAX_NODES)?,
            root: AtomicU64::new(0),
            spare: Mutex::default(),
            vectors: has_vectors(),
        };
        let (root, node) = inner.alloc()?;
        node.lock_new().set(&[], &[leaf]);
        inner.set_root(root, 1);
        Ok(inner)
    }

    /// Returns the number of levels of inner nodes.
    pub(crate) fn height(&self) -> u32 {
        (self.root.load(Ordering::Acquire) >> 32) as u32
    }

    /// Returns the number of inner nodes in use.
    pub(crate) fn nodes(&self) -> u64 {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        u64::from(spare.next) - spare.freed.len() as u64
    }

    /// Returns true if the CPU has the vector instructions that the kernels use.
    #[inline(always)]
    pub(crate) fn vectors(&self) -> bool {
        self.vectors
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.nodes() * size_of::<InnerNode>() as u64
    }

    /// Finds the leaf of a key.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> LeafLocation<'_> {
        let mut backoff = Backoff::default();
        loop {
            match self.try_find(key) {
                Some(place) => return place,
                None => backoff.wait(),
            }
        }
    }

    #[inline(always)]
    fn try_find(&self, key: u64) -> Option<LeafLocation<'_>> {
        let (_, mut level, mut node, mut version) = self.start()?;
        loop {
            let slot = node.search(key, self.vectors);
            let child = node.child(slot);
            if level == 1 {
                return Some(LeafLocation {
                    node,
                    version,
                    slot: slot as u32,
                    leaf: child,
                });
            }
            // Prefetches all lines at once; otherwise the miss of the children would follow that of the keys.
            self.prefetch(child);
            let next = self.arena.get(child as usize)?;
            let next_version = next.read()?;
            if !node.validate(version) {
                return None;
            }
            (level, node, version) = (level - 1, next, next_version);
        }
    }

    /// Returns the root with its number, level and version, or `None` if a writer interferes.
    #[inline(always)]
    pub(crate) fn start(&self) -> Option<(u32, u32, &InnerNode, u64)> {
        let root = self.root.load(Ordering::Acquire);
        let node = self.arena.get(root as u32 as usize)?;
        let version = node.read()?;
        sched::point();
        (self.root.load(Ordering::Acquire) == root).then_some((
            root as u32,
            (root >> 32) as u32,
            node,
            version,
        ))
    }

    /// Returns true if a location is still valid. Data that was read from its leaf since then, and
    /// validated by the leaf's version, belongs to the leaf of the key.
    #[inline(always)]
    pub(crate) fn is_current(&self, place: &LeafLocation<'_>) -> bool {
        place.node.validate(place.version)
    }

    /// Locks the lowest inner node of a location if the location is current.
    pub(crate) fn lock<'a>(&self, place: &LeafLocation<'a>) -> Option<LockedNode<'a>> {
        place.node.lock(place.version)
    }

    /// Returns the index of the child that holds the key.
    #[inline(always)]
    pub(crate) fn search(&self, node: &InnerNode, key: u64) -> usize {
        node.search(key, self.vectors)
    }

    #[inline(always)]
    pub(crate) fn node(&self, index: u32) -> Option<&InnerNode> {
        self.arena.get(index as usize)
    }

    /// Prefetches the part of a node that a search needs.
    #[inline(always)]
    pub(crate) fn prefetch(&self, index: u32) {
        self.arena.prefetch(index as usize, SEARCHED_BYTES);
    }

    /// Prefetches a whole node, including its keys.
    #[inline]
    pub(crate) fn prefetch_all(&self, index: u32) {
        self.arena.prefetch(index as usize, size_of::<InnerNode>());
    }

    /// Returns the leaves around a key: those with the same parent.
    pub(crate) fn parent_snapshot(&self, key: u64) -> ParentSnapshot {
        let mut backoff = Backoff::default();
        loop {
            match self.try_snapshot(key) {
                Some(snapshot) => return snapshot,
                None => backoff.wait(),
            }
        }
    }

    fn try_snapshot(&self, key: u64) -> Option<ParentSnapshot> {
        let (mut index, mut level, mut node, mut version) = self.start()?;
        let (mut low, mut high) = (0, u64::MAX);
        let (mut left, mut right) = (index, index);
        loop {
            let slot = node.search(key, self.vectors);
            if level == 1 {
                let keys = std::array::from_fn(|slot| node.key(slot));
                let leaves = std::array::from_fn(|slot| node.child(slot));
                let count = node.count();
                return node.validate(version).then_some(ParentSnapshot {
                    keys,
                    leaves,
                    count,
                    slot,
                    low,
                    high,
                    node: index,
                    version,
                    left,
                    right,
                });
            }
            let child = node.child(slot);
            match level {
                2 => self.prefetch_all(child),
                _ => self.prefetch(child),
            }
            let beside = (
                node.child(slot.saturating_sub(1)),
                node.child((slot + 1).min(node.count())),
            );
            let below = if slot > 0 { node.key(slot - 1) } else { low };
            let above = if slot < node.count() {
                node.key(slot).wrapping_sub(1)
            } else {
                high
            };
            let next = self.arena.get(child as usize)?;
            let next_version = next.read()?;
            if !node.validate(version) {
                return None;
            }
            (low, high) = (below, above);
            (left, right) = beside;
            (index, level, node, version) = (child, level - 1, next, next_version);
        }
    }

    /// Returns the numbers of all leaves. There must be no concurrent writers.
    pub(crate) fn leaves(&self) -> HashSet<u32> {
        let (mut all, mut from) = (HashSet::new(), 0);
        loop {
            let snapshot = self.parent_snapshot(from);
            all.extend(snapshot.leaves());
            match snapshot.keys().1.checked_add(1) {
                Some(next) => from = next,
                None => return all,
            }
        }
    }

    /// Returns true if the node of a snapshot has not changed since it was taken.
    #[inline]
    pub(crate) fn is_current_snapshot(&self, snapshot: &ParentSnapshot) -> bool {
        self.arena
            .get(snapshot.node as usize)
            .is_some_and(|node| node.validate(snapshot.version))
    }

    fn set_root(&self, root: u32, height: u32) {
        sched::point();
        self.root
            .store(u64::from(height) << 32 | u64::from(root), Ordering::Release);
    }

    /// Allocates a node that is not referenced yet.
    fn alloc(&self) -> Result<(u32, &InnerNode), MediaError> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match spare.freed.pop() {
            Some(index) => index,
            None => {
                self.arena.grow(spare.next as usize + 1)?;
                spare.next += 1;
                spare.next - 1
            }
        };
        drop(spare);
        let node = self.arena.get(index as usize).ok_or(MediaError::OutOfMemory {
            bytes: size_of::<InnerNode>() as u64,
            source: std::io::ErrorKind::OutOfMemory.into(),
        })?;
        Ok((index, node))
    }

    /// Frees a node that has been removed from the tree. Its version has changed since it was part of the
    /// tree.
    fn free(&self, index: u32) {
        self.spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .freed
            .push(index);
    }
}
