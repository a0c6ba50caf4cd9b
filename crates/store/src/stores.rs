//! All stores of a pool: [`Stores`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use halocline_pool::{Pool, PoolError};

use crate::batch::WriteBatch;
use crate::committer::Committer;
use crate::error::{Result, StoreError};
use crate::give_back::Occasion;
use crate::handle::StoresHandle;
use crate::keeper;
use crate::layout::OBJECT;
use crate::observer;
use crate::options::StoresOptions;
use crate::recover;
use crate::room::SegmentClaim;
use crate::snapshot::StoreSnapshot;
use crate::state::{StoreState, StoresState};
use crate::store::Store;
use crate::transaction::{Isolation, StoreTransaction};
use crate::tree::{Damage, Tree};

/// All key-value stores of a pool, open for reading and writing, or [for reading](Self::open_reader). Cheap
/// to clone; threads may share it. One handle at a time, in one process, may have the stores of a pool open
/// for writing.
///
/// Dropping the last handle makes a checkpoint.
#[derive(Debug, Clone)]
pub struct Stores {
    pub(crate) handle: Arc<StoresHandle>,
}

/// Statistics of all stores of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoresStats {
    /// Number of stores.
    pub stores: u64,
    /// Number of keys, those that expired and were not reclaimed included.
    pub keys: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Bytes that the stores occupy in the pool.
    pub pool_bytes: u64,
    /// Bytes of the segments of the log.
    pub log_bytes: u64,
    /// Bytes of needed records in the log, except for those that have expired.
    pub live_bytes: u64,
    /// Bytes appended to the log since the stores were opened, moved records included.
    pub appended_bytes: u64,
    /// Number of records after the last checkpoint.
    pub pending_records: u64,
    /// Number of snapshots, those of transactions and scans included.
    pub snapshots: u64,
    /// Number of superseded versions that are kept for them.
    pub kept_versions: u64,
    /// Number of checkpoints since the stores were opened.
    pub checkpoints: u64,
    /// The newest commit.
    pub commit: u64,
    /// Number of fences that have made the log durable since the stores were opened: one for each group of
    /// commits, and those of moved records.
    pub log_fences: u64,
}

