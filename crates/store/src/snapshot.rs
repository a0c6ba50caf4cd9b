//! Reads as of one moment: [`StoreSnapshot`] and [`Scan`].

use std::collections::VecDeque;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::handle::StoresHandle;
use crate::key_range::KeyRange;
use crate::pair::{PairScan, StorePair};
use crate::scan::{Direction, STEP_ENTRIES};
use crate::store::Store;

/// All stores of a pool as of one commit. Blocks nobody.
///
/// While it exists, versions that it sees are kept, one of each key that is written meanwhile.
#[derive(Debug)]
pub struct StoreSnapshot {
    stores: Arc<StoresHandle>,
    commit: u64,
}

impl StoreSnapshot {
    pub(crate) fn new(stores: &Arc<StoresHandle>) -> Self {
        let mut snapshots = stores.state.snapshots();
        let commit = stores.state.visible.load(Ordering::Acquire);
        snapshots.add(commit);
        drop(snapshots);
        Self {
            stores: Arc::clone(stores),
            commit,
        }
    }

    /// Returns the number of the commit.
    pub fn commit(&self) -> u64 {
        self.commit
    }

    /// Returns the value that a key had.
    ///
    /// # Errors
    /// [`Dropped`](crate::StoreError::Dropped), [`Damaged`](crate::StoreError::Damaged).
    pub fn get(&self, store: &Store, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.stores.state.get(&store.state, key.as_ref(), self.commit)
    }

    /// Returns the pairs of a range, as [`Store::scan`] does.
    pub fn scan<K: AsRef<[u8]>>(&self, store: &Store, range: impl RangeBounds<K>) -> Scan {
        Scan::new(self.clone(), store, KeyRange::of(&range))
    }

    /// Returns the pairs whose keys begin with a prefix.
    pub fn scan_prefix(&self, store: &Store, prefix: impl AsRef<[u8]>) -> Scan {
        Scan::new(self.clone(), store, KeyRange::of_prefix(prefix.as_ref()))
    }
}

impl Clone for StoreSnapshot {
    fn clone(&self) -> Self {
        self.stores.state.snapshots().add(self.commit);
        Self {
            stores: Arc::clone(&self.stores),
            commit: self.commit,
        }
    }
}

impl Drop for StoreSnapshot {
    fn drop(&mut self) {
        let state = &self.stores.state;
        let dropped = state.snapshots().remove(self.commit);
        for version in dropped {
            // A damaged record is found by whoever reads it; here it only stays counted.
            if let Some(record) = crate::record::RecordRef::load(state.medium(), version.record) {
                let _ = state.forget(&record);
            }
        }
        state.unpin_unseen();
    }
}

/// An iterator over the pairs of a range as of one commit. Blocks nobody. Reads the range in steps, a few
/// pairs at first and then more, up to those of a leaf.
#[derive(Debug)]
pub struct Scan {
    snapshot: StoreSnapshot,
    store: Store,
    /// The part of the range that has not been read.
    rest: Option<KeyRange>,
    /// Pairs from the start of the range, ascending.
    front: VecDeque<StorePair>,
    /// Pairs from the end of the range, descending.
    back: VecDeque<StorePair>,
    /// Number of entries of the next step: few at first, so that a scan that ends soon has read little.
    step: usize,
}

/// Number of entries of the first step of a scan, and its growth with each step.
const FIRST_STEP: usize = 8;
const STEP_GROWTH: usize = 4;

impl Scan {
    pub(crate) fn new(snapshot: StoreSnapshot, store: &Store, range: KeyRange) -> Self {
        Self {
            snapshot,
            store: store.clone(),
            rest: Some(range),
            front: VecDeque::new(),
            back: VecDeque::new(),
            step: FIRST_STEP,
        }
    }

    /// Returns the part of the range that has not been read; `None` if all of it has been.
    pub(crate) fn rest(&self) -> Option<&KeyRange> {
        self.rest.as_ref()
    }

    fn read(&mut self, direction: Direction) -> Result<()> {
        let Some(range) = self.rest.take() else {
            return Ok(());
        };
        let state = &self.snapshot.stores.state;
        let (store, commit) = (&self.store.state, self.snapshot.commit);
        let step = state.scan_step(store, &range, commit, direction, self.step)?;
        self.step = (self.step * STEP_GROWTH).min(STEP_ENTRIES);
        match direction {
            Direction::Forward => self.front.extend(step.pairs),
            Direction::Backward => self.back.extend(step.pairs),
        }
        self.rest = step.rest;
        Ok(())
    }
}

impl Scan {
    /// Returns the same pairs with their times of expiry.
    pub fn with_expiry(self) -> PairScan {
        PairScan::new(self)
    }

    pub(crate) fn next_pair(&mut self) -> Option<Result<StorePair>> {
        while self.front.is_empty() && self.rest.is_some() {
            if let Err(error) = self.read(Direction::Forward) {
                return Some(Err(error));
            }
        }
        self.front.pop_front().or_else(|| self.back.pop_back()).map(Ok)
    }

    pub(crate) fn next_pair_back(&mut self) -> Option<Result<StorePair>> {
        while self.back.is_empty() && self.rest.is_some() {
            if let Err(error) = self.read(Direction::Backward) {
                return Some(Err(error));
            }
        }
        self.back.pop_front().or_else(|| self.front.pop_back()).map(Ok)
    }
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_pair()?.map(|pair| (pair.key, pair.value)))
    }
}

impl DoubleEndedIterator for Scan {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.next_pair_back()?.map(|pair| (pair.key, pair.value)))
    }
}
