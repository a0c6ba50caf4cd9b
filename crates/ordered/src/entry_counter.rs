//! How many entries there are, counted by many threads without getting in each other's way.
//!
//! Entries are counted under the leaf's lock by plain stores: an atomic addition would wait for the fence
//! before it.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::locks::Locks;

/// A counter in parts, one for all leaves that share a lock: who has the lock is the only one to change it, so that it takes no atomic
/// addition, which would wait until the fence before it is over, and keep all that comes after it waiting too.
#[derive(Debug)]
pub(crate) struct EntryCounter {
    start: u64,
    changes: Box<[AtomicI64; Locks::STRIPES]>,
}

impl EntryCounter {
    pub(crate) fn new(start: u64) -> EntryCounter {
        let changes = Box::new(std::array::from_fn(|_| AtomicI64::new(0)));
        EntryCounter { start, changes }
    }

    /// The caller has the lock of the leaf.
    #[inline]
    pub(crate) fn add(&self, leaf: u32, change: i64) {
        let part = &self.changes[Locks::stripe(leaf)];
        part.store(part.load(Ordering::Relaxed) + change, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        let change: i64 = self.changes.iter().map(|part| part.load(Ordering::Relaxed)).sum();
        self.start.saturating_add_signed(change)
    }

    /// Bytes of DRAM.
    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(&*self.changes) as u64
    }
}
