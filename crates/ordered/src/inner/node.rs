//! One inner node: keys, children, and the version by which readers find out that it has changed.
//!
//! Child `i` holds keys from `keys[i - 1]` on, up to and without `keys[i]`. Keys behind the last are `u64::MAX`, so that
//! all of them can be compared without a look at how many there are. All fields are atomic, as readers look while a writer
//! changes them; only what a reader has validated is used.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use zerocopy::FromZeros;

use crate::kernel::{BOUNDS, above};
use crate::mistake::{Mistake, made};
use crate::sched;

/// Keys of a node: what fits six lines.
pub(crate) const KEYS: usize = BOUNDS;

/// Children of a node.
pub(crate) const CHILDREN: usize = KEYS + 1;

/// An inner node of six lines.
#[derive(Debug, FromZeros)]
#[repr(C, align(64))]
pub(crate) struct Node {
    version: AtomicU64,
    keys: [AtomicU64; KEYS],
    count: AtomicU32,
    children: [AtomicU32; CHILDREN],
}

const _: () = assert!(size_of::<Node>() == 384);

/// What a node holds, in private memory: `keys.len() + 1 == children.len()`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) keys: Vec<u64>,
    pub(crate) children: Vec<u32>,
}

impl Node {
    /// The version of a node that is about to be read; nothing if it is being changed.
    #[inline(always)]
    pub(crate) fn read(&self) -> Option<u64> {
        sched::point();
        let version = self.version.load(Ordering::Acquire);
        version.is_multiple_of(2).then_some(version)
    }

    /// Whether all that was read since the version was is of one state of the node.
    #[inline(always)]
    pub(crate) fn validate(&self, version: u64) -> bool {
        sched::point();
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == version || made(Mistake::NodeUnvalidated)
    }

    /// Locks the node if it still has this version.
    #[inline]
    pub(crate) fn lock(&self, version: u64) -> Option<LockedNode<'_>> {
        sched::point();
        let taken = self
            .version
            .compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed);
        fence(Ordering::Release);
        // Not `then_some`: a guard that is made is dropped, and unlocks.
        taken.is_ok().then(|| LockedNode {
            node: self,
            before: version,
        })
    }

    /// Locks a node that nobody else knows.
    pub(crate) fn lock_new(&self) -> LockedNode<'_> {
        loop {
            let version = self.version.load(Ordering::Relaxed);
            if let Some(locked) = self.lock(version & !1) {
                return locked;
            }
        }
    }

    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        (self.count.load(Ordering::Relaxed) as usize).min(KEYS)
    }

    /// Which child holds the key. All keys are compared, without a branch, so that their lines are waited for together.
    #[inline(always)]
    pub(crate) fn search(&self, key: u64, vectors: bool) -> usize {
        sched::point();
        (KEYS - above(&self.keys, key, vectors)).min(self.count())
    }

    #[inline(always)]
    pub(crate) fn child(&self, slot: usize) -> u32 {
        sched::point();
        self.children[slot].load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn key(&self, slot: usize) -> u64 {
        self.keys[slot].load(Ordering::Relaxed)
    }

    /// A copy, to be validated.
    pub(crate) fn contents(&self) -> Contents {
        let count = self.count();
        Contents {
            keys: (0..count).map(|slot| self.key(slot)).collect(),
            children: (0..=count).map(|slot| self.child(slot)).collect(),
        }
    }
}

/// A locked node. Dropped, it lets go with a new version; [`unchanged`](LockedNode::unchanged) keeps the old one.
#[derive(Debug)]
pub(crate) struct LockedNode<'a> {
    node: &'a Node,
    before: u64,
}

impl LockedNode<'_> {
    /// Lets go of a node that is as it was.
    pub(crate) fn unchanged(self) {
        sched::point();
        self.node.version.store(self.before, Ordering::Release);
        std::mem::forget(self);
    }

    pub(crate) fn node(&self) -> &Node {
        self.node
    }

    pub(crate) fn is_full(&self) -> bool {
        self.node.count() == KEYS
    }

    /// Puts a child right of the one in `slot`, which holds keys from `key` on from now on. There is room.
    pub(crate) fn insert(&self, slot: usize, key: u64, child: u32) {
        let node = self.node;
        let count = node.count();
        debug_assert!(count < KEYS && slot <= count);
        for at in (slot..count).rev() {
            node.keys[at + 1].store(node.key(at), Ordering::Relaxed);
            node.children[at + 2].store(node.child(at + 1), Ordering::Relaxed);
        }
        sched::point();
        node.keys[slot].store(key, Ordering::Relaxed);
        node.children[slot + 1].store(child, Ordering::Relaxed);
        node.count.store(count as u32 + 1, Ordering::Relaxed);
    }

    /// Removes the child in `slot`, not the first: the one left of it takes its keys.
    pub(crate) fn remove(&self, slot: usize) {
        let node = self.node;
        let count = node.count();
        debug_assert!((1..=count).contains(&slot));
        for at in slot..count {
            node.keys[at - 1].store(node.key(at), Ordering::Relaxed);
            node.children[at].store(node.child(at + 1), Ordering::Relaxed);
        }
        sched::point();
        node.keys[count - 1].store(u64::MAX, Ordering::Relaxed);
        node.count.store(count as u32 - 1, Ordering::Relaxed);
    }

    /// Replaces the key right of the child in `slot`.
    pub(crate) fn set_key(&self, slot: usize, key: u64) {
        self.node.keys[slot].store(key, Ordering::Relaxed);
    }

    /// Replaces all of it.
    pub(crate) fn set(&self, keys: &[u64], children: &[u32]) {
        debug_assert!(keys.len() + 1 == children.len() && keys.len() <= KEYS);
        let node = self.node;
        let keys_then_none = keys.iter().copied().chain(std::iter::repeat(u64::MAX));
        for (slot, key) in node.keys.iter().zip(keys_then_none) {
            slot.store(key, Ordering::Relaxed);
        }
        sched::point();
        for (slot, child) in node.children.iter().zip(children) {
            slot.store(*child, Ordering::Relaxed);
        }
        node.count.store(keys.len() as u32, Ordering::Relaxed);
    }
}

impl Drop for LockedNode<'_> {
    #[inline]
    fn drop(&mut self) {
        sched::point();
        self.node.version.store(self.before + 2, Ordering::Release);
    }
}
