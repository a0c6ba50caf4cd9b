//! Versioned locks of leaves, in DRAM. A writer holds a leaf's lock; a reader validates the version after
//! reading.
//!
//! There are far fewer [versions](crate::version) than leaves. Leaves that share one cause at most a
//! needless retry. The version of a leaf that is freed and reused for other keys has changed.

use crate::fault::{LockFault, injected};
use crate::sched;
use crate::sync::{AtomicU64, Ordering};
use crate::version;

/// The lock of a leaf.
pub(crate) use version::VersionGuard as Locked;

/// Binary logarithm of the number of versions: few enough to stay in the CPU's caches, and in tests so
/// few that leaves share them.
const STRIPES_LOG: u32 = if cfg!(test) { 5 } else { 12 };

/// The versions of all leaves of a tree.
#[derive(Debug)]
pub(crate) struct Locks(Box<[AtomicU64; Locks::STRIPES]>);

impl Locks {
    /// Number of versions.
    pub(crate) const STRIPES: usize = 1 << STRIPES_LOG;

    pub(crate) fn new() -> Locks {
        Locks(Box::new(std::array::from_fn(|_| AtomicU64::new(0))))
    }

    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(&*self.0) as u64
    }

    /// Returns the index of a leaf's version.
    #[inline(always)]
    pub(crate) fn stripe(leaf: u32) -> usize {
        (leaf.wrapping_mul(0x9E37_79B1) >> (u32::BITS - STRIPES_LOG)) as usize
    }

    #[inline(always)]
    fn version(&self, leaf: u32) -> &AtomicU64 {
        &self.0[Locks::stripe(leaf)]
    }

    /// Returns the version of a leaf that is about to be read, or `None` if the leaf is locked.
    #[inline(always)]
    pub(crate) fn read(&self, leaf: u32) -> Option<u64> {
        version::read(self.version(leaf))
    }

    /// Returns true if everything read since version `seen` was obtained belongs to one state of the leaf.
    #[inline(always)]
    pub(crate) fn validate(&self, leaf: u32, seen: u64) -> bool {
        version::is_still(self.version(leaf), seen) || injected(LockFault::LeafUnvalidated)
    }

    /// Waits for the lock of a leaf. The caller must hold no other lock.
    #[inline]
    pub(crate) fn lock(&self, leaf: u32) -> Locked<'_> {
        let mut backoff = Backoff::default();
        loop {
            match self.try_lock(leaf) {
                Some(locked) => return locked,
                None => backoff.wait(),
            }
        }
    }

    /// Locks a leaf if it is not locked.
    #[inline(always)]
    pub(crate) fn try_lock(&self, leaf: u32) -> Option<Locked<'_>> {
        sched::point();
        let version = self.version(leaf);
        version::lock(version, version.load(Ordering::Relaxed))
    }
}

/// Locks of several nodes. Dropping them assigns new versions; [`unchanged`](LockedSet::unchanged) keeps the
/// old ones.
#[derive(Debug)]
pub(crate) struct LockedSet<'a, const N: usize>([Option<Locked<'a>>; N]);

impl Locks {
    /// Locks several nodes, or the fewer versions that they share, if none is locked.
    pub(crate) fn try_lock_all<const N: usize>(&self, nodes: [u32; N]) -> Option<LockedSet<'_, N>> {
        let mut all = LockedSet([const { None }; N]);
        for (at, node) in nodes.iter().enumerate() {
            let stripe = Locks::stripe(*node);
            if nodes[..at].iter().any(|other| Locks::stripe(*other) == stripe) {
                continue;
            }
            match self.try_lock(*node) {
                Some(locked) => all.0[at] = Some(locked),
                None => {
                    all.unchanged();
                    return None;
                }
            }
        }
        Some(all)
    }
}

impl<const N: usize> LockedSet<'_, N> {
    /// Releases the locks of nodes that were not changed.
    pub(crate) fn unchanged(self) {
        self.0.into_iter().flatten().for_each(Locked::unchanged);
    }

    /// Returns true if the first node had this version before it was locked.
    pub(crate) fn first_was(&self, version: u64) -> bool {
        self.0[0]
            .as_ref()
            .is_some_and(|locked| locked.before() == version)
    }
}

/// A wait for a short time: spinning at first, then yielding to other threads.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    #[cold]
    pub(crate) fn wait(&mut self) {
        if sched::wait() {
            return;
        }
        self.0 += 1;
        if self.0.is_multiple_of(64) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}
