//! Versions, by which who reads without a lock finds out whether what he read was changed meanwhile.
//!
//! A version is odd while somebody holds its lock, and never goes back: each lock that was held for a change leaves another one.

use crate::mistake::{Mistake, made};
use crate::sched;
use crate::sync::{AtomicU64, Ordering, fence};

/// The version of what is about to be read; nothing if it is being changed.
#[inline(always)]
pub(crate) fn read(version: &AtomicU64) -> Option<u64> {
    sched::point();
    let seen = version.load(Ordering::Acquire);
    seen.is_multiple_of(2).then_some(seen)
}

/// Whether all that was read since the version was is of one state.
#[inline(always)]
pub(crate) fn is_still(version: &AtomicU64, seen: u64) -> bool {
    sched::point();
    // What was read under a lock that came later has the lock seen here.
    if !made(Mistake::ReadUnfenced) {
        fence(Ordering::Acquire);
    }
    version.load(Ordering::Relaxed) == seen
}

/// Takes the lock if the version is still this one, and even.
#[inline(always)]
pub(crate) fn lock(version: &AtomicU64, seen: u64) -> Option<VersionGuard<'_>> {
    sched::point();
    let taken = seen.is_multiple_of(2)
        && version
            .compare_exchange(seen, seen + 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
    // Readers that see a store made under the lock must see the lock.
    if !made(Mistake::LockUnfenced) {
        fence(Ordering::Release);
    }
    // Not `then_some`: a guard that is made is dropped, and unlocks.
    taken.then(|| VersionGuard {
        version,
        before: seen,
    })
}

/// A lock. Dropped, it leaves a new version; [`unchanged`](VersionGuard::unchanged) leaves the old one.
#[derive(Debug)]
pub(crate) struct VersionGuard<'a> {
    version: &'a AtomicU64,
    before: u64,
}

impl VersionGuard<'_> {
    /// The version before it was locked.
    #[inline]
    pub(crate) fn before(&self) -> u64 {
        self.before
    }

    /// Lets go of what is as it was.
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
        let order = match made(Mistake::UnlockUnordered) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.version.store(self.before + 2, order);
    }
}