impl Stores {
    /// Opens the stores of a pool with default options. O(segments), and O(commits since the last checkpoint)
    /// after a crash, but reads no more than one bit for each KiB of the stores, and the commits.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open(pool: &Pool) -> Result<Self> {
        Self::open_with(pool, StoresOptions::default())
    }

    /// Opens the stores of a pool.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], [`StoreError::NewerFormat`], and those of the pool:
    /// [`SlabInUse`](halocline_pool::PoolError::SlabInUse) if another handle has the stores open.
    pub fn open_with(pool: &Pool, options: StoresOptions) -> Result<Self> {
        let state = recover::open(pool, options)?;
        state.fill_reserve();
        let keeper = if state.options.background {
            Some(keeper::start(&state).map_err(|source| StoreError::Thread { source })?)
        } else {
            None
        };
        Ok(Self {
            handle: Arc::new(StoresHandle::new(state, keeper)),
        })
    }

    /// Opens the stores of a pool for reading, with default options.
    ///
    /// # Errors
    /// As [`open_reader_with`](Self::open_reader_with).
    pub fn open_reader(pool: &Pool) -> Result<Self> {
        Self::open_reader_with(pool, &StoresOptions::default())
    }

    /// Opens the stores of a pool for reading: beside a process that writes them, or without one, any number
    /// of times, and also in a pool that is opened read-only. Stores nothing.
    ///
    /// Reads see one commit: the newest at the opening or at the last [`refresh`](Self::refresh), with all
    /// commits that had returned by then. It may include commits that are not durable yet, and are lost if
    /// the machine goes down at once. A snapshot keeps the commit that it sees.
    ///
    /// While a reader is open, the writer keeps the versions that it sees, as for a snapshot. The reader ends
    /// with its process, whatever happens to it.
    ///
    /// Writes and checkpoints fail with [`StoreError::ReadOnly`]. Reads fail with
    /// [`StoreError::Stale`] when the stores were opened for writing after the commit that is read: a
    /// [`refresh`](Self::refresh) helps, and older snapshots stay stale. O(commits since the last
    /// checkpoint).
    ///
    /// # Errors
    /// [`StoreError::NoStores`], [`StoreError::Damaged`], [`StoreError::NewerFormat`], and those of
    /// [`Pool::observe_slab`].
    ///
    /// ```
    /// # use halocline_pool::{Pool, PoolOptions};
    /// # use halocline_store::Stores;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("example.pool");
    /// let writer = Stores::open(&Pool::create(&path, &PoolOptions::default())?)?.store("numbers")?;
    /// writer.put("one", "1")?;
    /// let pool = Pool::open(&path, &PoolOptions::default().with_read_only(true))?;
    /// let stores = Stores::open_reader(&pool)?;
    /// let reader = stores.existing("numbers")?;
    /// writer.put("two", "2")?;
    /// assert_eq!(reader.scan::<&str>(..).count(), 1);
    /// stores.refresh()?;
    /// assert_eq!(reader.scan::<&str>(..).count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_reader_with(pool: &Pool, options: &StoresOptions) -> Result<Self> {
        let state = observer::open(pool, options)?;
        Ok(Self {
            handle: Arc::new(StoresHandle::new(state, None)),
        })
    }

    /// Lets stores that are [open for reading](Self::open_reader) see the newest commit, and new and dropped
    /// stores. Does nothing if they are open for writing. O(commits since the last checkpoint).
    ///
    /// # Errors
    /// As [`open_reader_with`](Self::open_reader_with).
    pub fn refresh(&self) -> Result<()> {
        self.state().refresh()
    }

    /// Returns true if the stores are [open for reading](Self::open_reader) only.
    pub fn is_reader(&self) -> bool {
        self.state().observer.is_some()
    }

    /// Returns true if a pool has stores, so that opening them does not create any. O(1).
    ///
    /// # Errors
    /// Those of [`Pool::snapshot`].
    pub fn exist_in(pool: &Pool) -> Result<bool> {
        match pool.snapshot()?.object(OBJECT) {
            Ok(_) => Ok(true),
            Err(PoolError::NoSuchObject { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns true if a pool has stores that some handle has open for writing, here or in another process.
    /// O(1).
    ///
    /// # Errors
    /// Those of [`Pool::slab_is_in_use`].
    pub fn are_in_use(pool: &Pool) -> Result<bool> {
        match pool.slab_is_in_use(OBJECT) {
            Err(PoolError::NoSuchObject { .. }) => Ok(false),
            in_use => Ok(in_use?),
        }
    }

    fn state(&self) -> &Arc<StoresState> {
        &self.handle.state
    }

    fn handle_of(&self, state: Arc<StoreState>) -> Store {
        Store {
            stores: Arc::clone(&self.handle),
            state,
        }
    }

    /// Opens a store, which is created durably if there is none of this name.
    ///
    /// # Errors
    /// [`StoreError::InvalidName`], and those of [`checkpoint`](Self::checkpoint) for a new store.
    pub fn store(&self, name: &str) -> Result<Store> {
        let existing = self.state().stores().get(name).cloned();
        let state = match existing {
            Some(state) => state,
            None => self.create_store(name)?,
        };
        self.durable(state)
    }

    /// Returns a handle to a store, once a checkpoint names it.
    fn durable(&self, state: Arc<StoreState>) -> Result<Store> {
        if !state.durable.load(Ordering::Acquire) {
            self.state().checkpoint_now()?;
            state.durable.store(true, Ordering::Release);
        }
        Ok(self.handle_of(state))
    }

    /// Adds a store, which is not durable yet.
    fn create_store(&self, name: &str) -> Result<Arc<StoreState>> {
        check_name(name)?;
        self.state().writable()?;
        let mut committer = self.state().committer();
        let mut stores = self.state().stores_mut();
        if let Some(existing) = stores.get(name) {
            return Ok(Arc::clone(existing));
        }
        let id = self.state().next_store_number(&mut committer)?;
        let state = StoreState::new(self.state().opening, id, name, Tree::new(id, None), 0, 0);
        stores.insert(name.to_owned(), Arc::clone(&state));
        Ok(state)
    }

    /// Opens a store that exists.
    ///
    /// # Errors
    /// [`StoreError::NoSuchStore`], and those of [`checkpoint`](Self::checkpoint) for a store that another
    /// thread is creating.
    pub fn existing(&self, name: &str) -> Result<Store> {
        let existing = self.state().stores().get(name).cloned();
        self.durable(existing.ok_or_else(|| self.no_such(name))?)
    }

    fn no_such(&self, name: &str) -> StoreError {
        StoreError::NoSuchStore {
            path: self.state().slab.pool().path().to_path_buf(),
            name: name.to_owned(),
        }
    }

    /// Drops a store with all its keys. Other handles to it fail from then on. Space that is free then is
    /// given back to the pool if it is a good part, and nobody writes to the pool otherwise. O(bytes / 64
    /// KiB), but O(keys) for keys that were written in turn with those of other stores.
    ///
    /// # Errors
    /// [`StoreError::NoSuchStore`], [`StoreError::Damaged`], and those of [`checkpoint`](Self::checkpoint).
    pub fn drop_store(&self, name: &str) -> Result<()> {
        self.state().drop_store(name)?.ok_or_else(|| self.no_such(name))?;
        self.state().checkpoint_now()?;
        self.state().note_drop();
        // Otherwise the keeper does so later.
        self.state().give_back_if_due();
        Ok(())
    }

    /// Gives unused space back to the pool, for tables and other objects: records and pages in parts of the
    /// stores that are nearly empty move elsewhere. Readers in other processes locate what they see anew.
    /// Returns the number of bytes that were given back. Waits up to `wait` for another writer of the pool;
    /// a thread that has a transaction of the pool must not wait.
    ///
    /// Much of the space is given back without this: what is free after a [drop](Self::drop_store) and is a
    /// good part of all, and later whatever is more than half.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Damaged`], [`Locked`](halocline_pool::PoolError::Locked),
    /// [`DiskFull`](halocline_pool::PoolError::DiskFull): what has moved stays moved.
    /// [`StoreError::Media`], [`StoreError::Poisoned`].
    pub fn give_back(&self, wait: Duration) -> Result<u64> {
        self.state().give_back(Occasion::Asked, wait)
    }

    /// Returns the names of the stores, in order.
    pub fn names(&self) -> Vec<String> {
        self.state().stores().keys().cloned().collect()
    }

    /// Makes all writes of a batch durable together.
    ///
    /// # Errors
    /// [`StoreError::Dropped`], [`StoreError::NoMergeOperator`], [`StoreError::Damaged`],
    /// [`DiskFull`](halocline_pool::PoolError::DiskFull): nothing has changed. [`StoreError::Media`],
    /// [`StoreError::Poisoned`]: it is unknown what is durable.
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        if batch.uses_reserve {
            self.state().commit(batch.ops, None, SegmentClaim::All)
        } else {
            self.handle.commit(batch.ops, None)
        }
        .map(|_| ())
    }

    /// Returns a snapshot of all stores: what it reads does not change.
    pub fn snapshot(&self) -> StoreSnapshot {
        StoreSnapshot::new(&self.handle)
    }

    /// Returns true if there is a snapshot, here or in another process, of a commit before this one.
    pub fn are_read_before(&self, commit: u64) -> bool {
        let mut committer = self.state().committer();
        let mut snapshots = self.state().snapshots();
        self.state().look_for_readers(&mut committer, &mut snapshots);
        snapshots.oldest().is_some_and(|oldest| oldest < commit)
    }

    /// Begins a serialisable transaction.
    pub fn begin(&self) -> StoreTransaction {
        self.begin_with(Isolation::Serializable)
    }

    /// Begins a transaction.
    pub fn begin_with(&self, isolation: Isolation) -> StoreTransaction {
        StoreTransaction::new(&self.handle, isolation)
    }

    /// Makes a checkpoint, so that opening has nothing to read from the log. Checkpoints are made anyway.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], [`DiskFull`](halocline_pool::PoolError::DiskFull): nothing has changed.
    /// [`StoreError::Media`].
    pub fn checkpoint(&self) -> Result<()> {
        self.state().checkpoint_now()
    }

    /// Empties segments with much garbage now, and makes a checkpoint. Happens anyway.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn reclaim(&self) -> Result<()> {
        self.state().maintain()?;
        self.state().checkpoint_now()
    }

    /// Makes all commits that have returned survive power loss, where the options
    /// [defer](StoresOptions::durable_commits) that. Commits go on meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Media`], and from then on [`StoreError::Poisoned`].
    pub fn flush(&self) -> Result<()> {
        self.state().flush()
    }

    /// Returns statistics. As [`Store::len`], waits once after a crash.
    pub fn stats(&self) -> StoresStats {
        self.state().stats()
    }
}

/// Fails if a name cannot be one of a store.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
        Err(StoreError::InvalidName {
            name: name.to_owned(),
        })
    } else {
        Ok(())
    }
}

