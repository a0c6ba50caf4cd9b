//! Validation of transactions: [`ReadSet`].
//!
//! A transaction commits if nothing that it depends on was written since its snapshot. Few keys are compared
//! under the committer's lock. Everything else is compared with the trees before, while commits go on, and
//! under the lock with what was written meanwhile only.
//!
//! Invariant: the snapshot exists until the transaction has committed. So no deletion since is purged, and
//! the newest record of a key tells whether the key was written.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::append::{Current, Overlay};
use crate::error::{Result, StoreError};
use crate::fault::{StoreFault, injected};
use crate::key_range::{KeyRange, disjoint};
use crate::recent::{RecentWrite, Watch};
use crate::scan::{Direction, NewestRecord, StepSize, StepSpace};
use crate::state::{StoreState, StoresState};

/// Number of keys up to which a transaction without ranges is compared under the committer's lock.
const MAX_LOCKED_KEYS: usize = 16;

/// Number of keys that are compared before the writes of others are taken: these are not kept for longer.
const KEYS_AT_ONCE: usize = 1024;

/// Number of writes that may be left to be compared under the committer's lock, unless more come all the
/// time.
const MAX_LOCKED_WRITES: usize = 1024;
const ROUNDS: usize = 16;

/// The dependencies of a transaction: keys and ranges of stores that nobody else may have written since its
/// snapshot.
pub(crate) struct ReadSet {
    /// The commit of the snapshot.
    since: u64,
    of_store: BTreeMap<u32, StoreReads>,
}

struct StoreReads {
    store: Arc<StoreState>,
    /// In order.
    keys: Vec<Vec<u8>>,
    /// In order and disjoint.
    ranges: Vec<KeyRange>,
}

/// A read set, and the writes since it was compared with the trees; `None` if it was not.
pub(crate) struct WatchedReads {
    reads: ReadSet,
    watch: Option<Watch>,
}

impl StoreReads {
    fn key_conflict(&self, key: &[u8]) -> StoreError {
        StoreError::Conflict {
            store: self.store.name.clone(),
            what: format!("key '{}'", key.escape_ascii()),
        }
    }

    fn range_conflict(&self) -> StoreError {
        StoreError::Conflict {
            store: self.store.name.clone(),
            what: "a range that was scanned".to_owned(),
        }
    }

    /// Fails if the store has taken the place of another one since a snapshot, which sees no pairs in it.
    fn compare_store(&self, since: u64) -> Result<()> {
        match self.keys.first() {
            _ if self.store.is_seen_at(since) => Ok(()),
            Some(key) => Err(self.key_conflict(key)),
            None if self.ranges.is_empty() => Ok(()),
            None => Err(self.range_conflict()),
        }
    }

    /// Fails if a key that was written is among the reads.
    fn compare_key(&self, key: &[u8]) -> Result<()> {
        let is_key = || {
            self.keys
                .binary_search_by(|read| read.as_slice().cmp(key))
                .is_ok()
        };
        if !injected(StoreFault::SkipValidation) && is_key() {
            return Err(self.key_conflict(key));
        }
        let below = self.ranges.partition_point(|range| !range.is_above(key));
        let range = below.checked_sub(1).map(|at| &self.ranges[at]);
        if range.is_some_and(|range| range.contains(key)) && !injected(StoreFault::SkipRanges) {
            Err(self.range_conflict())
        } else {
            Ok(())
        }
    }

    /// Fails if a range that was written overlaps the reads.
    fn compare_range(&self, range: &KeyRange) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let at = self.keys.partition_point(|key| range.is_above(key));
        if let Some(key) = self.keys.get(at).filter(|key| range.contains(key))
            && !injected(StoreFault::SkipValidation)
        {
            return Err(self.key_conflict(key));
        }
        let overlaps = self.ranges.iter().any(|read| read.overlaps(range));
        if overlaps && !injected(StoreFault::SkipRanges) {
            Err(self.range_conflict())
        } else {
            Ok(())
        }
    }
}

impl ReadSet {
    pub(crate) fn new(since: u64) -> Self {
        Self {
            since,
            of_store: BTreeMap::new(),
        }
    }

    /// Adds keys, in order, and ranges of a store.
    pub(crate) fn add(&mut self, store: &Arc<StoreState>, keys: Vec<Vec<u8>>, ranges: Vec<KeyRange>) {
        let reads = StoreReads {
            store: Arc::clone(store),
            keys,
            ranges: disjoint(ranges),
        };
        self.of_store.insert(store.id, reads);
    }

    /// Returns true if the transaction depends on nothing.
    pub(crate) fn is_empty(&self) -> bool {
        let mut of_store = self.of_store.values();
        of_store.all(|reads| reads.keys.is_empty() && reads.ranges.is_empty())
    }

    fn is_small(&self) -> bool {
        let keys: usize = self.of_store.values().map(|reads| reads.keys.len()).sum();
        keys <= MAX_LOCKED_KEYS && self.of_store.values().all(|reads| reads.ranges.is_empty())
    }

    fn compare(&self, write: &RecentWrite) -> Result<()> {
        let (RecentWrite::Key(store, _) | RecentWrite::Range(store, _)) = write;
        match (self.of_store.get(store), write) {
            (None, _) => Ok(()),
            (Some(reads), RecentWrite::Key(_, key)) => reads.compare_key(key),
            (Some(reads), RecentWrite::Range(_, range)) => reads.compare_range(range),
        }
    }

