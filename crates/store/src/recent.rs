//! The writes of commits that go on while a transaction is validated: [`RecentWrites`].
//!
//! A transaction is validated outside of the committer's lock, against the trees. What is committed meanwhile
//! is recorded here, so that under the lock only that is compared. Nothing is recorded while nobody
//! validates.
//!
//! Invariant: a watch begins while the snapshots are locked, and commits publish while they are locked. So
//! what a watch misses was in the trees when it began.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::key_range::KeyRange;

/// A change of a store by a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecentWrite {
    Key(u32, Box<[u8]>),
    Range(u32, KeyRange),
}

/// The writes of a group of commits.
pub(crate) type WriteGroup = Arc<Vec<RecentWrite>>;

/// The writes that some watch has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct RecentWrites {
    recorded: Mutex<Recorded>,
    /// Number of watches.
    watches: AtomicUsize,
}

#[derive(Debug, Default)]
struct Recorded {
    groups: VecDeque<WriteGroup>,
    /// Number of groups before the first one here.
    dropped: u64,
    /// Of each watch, the number of groups before the one that it takes next.
    taken: BTreeMap<u64, u64>,
    next_watch: u64,
}

impl Recorded {
    fn end(&self) -> u64 {
        self.dropped + self.groups.len() as u64
    }

    /// Drops the groups that every watch has taken.
    fn trim(&mut self) {
        let needed = self.taken.values().min().copied().unwrap_or_else(|| self.end());
        let unneeded = (needed - self.dropped) as usize;
        self.groups.drain(..unneeded);
        self.dropped = needed;
    }
}

impl RecentWrites {
    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to record writes. Called while the snapshots are locked.
    pub(crate) fn watch(self: &Arc<Self>) -> Watch {
        let mut recorded = self.recorded();
        let number = recorded.next_watch;
        recorded.next_watch += 1;
        let end = recorded.end();
        recorded.taken.insert(number, end);
        self.watches.fetch_add(1, Ordering::Relaxed);
        Watch {
            recent: Arc::clone(self),
            number,
        }
    }

    /// Records what a group of commits writes, if somebody watches. Called while the snapshots are locked.
    pub(crate) fn record(&self, writes: impl Iterator<Item = RecentWrite>) {
        // A watch begins under the lock of the snapshots, too, so none is missed.
        if self.watches.load(Ordering::Relaxed) > 0 {
            let group = Arc::new(writes.collect());
            self.recorded().groups.push_back(group);
        }
    }
}

/// Takes the writes that are committed from its beginning on.
#[derive(Debug)]
pub(crate) struct Watch {
    recent: Arc<RecentWrites>,
    number: u64,
}

impl Watch {
    /// Returns the writes since the last call.
    pub(crate) fn take(&self) -> Vec<WriteGroup> {
        let mut recorded = self.recent.recorded();
        let end = recorded.end();
        let from = recorded.taken.insert(self.number, end).unwrap_or(end);
        let from = (from - recorded.dropped) as usize;
        let groups = recorded.groups.range(from..).cloned().collect();
        recorded.trim();
        groups
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut recorded = self.recent.recorded();
        recorded.taken.remove(&self.number);
        recorded.trim();
        self.recent.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(recent: &RecentWrites, key: u8) {
        recent.record([RecentWrite::Key(1, Box::new([key]))].into_iter());
    }

    fn keys(watch: &Watch) -> Vec<u8> {
        let groups = watch.take();
        let writes = groups.iter().flat_map(|group| group.iter());
        let key = |write: &RecentWrite| match write {
            RecentWrite::Key(_, key) => key[0],
            RecentWrite::Range(..) => u8::MAX,
        };
        writes.map(key).collect()
    }

    #[test]
    fn each_watch_takes_what_was_written_since_and_nothing_is_kept_longer() {
        let recent = Arc::new(RecentWrites::default());
        record(&recent, 0);
        let first = recent.watch();
        record(&recent, 1);
        let second = recent.watch();
        record(&recent, 2);
        assert_eq!(keys(&first), [1, 2]);
        assert!(keys(&first).is_empty());
        record(&recent, 3);
        assert_eq!(keys(&second), [2, 3]);
        assert_eq!(
            recent.recorded().groups.len(),
            1,
            "the first one has not taken it"
        );
        drop(first);
        record(&recent, 4);
        assert_eq!(keys(&second), [4]);
        drop(second);
        record(&recent, 5);
        assert_eq!(recent.recorded().groups.len(), 0);
    }
}
