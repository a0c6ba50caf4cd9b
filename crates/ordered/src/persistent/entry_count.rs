//! The number of entries, which is counted when it is first requested.
//!
//! One thread counts the leaves in key order, each under its lock. A writer adjusts the count if its
//! key is in the range already counted; otherwise the counting thread will find the entry. The writer
//! holds the leaf's lock when it compares, so the result is the same for all keys of a leaf.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::TreeError;
use crate::entry_counter::EntryCounter;

use super::entries::SortedEntries;
use super::format::NodeFormat;
use super::tree::PersistentTree;

/// Prefetch distance in leaves.
const AHEAD: usize = 4;

#[derive(Debug)]
pub(crate) struct LazyEntryCount {
    count: EntryCounter,
    /// Entries with keys below this one have been counted.
    passed: AtomicU64,
    /// True when all entries have been counted.
    complete: AtomicBool,
    counting: Mutex<()>,
}

impl LazyEntryCount {
    /// Creates a complete count.
    pub(crate) fn known(entries: u64) -> LazyEntryCount {
        LazyEntryCount {
            count: EntryCounter::new(entries),
            passed: AtomicU64::new(0),
            complete: AtomicBool::new(true),
            counting: Mutex::new(()),
        }
    }

    /// Creates a count of a tree whose entries have not been counted.
    pub(crate) fn unknown() -> LazyEntryCount {
        LazyEntryCount {
            complete: AtomicBool::new(false),
            ..LazyEntryCount::known(0)
        }
    }

    /// Adds `change` for an entry with this key. The caller holds the lock of `leaf`.
    #[inline]
    pub(crate) fn add(&self, leaf: u32, key: u64, change: i64) {
        if self.complete.load(Ordering::Relaxed) || key < self.passed.load(Ordering::Relaxed) {
            self.count.add(leaf, change);
        }
    }

    /// Marks entries with keys up to `high` as counted.
    fn pass(&self, high: u64) {
        match high.checked_add(1) {
            Some(next) => self.passed.store(next, Ordering::Relaxed),
            None => self.complete.store(true, Ordering::Release),
        }
    }

    fn one_at_a_time(&self) -> MutexGuard<'_, ()> {
        self.counting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: NodeFormat> PersistentTree<F> {
    /// Returns the number of entries. Entries of damaged nodes are not included.
    pub(crate) fn entries(&self) -> u64 {
        let entry_count = &self.entry_count;
        if !entry_count.complete.load(Ordering::Acquire) {
            let _counting = entry_count.one_at_a_time();
            while !entry_count.complete.load(Ordering::Acquire) {
                let passed = entry_count.passed.load(Ordering::Relaxed);
                if self.count_siblings(passed).is_err() {
                    // An inner node is damaged. The entries below it cannot be counted, and they cannot
                    // change.
                    entry_count.pass(self.damage_ends(passed));
                }
            }
        }
        entry_count.count.get()
    }

    /// Visits a leaf; returns false if it is damaged. A read-only tree may contain unfinished changes.
    fn may_be_counted(&self, leaf: u32) -> bool {
        matches!(self.visit(leaf, 0), Ok(()) | Err(TreeError::NeedsRecovery { .. }))
    }

    /// Counts the leaves of one parent, beginning with the key `from`. Ends early if a concurrent change
    /// interferes.
    fn count_siblings(&self, from: u64) -> Result<(), TreeError> {
        let snapshot = self.parent_snapshot(from)?;
        let first = snapshot.entries.child(from);
        for child in first..snapshot.entries.len() {
            if let Some(ahead) = snapshot.entries.get(child + AHEAD) {
                self.at(ahead.1).fetch();
            }
            let passed = self.entry_count.passed.load(Ordering::Relaxed);
            let leaf = self.number(snapshot.entries[child].1);
            let keys = (snapshot.entries[child].0, snapshot.high(child));
            let visited = self.visited.has(leaf) || self.may_be_counted(leaf);
            let locked = self.locks.lock(leaf);
            let node = self.node(leaf);
            let known = self.damaged_nodes.reason(leaf).is_none();
            let agrees = node.is::<F>(0) && (node.low(), node.high()) == keys && node.covers(passed);
            if visited && known && !agrees {
                locked.unchanged();
                // A concurrent change interfered, or the leaf is damaged.
                return self.verify_place(passed, 0).map(drop);
            }
            if visited && known {
                // `examine` sees the entries as they will be after unfinished changes are completed.
                let entries =
                    F::examine(node).map_or_else(|_| SortedEntries::new(), |summary| summary.entries);
                let counted = entries.len() - entries.rank(passed);
                self.entry_count.count.add(leaf, counted as i64);
            }
            self.entry_count.pass(keys.1);
            locked.unchanged();
        }
        Ok(())
    }
}
