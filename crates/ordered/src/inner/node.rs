//! An inner node: keys, children, and a version by which readers detect changes.
//!
//! Child `i` holds keys from `keys[i - 1]` up to but not including `keys[i]`. The first lines have what
//! a search needs: a [`piece`](KeyWindow::piece) of 15 bits of each key, and the children. The full
//! keys follow and are read only where two pieces are equal. Unused pieces are
//! [`NONE`](super::key_window::NONE), so that all can be compared without reading the count. All fields
//! are atomic, because readers run concurrently with a writer; only validated data is used.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use halocline_media::prefetch_value;
use zerocopy::FromZeros;

use crate::fault::{LockFault, injected};
use crate::kernel::{BOUNDS, not_greater};
use crate::sched;
use crate::version;

use super::key_window::KeyWindow;
use super::locked::LockedNode;

/// Maximum number of keys of a node.
pub(crate) const KEYS: usize = BOUNDS;

/// Maximum number of children of a node.
pub(crate) const CHILDREN: usize = KEYS + 1;

/// An inner node of 13 lines. A search reads the first two and one of the next four.
#[derive(Debug, FromZeros)]
#[repr(C, align(64))]
pub(crate) struct InnerNode {
    version: AtomicU64,
    /// The node's [`KeyWindow`].
    pub(super) window: AtomicU64,
    pub(super) pieces: [AtomicU16; KEYS],
    pub(super) count: AtomicU32,
    pub(super) children: [AtomicU32; CHILDREN],
    _rest: [u32; 6],
    pub(super) keys: [AtomicU64; KEYS],
}

/// Number of bytes at the start of a node that a search may read.
pub(crate) const SEARCHED_BYTES: usize = 384;

const _: () = assert!(size_of::<InnerNode>() == 832);
const _: () = assert!(std::mem::offset_of!(InnerNode, keys) == SEARCHED_BYTES);

/// The contents of a node, copied to private memory: `keys.len() + 1 == children.len()`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeContents {
    pub(crate) keys: Vec<u64>,
    pub(crate) children: Vec<u32>,
}

impl InnerNode {
    /// Returns the version of a node that is about to be read, or `None` if it is locked.
    #[inline(always)]
    pub(crate) fn read(&self) -> Option<u64> {
        version::read(&self.version)
    }

    /// Returns true if everything read since `version` was obtained belongs to one state of the node.
    #[inline(always)]
    pub(crate) fn validate(&self, version: u64) -> bool {
        version::is_still(&self.version, version) || injected(LockFault::NodeUnvalidated)
    }

    /// Prefetches the keys, which a search seldom needs.
    pub(crate) fn prefetch_keys(&self) {
        for first_of_line in self.keys.iter().step_by(8) {
            prefetch_value(first_of_line);
        }
    }

    /// Locks the node if it still has this version.
    #[inline]
    pub(crate) fn lock(&self, version: u64) -> Option<LockedNode<'_>> {
        let held = version::lock(&self.version, version)?;
        Some(LockedNode::new(self, held))
    }

    /// Locks a node that no other thread can reach.
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

    /// Returns the index of the child that holds the key. All pieces are compared without branches.
    #[inline(always)]
    pub(crate) fn search(&self, key: u64, vectors: bool) -> usize {
        sched::point();
        let piece = KeyWindow::from(self.window.load(Ordering::Relaxed)).piece(key);
        let to = not_greater(&self.pieces, piece, vectors);
        let before = self.pieces.get(to.wrapping_sub(1));
        if before.is_some_and(|before| before.load(Ordering::Relaxed) == piece) {
            self.search_among(to, piece, key)
        } else {
            to
        }
    }

    /// Continues a search among the keys that have the same piece, the last of them before `to`. Some of
    /// them may be greater than `key`.
    #[cold]
    fn search_among(&self, to: usize, piece: u16, key: u64) -> usize {
        let same = |slot: &usize| self.pieces[*slot].load(Ordering::Relaxed) == piece;
        let greater = (0..to)
            .rev()
            .take_while(same)
            .take_while(|slot| self.key(*slot) > key);
        to - greater.count()
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

    /// Returns a copy of the contents, which must be validated.
    pub(crate) fn contents(&self) -> NodeContents {
        let count = self.count();
        NodeContents {
            keys: (0..count).map(|slot| self.key(slot)).collect(),
            children: (0..=count).map(|slot| self.child(slot)).collect(),
        }
    }
}
