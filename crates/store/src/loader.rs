//! Loading of a new store from sorted pairs: [`StoreLoader`].
//!
//! Records and pages are written once, to segments that nothing leads to. One checkpoint names them, and the
//! store. So a crash before leaves nothing, and neither memtables nor the log are involved.
//!
//! Invariant: the records belong to a commit that was there when the load began, so no later checkpoint is
//! one of an older commit.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::error::{Result, StoreError};
use crate::handle::StoresHandle;
use crate::limits::{check_key, check_value};
use crate::load_log::LoadLog;
use crate::load_segments::LoadedSegments;
use crate::load_tree::LoadTree;
use crate::loaded_pairs::LoadedPairs;
use crate::segments::{Freed, SegmentKind, SegmentUse};
use crate::state::{StoreState, StoresState};
use crate::store::Store;
use crate::stores::{Stores, check_name};

/// Number of segments that are inserted into those in use while these are locked.
const INSERTED_AT_ONCE: usize = 256;

/// A new store that is being loaded, from [`Stores::load_sorted`].
///
/// Nobody finds the store before [`finish`](Self::finish). Dropping the loader frees what was written, and so
/// does a crash. Takes about 200 KiB of DRAM, whatever is loaded, and 32 bytes for each 64 KiB written.
pub struct StoreLoader {
    handle: Arc<StoresHandle>,
    store: Arc<StoreState>,
    segments: LoadedSegments,
    log: LoadLog,
    tree: LoadTree,
    keys: u64,
    bytes: u64,
}

impl std::fmt::Debug for StoreLoader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreLoader")
            .field("store", &self.store.name)
            .field("keys", &self.keys)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Stores {
    /// Begins to load a new store from pairs in ascending order of their keys. That is several times faster
    /// than commits, and needs next to no memory.
    ///
    /// # Errors
    /// [`StoreError::StoreExists`], [`StoreError::InvalidName`], [`StoreError::ReadOnly`],
    /// [`StoreError::Damaged`].
    ///
    /// ```
    /// # use halocline_pool::{Pool, PoolOptions};
    /// # use halocline_store::Stores;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let pool = Pool::create(&directory.path().join("example.pool"), &PoolOptions::default())?;
    /// let stores = Stores::open(&pool)?;
    /// let mut loader = stores.load_sorted("squares")?;
    /// for number in 0..1000_u64 {
    ///     loader.push(number.to_be_bytes(), (number * number).to_be_bytes())?;
    /// }
    /// let squares = loader.finish()?;
    /// assert_eq!(squares.get(7_u64.to_be_bytes())?.as_deref(), Some(&49_u64.to_be_bytes()[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn load_sorted(&self, name: &str) -> Result<StoreLoader> {
        StoreLoader::begin(&self.handle, name, None)
    }
}

fn exists(name: &str) -> StoreError {
    StoreError::StoreExists {
        name: name.to_owned(),
    }
}

impl StoreLoader {
    /// Begins to load a store. `seen_at` is the oldest commit whose snapshots see its pairs; the newest one
    /// if it is `None`.
    pub(crate) fn begin(handle: &Arc<StoresHandle>, name: &str, seen_at: Option<u64>) -> Result<Self> {
        check_name(name)?;
        let state = &handle.state;
        state.writable()?;
        let mut committer = state.committer();
        if state.stores().contains_key(name) {
            return Err(exists(name));
        }
        let id = state.next_store_number(&mut committer)?;
        let store = StoreState::new(state.opening, id, name, Default::default(), 0, 0);
        // Nothing can be read or written by a handle to it before it is there.
        store.dropped.store(true, Ordering::Release);
        let commit = seen_at.unwrap_or(committer.commit);
        Ok(Self {
            store,
            segments: LoadedSegments::new(state),
            log: LoadLog::new(committer.log.secret(), id, commit),
            tree: LoadTree::new(id),
            keys: 0,
            bytes: 0,
            handle: Arc::clone(handle),
        })
    }

    /// Adds a pair, whose key must be greater than all before.
    ///
    /// # Errors
    /// [`StoreError::DuplicateKey`], [`StoreError::NotAscending`], [`StoreError::KeyTooLong`],
    /// [`StoreError::ValueTooLong`]: the pair is not added.
    /// [`DiskFull`](halocline_pool::PoolError::DiskFull), [`StoreError::Media`]: the loader can only be
    /// dropped.
    pub fn push(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(&self.store, key)?;
        check_value(&self.store, value)?;
        match self.tree.last().map(|last| key.cmp(last)) {
            None | Some(std::cmp::Ordering::Greater) => {}
            Some(order) => return Err(self.misplaced(key, order)),
        }
        let record = self.log.push(&mut self.segments, key, value)?;
        self.tree.push(&mut self.segments, key, record)?;
        self.keys += 1;
        self.bytes += (key.len() + value.len()) as u64;
        Ok(())
    }

