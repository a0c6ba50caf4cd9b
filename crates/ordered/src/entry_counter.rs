//! A count of entries that many threads can update without contending for one word.
//!
//! Updates are plain stores under the leaf's lock: an atomic addition would wait for the preceding fence.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::locks::Locks;

/// A counter split into one part per lock stripe. Only the holder of a stripe's lock changes its part, so no
/// atomic read-modify-write is needed. One would stall until the preceding fence completes and hold up
/// everything after it.
#[derive(Debug)]
pub(crate) struct EntryCounter {
    start: AtomicU64,
    changes: Box<[AtomicI64; Locks::STRIPES]>,
}

impl EntryCounter {
    pub(crate) fn new(start: u64) -> EntryCounter {
        let changes = Box::new(std::array::from_fn(|_| AtomicI64::new(0)));
        EntryCounter {
            start: AtomicU64::new(start),
            changes,
        }
    }

    /// Adds `change` to the count. The caller holds the lock of `leaf`.
    #[inline]
    pub(crate) fn add(&self, leaf: u32, change: i64) {
        let part = &self.changes[Locks::stripe(leaf)];
        part.store(part.load(Ordering::Relaxed) + change, Ordering::Relaxed);
    }

    /// Adds entries that were there before the counter was created and have been found only now.
    pub(crate) fn add_found(&self, entries: u64) {
        self.start.fetch_add(entries, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        let change: i64 = self.changes.iter().map(|part| part.load(Ordering::Relaxed)).sum();
        self.start.load(Ordering::Relaxed).saturating_add_signed(change)
    }

    /// Returns the counter's size in bytes of DRAM.
    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(&*self.changes) as u64
    }
}
