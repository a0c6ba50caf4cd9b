//! How many entries there are, counted when that is first asked for.
//!
//! One thread counts from the least key on, leaf by leaf, each under its lock. A writer's change counts for itself if its key is one that the thread has passed,
//! else the thread will meet it; as it has the leaf's lock when it asks, the answer is the same for all keys of that leaf.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::TreeError;
use crate::entry_counter::EntryCounter;

use super::entries::SortedEntries;
use super::format::NodeFormat;
use super::tree::PersistentTree;

/// Leaves that are fetched ahead.
const AHEAD: usize = 4;

#[derive(Debug)]
pub(crate) struct LazyEntryCount {
    count: EntryCounter,
    /// Entries with keys below this are counted.
    passed: AtomicU64,
    /// All are.
    complete: AtomicBool,
    counting: Mutex<()>,
}

impl LazyEntryCount {
    /// With so many entries.
    pub(crate) fn of(entries: u64) -> LazyEntryCount {
        LazyEntryCount {
            count: EntryCounter::new(entries),
            passed: AtomicU64::new(0),
            complete: AtomicBool::new(true),
            counting: Mutex::new(()),
        }
    }

    /// With entries that nobody has counted.
    pub(crate) fn unknown() -> LazyEntryCount {
        LazyEntryCount {
            complete: AtomicBool::new(false),
            ..LazyEntryCount::of(0)
        }
    }

    /// There is one more with this key, or one less; the lock of its leaf, of this number, is held.
    #[inline]
    pub(crate) fn add(&self, leaf: u32, key: u64, change: i64) {
        if self.complete.load(Ordering::Relaxed) || key < self.passed.load(Ordering::Relaxed) {
            self.count.add(leaf, change);
        }
    }

    /// Entries with keys up to this are counted.
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
    /// How many entries there are; nodes that are damaged have none.
    pub(crate) fn entries(&self) -> u64 {
        let entry_count = &self.entry_count;
        if !entry_count.complete.load(Ordering::Acquire) {
            let _counting = entry_count.one_at_a_time();
            while !entry_count.complete.load(Ordering::Acquire) {
                let passed = entry_count.passed.load(Ordering::Relaxed);
                if self.count_family(passed).is_err() {
                    // An inner node is damaged: what is below cannot be counted, and nobody can change it.
                    entry_count.pass(self.damage_ends(passed));
                }
            }
        }
        entry_count.count.get()
    }

    /// Visits a leaf; false if it is damaged. In a tree that is only read, something may be half done in it.
    fn may_be_counted(&self, leaf: u32) -> bool {
        matches!(self.visit(leaf), Ok(()) | Err(TreeError::NeedsRecovery { .. }))
    }

    /// Counts from a key on, until the parent of its leaf has no more or others come in between.
    fn count_family(&self, from: u64) -> Result<(), TreeError> {
        let family = self.family(from)?;
        let first = family.entries.child(from);
        for child in first..family.entries.len() {
            if let Some(ahead) = family.entries.get(child + AHEAD) {
                self.at(ahead.1).fetch();
            }
            let passed = self.entry_count.passed.load(Ordering::Relaxed);
            let leaf = self.number(family.entries[child].1);
            let keys = (family.entries[child].0, family.high(child));
            let visited = self.visited.has(leaf) || self.may_be_counted(leaf);
            let locked = self.locks.lock(leaf);
            let node = self.node(leaf);
            let known = self.broken.reason(leaf).is_none();
            let agrees = node.is::<F>(0) && (node.low(), node.high()) == keys && node.covers(passed);
            if visited && known && !agrees {
                locked.unchanged();
                // Others came in between, or the leaf is damaged.
                return self.verify_place(passed, 0);
            }
            if visited && known {
                // The same as those of a node in which nothing is half done.
                let entries = F::examine(node).map_or_else(|_| SortedEntries::new(), |facts| facts.entries);
                let counted = entries.len() - entries.rank(passed);
                self.entry_count.count.add(leaf, counted as i64);
            }
            self.entry_count.pass(keys.1);
            locked.unchanged();
        }
        Ok(())
    }
}