    /// Compares the writes that a watch has seen since the last call. Returns their number.
    fn compare_recent(&self, watch: &Watch) -> Result<usize> {
        let groups = watch.take();
        let mut writes = groups.iter().flat_map(|group| group.iter());
        if !injected(StoreFault::ForgetRecent) {
            writes.try_for_each(|write| self.compare(write))?;
        }
        Ok(groups.iter().map(|group| group.len()).sum())
    }

    /// Fails if the newest commit that wrote a key is not one that the snapshot sees.
    fn compare_commit(&self, reads: &StoreReads, key: &[u8], commit: u64) -> Result<()> {
        if commit > self.since && !injected(StoreFault::SkipValidation) {
            Err(reads.key_conflict(key))
        } else {
            Ok(())
        }
    }
}

impl StoresState {
    /// Compares a read set with the trees, unless it is small enough to be compared under the committer's
    /// lock. Commits go on meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Conflict`]: something was written. Also those of a read, and if nothing can be
    /// committed.
    pub(crate) fn watch_reads(&self, reads: ReadSet) -> Result<WatchedReads> {
        self.writable()?;
        if reads.is_small() {
            return Ok(WatchedReads { reads, watch: None });
        }
        let watch = {
            let _no_commit_publishes = self.snapshots();
            self.recent.watch()
        };
        self.compare_trees(&reads, &|| reads.compare_recent(&watch).map(drop))?;
        for _ in 0..ROUNDS {
            if reads.compare_recent(&watch)? <= MAX_LOCKED_WRITES {
                break;
            }
        }
        Ok(WatchedReads {
            reads,
            watch: Some(watch),
        })
    }

    /// Compares a read set with the trees, in steps, and calls `between` after each.
    ///
    /// # Errors
    /// As [`watch_reads`](Self::watch_reads).
    pub(crate) fn compare_trees(&self, reads: &ReadSet, between: &dyn Fn() -> Result<()>) -> Result<()> {
        for of_store in reads.of_store.values() {
            of_store.store.is_one_of(self)?;
            of_store.compare_store(reads.since)?;
            let deleted = of_store.store.read().deleted_ranges();
            deleted
                .iter()
                .filter(|deleted| deleted.commit > reads.since)
                .try_for_each(|deleted| of_store.compare_range(&deleted.range))?;
            for keys in of_store.keys.chunks(KEYS_AT_ONCE) {
                for key in keys {
                    let located = of_store.store.read().locate(&self.pages(), key);
                    if let Some(located) = located.map_err(|damage| self.damaged(damage))? {
                        reads.compare_commit(of_store, key, located.record.commit())?;
                    }
                }
                between()?;
            }
            for range in &of_store.ranges {
                self.compare_range(reads, of_store, range, between)?;
            }
        }
        Ok(())
    }

    fn compare_range(
        &self,
        reads: &ReadSet,
        of_store: &StoreReads,
        range: &KeyRange,
        between: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let mut space = StepSpace::default();
        let mut rest = Some(range.clone());
        while let Some(range) = rest {
            let mut is_written = false;
            let trees = of_store.store.read();
            let end = trees.step(
                self,
                &range,
                Direction::Forward,
                StepSize::MAX,
                &mut space,
                |_, newest| {
                    let (NewestRecord::OfTable(_, record) | NewestRecord::OfLeaf(record, _)) = newest;
                    is_written |= record.commit() > reads.since;
                    Ok(ControlFlow::Continue(()))
                },
            );
            drop(trees);
            let end = end.map_err(|damage| self.damaged(damage))?;
            if is_written && !injected(StoreFault::SkipRanges) {
                return Err(of_store.range_conflict());
            }
            between()?;
            rest = end.rest(range, Direction::Forward);
        }
        Ok(())
    }

    /// Fails if something was written that a transaction depends on. Called by the committer; the overlay has
    /// the writes that are not in the trees yet.
    ///
    /// # Errors
    /// As [`watch_reads`](Self::watch_reads).
    pub(crate) fn validate(&self, overlay: &Overlay, watched: &WatchedReads) -> Result<()> {
        let WatchedReads { reads, watch } = watched;
        let Some(watch) = watch else {
            return self.validate_few(overlay, reads);
        };
        for of_store in reads.of_store.values() {
            of_store.store.is_one_of(self)?;
            of_store.compare_store(reads.since)?;
        }
        reads.compare_recent(watch)?;
        for (store, key) in overlay.keys.keys() {
            if let Some(of_store) = reads.of_store.get(store) {
                of_store.compare_key(key)?;
            }
        }
        for (store, deleted) in &overlay.ranges {
            if let Some(of_store) = reads.of_store.get(&store.id) {
                of_store.compare_range(&deleted.range)?;
            }
        }
        Ok(())
    }

    fn validate_few(&self, overlay: &Overlay, reads: &ReadSet) -> Result<()> {
        for of_store in reads.of_store.values() {
            of_store.store.is_one_of(self)?;
            of_store.compare_store(reads.since)?;
            for key in &of_store.keys {
                match self.current(&[overlay], &of_store.store, key)? {
                    Current::Absent => {}
                    Current::Staged(_) if injected(StoreFault::SkipValidation) => {}
                    Current::Staged(_) => return Err(of_store.key_conflict(key)),
                    Current::Found(located) => {
                        reads.compare_commit(of_store, key, located.record.commit())?;
                    }
                    Current::Hidden(_, deleted) => reads.compare_commit(of_store, key, deleted)?,
                }
            }
        }
        Ok(())
    }
}
