//! Reads as of one moment: [`StoreSnapshot`].

use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::handle::StoresHandle;
use crate::key_range::KeyRange;
use crate::scan_iterator::Scan;
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
        snapshots.add(commit, stores.state.now());
        drop(snapshots);
        Self {
            stores: Arc::clone(stores),
            commit,
        }
    }

    pub(crate) fn stores(&self) -> &StoresHandle {
        &self.stores
    }

    /// Returns the number of the commit.
    pub fn commit(&self) -> u64 {
        self.commit
    }

    /// Returns true unless a store has [taken the place](crate::StoreTransaction::replace) of
    /// another one since.
    pub fn sees(&self, store: &Store) -> bool {
        store.state.is_seen_at(self.commit)
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
        Scan::new(self.clone(), store, KeyRange::from_bounds(&range))
    }

    /// Returns the pairs whose keys begin with a prefix.
    pub fn scan_prefix(&self, store: &Store, prefix: impl AsRef<[u8]>) -> Scan {
        Scan::new(self.clone(), store, KeyRange::of_prefix(prefix.as_ref()))
    }
}

impl Clone for StoreSnapshot {
    fn clone(&self) -> Self {
        let state = &self.stores.state;
        state.snapshots().add(self.commit, state.now());
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
            state.forget_kept(version.record);
        }
        state.unpin_unseen();
    }
}
