//! The checkpoint that the head of the slab names, and when it is replaced.
//!
//! A checkpoint stays valid while the tree is written, so that the tree is opened from it after a crash: the
//! anchors of the named checkpoint, and of one that is being written, are *pinned*. Invariants: a pinned leaf
//! is not unlinked, and the lower bound of its range does not change. So the leaves between two successive
//! anchors are those that held the keys of the block when the checkpoint was written, without those that were
//! freed, and those that splits have added. The nodes of the named checkpoint are not handed out.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::checkpoint::Anchor;
use super::checkpoint::fault::{CheckpointFault, injected};

/// The pinned leaves of a tree and the number of splits since its last checkpoint.
#[derive(Debug, Default)]
pub(super) struct Pins {
    pinned: Mutex<Pinned>,
    renewing: AtomicBool,
    /// Number of splits since the last checkpoint or attempt. Concurrent splits may be lost.
    splits: AtomicU64,
    /// Number of splits after which a checkpoint is due.
    due: AtomicU64,
}

#[derive(Debug, Default)]
struct Pinned {
    named: NamedCheckpoint,
    leaves: HashSet<u32>,
    /// Anchors of the checkpoint that is being written.
    next: HashSet<u32>,
}

/// The anchors and nodes of a checkpoint.
#[derive(Debug, Default)]
pub(super) struct NamedCheckpoint {
    pub(super) anchors: Vec<Anchor>,
    pub(super) nodes: Vec<u64>,
}

/// Permission to write a checkpoint, which one thread at a time has.
#[derive(Debug)]
pub(super) struct Renewal<'a>(&'a Pins);

impl Drop for Renewal<'_> {
    fn drop(&mut self) {
        self.0.renewing.store(false, Ordering::Release);
    }
}

impl Pins {
    pub(super) fn new(named: NamedCheckpoint) -> Pins {
        let pins = Pins::default();
        pins.replace(named);
        pins
    }

    fn pinned(&self) -> MutexGuard<'_, Pinned> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a leaf must remain linked. The caller holds the lock of the leaf's parent.
    pub(super) fn contains(&self, leaf: u32) -> bool {
        let pinned = self.pinned();
        let pins = pinned.leaves.contains(&leaf) || pinned.next.contains(&leaf);
        pins && !injected(CheckpointFault::UnlinkAnchor)
    }

    /// Pins anchors of the checkpoint that is being written. They are pinned in time if their parent is
    /// unchanged afterwards: whoever locks it later finds them pinned.
    pub(super) fn pin(&self, anchors: &[Anchor]) {
        let leaves = anchors.iter().map(|anchor| anchor.leaf.get());
        self.pinned().next.extend(leaves);
    }

    /// Unpins anchors that turned out not to be leaves of the tree any more.
    pub(super) fn unpin(&self, anchors: &[Anchor]) {
        let mut pinned = self.pinned();
        for anchor in anchors {
            pinned.next.remove(&anchor.leaf.get());
        }
    }

    /// Makes a checkpoint the named one, once the head names it durably. Returns the previous one, which is
    /// no longer pinned.
    pub(super) fn replace(&self, named: NamedCheckpoint) -> NamedCheckpoint {
        let mut pinned = self.pinned();
        pinned.leaves = named.anchors.iter().map(|anchor| anchor.leaf.get()).collect();
        pinned.next.clear();
        std::mem::replace(&mut pinned.named, named)
    }

    /// Returns the nodes of the named checkpoint.
    pub(super) fn nodes(&self) -> Vec<u64> {
        self.pinned().named.nodes.clone()
    }

    /// Returns the permission to write a checkpoint, unless another thread has it.
    pub(super) fn begin_renewal(&self) -> Option<Renewal<'_>> {
        (!self.renewing.swap(true, Ordering::AcqRel)).then(|| Renewal(self))
    }

    /// Counts a split. Returns true if a checkpoint is due.
    #[inline]
    pub(super) fn count_split(&self) -> bool {
        // Not an atomic addition, which would wait for preceding fences.
        let splits = self.splits.load(Ordering::Relaxed) + 1;
        self.splits.store(splits, Ordering::Relaxed);
        splits >= self.due.load(Ordering::Relaxed)
    }

    /// Makes the next checkpoint due after a number of splits.
    pub(super) fn set_due(&self, splits: u64) {
        self.splits.store(0, Ordering::Relaxed);
        self.due.store(splits, Ordering::Relaxed);
    }

    /// Returns the size in bytes of DRAM.
    pub(super) fn bytes(&self) -> u64 {
        let pinned = self.pinned();
        let leaves = (pinned.leaves.len() + pinned.next.len()) * size_of::<u32>();
        let named = size_of_val(&*pinned.named.anchors) + size_of_val(&*pinned.named.nodes);
        (leaves + named) as u64
    }
}
