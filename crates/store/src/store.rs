//! One store: [`Store`].

use std::ops::RangeBounds;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::batch::WriteBatch;
use crate::commit::{BatchOp, CommitCondition, Outcome};
use crate::error::Result;
use crate::handle::StoresHandle;
use crate::key_range::KeyRange;
use crate::options::MergeOperator;
use crate::pair::{StoreLookup, StorePair, from_millis};
use crate::record::RecordRef;
use crate::scan_iterator::Scan;
use crate::snapshot::StoreSnapshot;
use crate::state::StoreState;

/// An ordered map from keys to values, both byte strings. Cheap to clone; threads may share it.
///
/// A write that has returned is durable. Keys have up to [`MAX_KEY`](crate::MAX_KEY) bytes, values up to
/// [`MAX_VALUE`](crate::MAX_VALUE).
#[derive(Clone)]
pub struct Store {
    pub(crate) stores: Arc<StoresHandle>,
    pub(crate) state: Arc<StoreState>,
}

impl Store {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Returns the number of keys, those that expired and were not reclaimed included. O(1), but right after
    /// an opening after a crash, waits until the keys that were written since the last checkpoint are
    /// counted: about one leaf and one record are read for each. If one of these is damaged, keys that were
    /// replaced may count twice, and checkpoints fail with [`Damaged`](crate::StoreError::Damaged).
    pub fn len(&self) -> u64 {
        self.stores.state.settle_counters();
        self.state.keys.load(Ordering::Relaxed)
    }

    /// Returns true if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of all keys and values, as [`len`](Self::len) does.
    pub fn bytes(&self) -> u64 {
        self.stores.state.settle_counters();
        self.state.bytes.load(Ordering::Relaxed)
    }

    /// Sets the operator for [`merge`](Self::merge), for all handles to the store until it is closed.
    #[must_use]
    pub fn with_merge(
        self,
        operator: impl Fn(&[u8], Option<&[u8]>, &[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let operator: MergeOperator = Arc::new(operator);
        *self.state.merge.lock().unwrap_or_else(PoisonError::into_inner) = Some(operator);
        self
    }

    /// Returns the value of a key. O(log keys): about one line of a leaf, one entry and the record are read
    /// from the slow tier.
    ///
    /// # Errors
    /// [`Dropped`](crate::StoreError::Dropped), [`Damaged`](crate::StoreError::Damaged).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.value_of(key.as_ref())
    }

    /// Returns the value of a key. Not generic, so that the look-up is compiled, and inlined, in this crate.
    fn value_of(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.find(key, |record| self.stores.state.value_of(record))
    }

    /// Returns the pair of a key: its value, and the time at which it expires.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_pair(&self, key: impl AsRef<[u8]>) -> Result<Option<StorePair>> {
        let stores = &self.stores.state;
        self.find(key.as_ref(), |record| {
            let value = stores.value_of(record)?;
            Ok(value.map(|value| StorePair {
                key: key.as_ref().to_vec(),
                value,
                expires: record.expires(stores.medium()).map(from_millis),
            }))
        })
    }

    /// Looks a key up, and tells a key that has expired from one that is not there.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn look_up(&self, key: impl AsRef<[u8]>) -> Result<StoreLookup> {
        let stores = &self.stores.state;
        let found = self.find(key.as_ref(), |record| {
            let expires = record.expires(stores.medium());
            let value = stores.value_of(record)?;
            Ok(match value {
                Some(value) => Some(StoreLookup::Found(StorePair {
                    key: key.as_ref().to_vec(),
                    value,
                    expires: expires.map(from_millis),
                })),
                None if record.is_deleted() => None,
                None => Some(StoreLookup::Expired),
            })
        })?;
        Ok(found.unwrap_or(StoreLookup::Missing))
    }

    /// Calls `read` with the newest record of a key that this handle sees, while the tree is locked.
    #[inline]
    fn find<T>(&self, key: &[u8], read: impl Fn(&RecordRef) -> Result<Option<T>>) -> Result<Option<T>> {
        let stores = &self.stores.state;
        match stores.observer {
            None => stores.find(&self.state, key, u64::MAX, read),
            // A refresh could unpin the commit meanwhile.
            Some(_) => {
                let snapshot = StoreSnapshot::new(&self.stores);
                stores.find(&self.state, key, snapshot.commit(), read)
            }
        }
    }

    /// Returns true if a key has a value.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`KeyTooLong`](crate::StoreError::KeyTooLong), [`ValueTooLong`](crate::StoreError::ValueTooLong), and
    /// those of [`Stores::write`](crate::Stores::write).
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(self, key, value)?;
        self.write(batch)
    }

    /// Sets the value of a key, which expires after `ttl`: then it is not returned any more, and its space is
    /// used again.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_with_ttl(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Duration) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put_with_ttl(self, key, value, ttl)?;
        self.write(batch)
    }

    /// Deletes a key, if it is there.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(self, key)?;
        self.write(batch)
    }

    /// Deletes all keys of a range at once. O(keys in the range).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range(self, range)?;
        self.write(batch)
    }

    /// Replaces the value of a key by what the [merge operator](Self::with_merge) makes of it and the
    /// operand, as one step.
    ///
    /// # Errors
    /// [`NoMergeOperator`](crate::StoreError::NoMergeOperator), and those of [`put`](Self::put).
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.merge(self, key, operand)?;
        self.write(batch)
    }

    /// Replaces the value of a key if it is `expected`, where `None` stands for no value. Returns true if it
    /// was.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool> {
        let mut batch = WriteBatch::new();
        match value {
            Some(value) => batch.put(self, key.as_ref(), value)?,
            None => batch.delete(self, key.as_ref())?,
        }
        let condition = CommitCondition::Value {
            store: Arc::clone(&self.state),
            key: key.as_ref().to_vec(),
            expected: expected.map(<[u8]>::to_vec),
        };
        Ok(self.stores.commit(batch.ops, Some(condition))? == Outcome::Committed)
    }

    /// Returns the pairs of a range as of now, in the order of the keys; from the end with
    /// [`rev`](Iterator::rev). Later writes do not change what it returns.
    ///
    /// ```
    /// # use halocline_store::Stores;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
    /// # let store = Stores::open(&pool)?.store("numbers")?;
    /// for number in 0..10 {
    ///     store.put(format!("{number:02}"), "")?;
    /// }
    /// let keys: Result<Vec<_>, _> = store.scan("03".."06").map(|pair| pair.map(|(key, _)| key)).collect();
    /// assert_eq!(keys?, [b"03", b"04", b"05"]);
    /// let (last, _) = store.scan::<&str>(..).next_back().unwrap()?;
    /// assert_eq!(last, b"09");
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        Scan::new(
            StoreSnapshot::new(&self.stores),
            self,
            KeyRange::from_bounds(&range),
        )
    }

    /// Returns the pairs whose keys begin with a prefix, as [`scan`](Self::scan) does.
    pub fn scan_prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        Scan::new(
            StoreSnapshot::new(&self.stores),
            self,
            KeyRange::of_prefix(prefix.as_ref()),
        )
    }

    fn write(&self, batch: WriteBatch) -> Result<()> {
        self.stores.commit(batch.ops, None).map(|_| ())
    }

    pub(crate) fn op(&self, key: Vec<u8>, value: Option<Vec<u8>>) -> BatchOp {
        let store = Arc::clone(&self.state);
        match value {
            Some(value) => BatchOp::Put {
                store,
                key,
                value,
                expires: None,
            },
            None => BatchOp::Delete { store, key },
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("name", &self.state.name)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