    #[cold]
    fn misplaced(&self, key: &[u8], order: std::cmp::Ordering) -> StoreError {
        let store = self.store.name.clone();
        if order.is_eq() {
            StoreError::DuplicateKey {
                store,
                key: key.to_vec(),
                pair: self.keys + 1,
            }
        } else {
            StoreError::NotAscending { store }
        }
    }

    /// Returns the number of pairs so far.
    pub fn len(&self) -> u64 {
        self.keys
    }

    /// Returns true if there is no pair so far.
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// Returns the greatest key so far.
    pub fn last_key(&self) -> Option<&[u8]> {
        self.tree.last()
    }

    /// Makes the store one of the pool, durably, with one checkpoint.
    ///
    /// # Errors
    /// [`StoreError::StoreExists`] if another thread has created a store of this name meanwhile, and those of
    /// [`Stores::checkpoint`]: there is no such store.
    pub fn finish(self) -> Result<Store> {
        let Self {
            handle,
            store,
            mut segments,
            mut log,
            tree,
            keys,
            bytes,
        } = self;
        log.close(&mut segments)?;
        let tree = tree.finish(&mut segments)?;
        segments.fence()?;
        store.write().tree = tree;
        store.keys.store(keys, Ordering::Relaxed);
        store.bytes.store(bytes, Ordering::Relaxed);
        handle.state.publish_loaded(&store, &mut segments)?;
        Ok(Store {
            stores: handle,
            state: store,
        })
    }

    /// Returns the pairs so far in their order. Their space is freed as they are read. The load begins anew.
    ///
    /// # Errors
    /// Those of the medium.
    pub fn restart(&mut self) -> Result<LoadedPairs> {
        self.log.close(&mut self.segments)?;
        self.tree = LoadTree::new(self.store.id);
        (self.keys, self.bytes) = (0, 0);
        let segments = LoadedSegments::new(&self.handle.state);
        Ok(LoadedPairs::new(std::mem::replace(&mut self.segments, segments)))
    }

    /// Returns a handle to the store, whose operations fail with [`StoreError::Dropped`] until
    /// [`finish`](Self::finish) returns.
    pub fn store(&self) -> Store {
        Store {
            stores: Arc::clone(&self.handle),
            state: Arc::clone(&self.store),
        }
    }

    pub(crate) fn state(&self) -> &StoreState {
        &self.store
    }
}

impl StoresState {
    /// Adds a store with its segments, and makes a checkpoint that names them.
    fn publish_loaded(&self, store: &Arc<StoreState>, segments: &mut LoadedSegments) -> Result<()> {
        let _one_at_a_time = self.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        self.settle()?;
        let added = segments.take();
        // No checkpoint sees a part of them, and commits need not wait for all.
        for some in added.chunks(INSERTED_AT_ONCE) {
            let mut in_use = self.segments();
            some.iter()
                .for_each(|(offset, usage)| in_use.insert(*offset, *usage));
        }
        if let Err(error) = self.add_loaded(store) {
            self.withdraw_segments(&added);
            return Err(error);
        }
        match self.checkpoint() {
            Ok(()) => {
                store.durable.store(true, Ordering::Release);
                store.dropped.store(false, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                // After an error of the medium it is unknown whether the store is there.
                if self.writable().is_ok() {
                    self.withdraw_loaded(store, &added);
                }
                Err(error)
            }
        }
    }

    fn add_loaded(&self, store: &Arc<StoreState>) -> Result<()> {
        let _committer = self.committer();
        self.writable()?;
        self.slab.pool().check_place(Duration::ZERO)?;
        let mut stores = self.stores_mut();
        if stores.contains_key(&store.name) {
            return Err(exists(&store.name));
        }
        stores.insert(store.name.clone(), Arc::clone(store));
        Ok(())
    }

    /// Takes a store away that no checkpoint names, with its segments.
    fn withdraw_loaded(&self, store: &StoreState, added: &[(u64, SegmentUse)]) {
        let _committer = self.committer();
        let _no_readers = store.write();
        self.stores_mut().remove(&store.name);
        self.withdraw_segments(added);
    }

    /// Frees segments that no checkpoint names.
    fn withdraw_segments(&self, added: &[(u64, SegmentUse)]) {
        let mut freed = Freed::default();
        for &(offset, usage) in added {
            match usage.kind {
                SegmentKind::Log => freed.segments.push(offset),
                kind => freed.pages.extend(kind.pages(offset, usage.used)),
            }
        }
        self.segments().release(&self.slab, &freed);
    }
}
