//! Interactive transactions: [`StoreTransaction`].
//!
//! Transactions are optimistic: they read a snapshot, keep their writes to themselves, and compare at commit
//! whether what they depend on has changed since. The committer makes comparison and commit one step.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, PoisonError};
use std::vec::IntoIter;

use crate::commit::{BatchOp, CommitCondition};
use crate::decided::DecidedBatch;
use crate::error::{Result, StoreError};
use crate::handle::StoresHandle;
use crate::key_range::KeyRange;
use crate::limits::{check_key, check_value};
use crate::loader::StoreLoader;
use crate::prepared::{PreparedTransaction, Replacement};
use crate::reads::ReadSet;
use crate::scan_iterator::Scan;
use crate::snapshot::StoreSnapshot;
use crate::store::Store;
use crate::stores::Stores;

/// The changes by others that a transaction must not miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Isolation {
    /// Transactions take effect as if one ran after the other: nothing that this one read, no range that it
    /// scanned, may have changed.
    #[default]
    Serializable,
    /// Only what it wrote may not have changed. Two transactions may each read what the other writes.
    Snapshot,
}

/// Reads and writes of several keys, in any stores of a pool, that take effect together or not at all.
/// Dropping it without [`commit`](Self::commit) discards it.
///
/// ```
/// # use halocline_store::{StoreError, Stores};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
/// let stores = Stores::open(&pool)?;
/// let store = stores.store("counters")?;
/// store.put("visits", "1")?;
/// let mut transaction = stores.begin();
/// let visits = transaction.get(&store, "visits")?;
/// assert_eq!(visits.as_deref(), Some(&b"1"[..]));
/// transaction.put(&store, "visits", "2")?;
/// store.put("visits", "7")?;
/// assert!(matches!(transaction.commit(), Err(StoreError::Conflict { .. })));
/// assert_eq!(store.get("visits")?.as_deref(), Some(&b"7"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StoreTransaction {
    stores: Arc<StoresHandle>,
    snapshot: StoreSnapshot,
    isolation: Isolation,
    /// By number, so that the order of commit is that of the stores.
    of_store: BTreeMap<u32, StoreUse>,
    replacements: Vec<Replacement>,
}

/// A key and its new value; `None` stands for a deletion.
type Write = (Vec<u8>, Option<Vec<u8>>);

/// The reads and writes of a transaction in one store.
#[derive(Debug)]
struct StoreUse {
    store: Store,
    /// `None` stands for a deletion.
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    reads: BTreeSet<Vec<u8>>,
    ranges: Vec<Arc<ScannedRange>>,
    /// True if one of the ranges is that of all keys: more reads change nothing then.
    reads_all: bool,
}

/// The range that a scan has read: all of it until the scan is dropped, which leaves out what it did not
/// reach. `None` if it has read nothing.
type ScannedRange = Mutex<Option<KeyRange>>;

impl StoreTransaction {
    pub(crate) fn new(stores: &Arc<StoresHandle>, isolation: Isolation) -> Self {
        Self {
            stores: Arc::clone(stores),
            snapshot: StoreSnapshot::new(stores),
            isolation,
            of_store: BTreeMap::new(),
            replacements: Vec::new(),
        }
    }

    fn store_use(&mut self, store: &Store) -> &mut StoreUse {
        self.of_store.entry(store.state.id).or_insert_with(|| StoreUse {
            store: store.clone(),
            writes: BTreeMap::new(),
            reads: BTreeSet::new(),
            ranges: Vec::new(),
            reads_all: false,
        })
    }

    /// Returns the value of a key: what the transaction wrote, or what it was at its beginning.
    ///
    /// # Errors
    /// As [`StoreSnapshot::get`].
    pub fn get(&mut self, store: &Store, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        let of_store = self.store_use(store);
        if let Some(written) = of_store.writes.get(key) {
            return Ok(written.clone());
        }
        if !of_store.reads_all {
            of_store.reads.insert(key.to_vec());
        }
        self.snapshot.get(store, key)
    }

    /// Makes the transaction depend on all keys of a store. Reads of it take no memory from then on.
    pub fn depend_on_all(&mut self, store: &Store) {
        let of_store = self.store_use(store);
        if !of_store.reads_all {
            of_store.reads_all = true;
            of_store.reads.clear();
            of_store.ranges = vec![Arc::new(Mutex::new(Some(KeyRange::from_bounds::<&[u8]>(&..))))];
        }
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`StoreError::KeyTooLong`], [`StoreError::ValueTooLong`].
    pub fn put(&mut self, store: &Store, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(&store.state, key)?;
        check_value(&store.state, value)?;
        self.store_use(store)
            .writes
            .insert(key.to_vec(), Some(value.to_vec()));
        Ok(())
    }

