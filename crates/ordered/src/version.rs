//! Versions by which lock-free readers detect concurrent changes.
//!
//! A version is odd while its lock is held, and it never decreases. Each lock that is held for a change
//! leaves a new version.

use crate::fault::{LockFault, injected};
use crate::sched;
use crate::sync::{AtomicU64, Ordering, fence};

/// Returns the version of data that is about to be read, or `None` if it is locked.
#[inline(always)]
pub(crate) fn read(version: &AtomicU64) -> Option<u64> {
    sched::point();
    let seen = version.load(Ordering::Acquire);
    seen.is_multiple_of(2).then_some(seen)
}

/// Returns true if everything read since version `seen` was obtained belongs to one state.
#[inline(always)]
pub(crate) fn is_still(version: &AtomicU64, seen: u64) -> bool {
    sched::point();
    // If a read above returned a store made under a later lock, this fence makes that lock visible below.
    if !injected(LockFault::ReadUnfenced) {
        fence(Ordering::Acquire);
    }
    version.load(Ordering::Relaxed) == seen
}

/// Takes the lock if the version is still `seen` and not locked.
#[inline(always)]
pub(crate) fn lock(version: &AtomicU64, seen: u64) -> Option<VersionGuard<'_>> {
    sched::point();
    let taken = seen.is_multiple_of(2)
        && version
            .compare_exchange(seen, seen + 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
    // A reader that sees a store made under the lock must also see the lock.
    if !injected(LockFault::LockUnfenced) {
        fence(Ordering::Release);
    }
    // Not `then_some`, which would create the guard, and release the lock on dropping it, in any case.
    taken.then(|| VersionGuard {
        version,
        before: seen,
    })
}

/// A held lock. Dropping it leaves a new version; [`unchanged`](VersionGuard::unchanged) keeps the old one.
#[derive(Debug)]
pub(crate) struct VersionGuard<'a> {
    version: &'a AtomicU64,
    before: u64,
}

impl VersionGuard<'_> {
    /// Returns the version before locking.
    #[inline]
    pub(crate) fn before(&self) -> u64 {
        self.before
    }

    /// Releases the lock of data that was not changed.
    #[inline]
    pub(crate) fn unchanged(self) {
        sched::point();
        self.version.store(self.before, Ordering::Release);
        std::mem::forget(self);
    }
}

impl Drop for VersionGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        sched::point();
        let order = if injected(LockFault::UnlockUnordered) {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        self.version.store(self.before + 2, order);
    }
}