impl StoresState {
    /// Takes the number of a new store.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the catalog leaves none: no program creates so many stores.
    pub(crate) fn next_store_number(&self, committer: &mut Committer) -> Result<u32> {
        let number = committer.next_store;
        committer.next_store = number.checked_add(1).ok_or_else(|| {
            // The catalog that the checkpoint names: the committer lacks it while there is a merge.
            self.damaged(Damage {
                offset: self.slab.root(),
                what: "the catalog of the stores leaves no number for a new store",
            })
        })?;
        Ok(number)
    }

    fn stats(&self) -> StoresStats {
        self.settle_counters();
        let (commit, pending_records, appended_bytes, log_fences) = {
            let committer = self.committer();
            (
                committer.commit,
                committer.pending_records as u64,
                committer.log.written(),
                committer.log.fences(),
            )
        };
        let (snapshots, kept_versions) = self.snapshots().counts();
        let (log_bytes, live_bytes) = self.segments().log_bytes();
        let stores = self.stores();
        let sum = |of: fn(&StoreState) -> u64| stores.values().map(|store| of(store)).sum();
        StoresStats {
            stores: stores.len() as u64,
            keys: sum(|store| store.keys.load(Ordering::Relaxed)),
            bytes: sum(|store| store.bytes.load(Ordering::Relaxed)),
            pool_bytes: self.slab.stats().bytes,
            log_bytes,
            live_bytes,
            appended_bytes,
            pending_records,
            snapshots,
            kept_versions,
            checkpoints: self.checkpoints.load(Ordering::Relaxed),
            commit,
            log_fences,
        }
    }
}