    /// Deletes a key, if it is there.
    ///
    /// # Errors
    /// [`StoreError::KeyTooLong`].
    pub fn delete(&mut self, store: &Store, key: impl AsRef<[u8]>) -> Result<()> {
        check_key(&store.state, key.as_ref())?;
        self.store_use(store).writes.insert(key.as_ref().to_vec(), None);
        Ok(())
    }

    /// Returns the pairs of a range, the writes of the transaction so far included. The transaction depends
    /// on the part of the range that the scan has read when it is dropped.
    pub fn scan<K: AsRef<[u8]>>(&mut self, store: &Store, range: impl RangeBounds<K>) -> TransactionScan {
        self.scan_range(store, KeyRange::from_bounds(&range))
    }

    /// Returns the pairs whose keys begin with a prefix, as [`scan`](Self::scan) does.
    pub fn scan_prefix(&mut self, store: &Store, prefix: impl AsRef<[u8]>) -> TransactionScan {
        self.scan_range(store, KeyRange::of_prefix(prefix.as_ref()))
    }

    fn scan_range(&mut self, store: &Store, range: KeyRange) -> TransactionScan {
        let read = Arc::new(Mutex::new(Some(range.clone())));
        let of_store = self.store_use(store);
        if !of_store.reads_all {
            of_store.ranges.push(Arc::clone(&read));
        }
        let writes: Vec<_> = if range.is_empty() {
            Vec::new()
        } else {
            let writes = of_store.writes.range::<[u8], _>(range.bounds());
            writes.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        TransactionScan {
            stored: Scan::new(self.snapshot.clone(), store, range.clone()),
            range,
            read,
            next: None,
            writes: writes.into_iter().peekable(),
        }
    }

    /// Makes all writes durable together, if nothing has changed that the transaction depends on.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if something has: nothing was written; run the transaction again. Also those
    /// of [`Stores::write`](crate::Stores::write).
    pub fn commit(mut self) -> Result<()> {
        // What only reads has read one snapshot, which is serialisable as it is.
        if !self.writes_any() {
            return Ok(());
        }
        if !self.replacements.is_empty() {
            return self.prepare()?.commit().map(drop);
        }
        let watched = self.stores.state.watch_reads(self.reads())?;
        let condition = CommitCondition::Unchanged(watched);
        let ops = self.take_ops();
        self.stores.commit(ops, Some(condition)).map(drop)
    }

    /// Makes all writes durable together with those of a transaction of the pool, if nothing has changed that
    /// this one depends on: also what it has only read, as the other one may rest on that.
    ///
    /// `decide` puts the batch into the transaction of the pool, and commits that. Both are committed if it
    /// succeeds, and neither if it fails. It must not use the stores. Until it returns, no other commit to
    /// the stores goes on.
    ///
    /// # Errors
    /// That of `decide`, and those of [`commit`](Self::commit). [`StoreError::Poisoned`] and
    /// [`StoreError::Media`] after `decide` has succeeded: the writes are in the stores when the pool is
    /// opened again.
    pub fn commit_with<E: From<StoreError>>(
        self,
        decide: impl FnOnce(&DecidedBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        self.prepare()?.commit_with(decide).map(drop)
    }

    /// Compares what the transaction depends on with all that was committed before, so that its commit, which
    /// others wait for, compares with the rest only.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if something has changed already.
    pub fn prepare(mut self) -> Result<PreparedTransaction> {
        let watched = self.stores.state.watch_reads(self.reads())?;
        let (ops, replacements) = (self.take_ops(), std::mem::take(&mut self.replacements));
        Ok(PreparedTransaction::new(self, ops, watched, replacements))
    }

    /// Begins to load a new store as [`Stores::load_sorted`] does, whose pairs the transaction sees.
    ///
    /// # Errors
    /// Those of [`Stores::load_sorted`].
    pub fn load_sorted(&self, name: &str) -> Result<StoreLoader> {
        StoreLoader::begin(&self.stores, name, Some(self.snapshot.commit()))
    }

    /// Lets a store that the transaction [has loaded](Self::load_sorted) take the place of another one when
    /// it commits; the caller drops that one afterwards. What the transaction has written to that one before
    /// is forgotten. No commit to that one comes after this one: they fail with [`StoreError::Dropped`].
    /// Snapshots of earlier commits see no pairs in the new store.
    pub fn replace(&mut self, old: &Store, new: &Store) {
        let mut before = self.replacements.iter_mut();
        if let Some(replacement) = before.find(|before| before.new.state.id == old.state.id) {
            // Nobody else has seen it.
            replacement.new = new.clone();
            self.of_store.remove(&old.state.id);
            return;
        }
        self.store_use(old).writes.clear();
        self.replacements.push(Replacement {
            old: old.clone(),
            new: new.clone(),
        });
    }

    pub(crate) fn stores(&self) -> &StoresHandle {
        &self.stores
    }

    /// Fails if anything has changed since that the transaction has read: what [`commit`](Self::commit)
    /// compares, for a transaction of a [reader](Stores::open_reader), which has nothing to commit here. Sees
    /// the newest commit, as [`Stores::refresh`] does.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if something has; [`StoreError::Stale`] if that cannot be known, because the
    /// stores were opened for writing meanwhile; those of [`Stores::refresh`].
    pub fn compare(&self) -> Result<()> {
        let reads = self.reads();
        if reads.is_empty() {
            return Ok(());
        }
        let state = &self.stores.state;
        state.refresh()?;
        state.reading(self.snapshot.commit(), || state.compare_trees(&reads, &|| Ok(())))
    }

    /// Goes on with the stores of another handle, such as one that was opened for writing since: with all
    /// that was read and written so far. Nothing may have been committed in between.
    ///
    /// # Errors
    /// [`StoreError::Stale`] if something was, [`StoreError::NoSuchStore`]; the transaction is unchanged.
    pub fn continue_on(&mut self, stores: &Stores) -> Result<()> {
        if Arc::ptr_eq(&self.stores, &stores.handle) {
            return Ok(());
        }
        let snapshot = stores.snapshot();
        if snapshot.commit() != self.snapshot.commit() {
            return Err(self.stores.state.stale());
        }
        let mut same = Vec::with_capacity(self.of_store.len());
        for of_store in self.of_store.values() {
            same.push(stores.existing(of_store.store.name())?);
        }
        for (of_store, store) in self.of_store.values_mut().zip(same) {
            of_store.store = store;
        }
        (self.stores, self.snapshot) = (Arc::clone(&stores.handle), snapshot);
        Ok(())
    }

    fn writes_any(&self) -> bool {
        self.of_store.values().any(|of_store| !of_store.writes.is_empty())
    }

    /// Takes the writes out.
    fn take_ops(&mut self) -> Vec<BatchOp> {
        let mut ops = Vec::new();
        for of_store in self.of_store.values_mut() {
            let store = &of_store.store;
            let writes = std::mem::take(&mut of_store.writes).into_iter();
            ops.extend(writes.map(|(key, value)| store.op(key, value)));
        }
        ops
    }

    /// Returns what must not have changed since the transaction began.
    fn reads(&self) -> ReadSet {
        let mut reads = ReadSet::new(self.snapshot.commit());
        let is_own = |id: &u32| self.replacements.iter().any(|own| own.new.state.id == *id);
        for (id, of_store) in &self.of_store {
            // Nobody else writes to a store that is not in its place yet.
            if is_own(id) {
                continue;
            }
            let keys = of_store.writes.keys();
            let (keys, ranges) = match self.isolation {
                Isolation::Snapshot => (keys.cloned().collect(), Vec::new()),
                Isolation::Serializable => {
                    let keys: BTreeSet<&Vec<u8>> = keys.chain(&of_store.reads).collect();
                    let read = |range: &Arc<ScannedRange>| {
                        range.lock().unwrap_or_else(PoisonError::into_inner).clone()
                    };
                    let ranges = of_store.ranges.iter().filter_map(read).collect();
                    (keys.into_iter().cloned().collect(), ranges)
                }
            };
            reads.add(&of_store.store.state, keys, ranges);
        }
        reads
    }
}

/// An iterator over the pairs of a range as a transaction sees them, in the order of the keys.
#[derive(Debug)]
pub struct TransactionScan {
    stored: Scan,
    range: KeyRange,
    /// The range that the transaction depends on.
    read: Arc<ScannedRange>,
    /// A pair of `stored` that comes after the next write.
    next: Option<(Vec<u8>, Vec<u8>)>,
    writes: Peekable<IntoIter<Write>>,
}

impl Drop for TransactionScan {
    fn drop(&mut self) {
        let range = match self.stored.rest() {
            Some(rest) => self.range.before(rest),
            None => Some(self.range.clone()),
        };
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = range;
    }
}

impl Iterator for TransactionScan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.next.is_none() {
                match self.stored.next() {
                    Some(Ok(pair)) => self.next = Some(pair),
                    Some(Err(error)) => return Some(Err(error)),
                    None => {}
                }
            }
            let stored = self.next.as_ref().map(|(key, _)| key);
            let is_first = |written: &Write| stored.is_none_or(|stored| written.0 <= *stored);
            match self.writes.next_if(is_first) {
                Some((key, value)) => {
                    if Some(&key) == stored {
                        self.next = None;
                    }
                    if let Some(value) = value {
                        return Some(Ok((key, value)));
                    }
                }
                None => return self.next.take().map(Ok),
            }
        }
    }
}
