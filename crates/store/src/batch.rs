//! Batches of writes: [`WriteBatch`].

use std::ops::RangeBounds;
use std::time::{Duration, SystemTime};

use crate::commit::BatchOp;
use crate::error::Result;
use crate::key_range::KeyRange;
use crate::limits::{check_key, check_value};
use crate::pair::to_millis;
use crate::store::Store;

/// Writes to any stores of one pool that take effect together: after a crash all of them or none.
///
/// ```
/// # use halocline_store::{Stores, WriteBatch};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
/// # let stores = Stores::open(&pool)?;
/// let (accounts, log) = (stores.store("accounts")?, stores.store("log")?);
/// let mut batch = WriteBatch::new();
/// batch.put(&accounts, "ada", "90")?;
/// batch.put(&accounts, "bob", "110")?;
/// batch.put(&log, "0001", "ada pays bob 10")?;
/// stores.write(batch)?;
/// assert_eq!(accounts.get("bob")?.as_deref(), Some(&b"110"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Default, Clone)]
pub struct WriteBatch {
    pub(crate) ops: Vec<BatchOp>,
    pub(crate) uses_reserve: bool,
}

impl WriteBatch {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the batch take the segments that are kept for deletions and checkpoints when the disk is full:
    /// for the few bytes without which an application cannot start, or cannot delete anything.
    pub fn use_reserve(&mut self) {
        self.uses_reserve = true;
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Returns true if there are no operations.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Sets the value of a key. Of several operations on a key the last one counts.
    ///
    /// # Errors
    /// [`KeyTooLong`](crate::StoreError::KeyTooLong), [`ValueTooLong`](crate::StoreError::ValueTooLong).
    pub fn put(&mut self, store: &Store, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.push_put(store, key.as_ref(), value.as_ref(), None)
    }

    /// Sets the value of a key, which expires after `ttl`.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_with_ttl(
        &mut self,
        store: &Store,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let expires = store.stores.state.now().saturating_add(ttl);
        self.push_put(store, key.as_ref(), value.as_ref(), Some(expires))
    }

    /// Sets the value of a key, which expires at a time, rounded down to milliseconds.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_until(
        &mut self,
        store: &Store,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: SystemTime,
    ) -> Result<()> {
        self.push_put(store, key.as_ref(), value.as_ref(), Some(to_millis(expires)))
    }

    fn push_put(&mut self, store: &Store, key: &[u8], value: &[u8], expires: Option<u64>) -> Result<()> {
        check_key(&store.state, key)?;
        check_value(&store.state, value)?;
        self.ops.push(BatchOp::Put {
            store: store.state.clone(),
            key: key.to_vec(),
            value: value.to_vec(),
            expires,
        });
        Ok(())
    }

    /// Deletes a key, if it is there.
    ///
    /// # Errors
    /// [`KeyTooLong`](crate::StoreError::KeyTooLong).
    pub fn delete(&mut self, store: &Store, key: impl AsRef<[u8]>) -> Result<()> {
        check_key(&store.state, key.as_ref())?;
        self.ops.push(BatchOp::Delete {
            store: store.state.clone(),
            key: key.as_ref().to_vec(),
        });
        Ok(())
    }

    /// Deletes all keys of a range. O(keys in the range).
    ///
    /// # Errors
    /// [`KeyTooLong`](crate::StoreError::KeyTooLong).
    pub fn delete_range<K: AsRef<[u8]>>(&mut self, store: &Store, range: impl RangeBounds<K>) -> Result<()> {
        self.ops.push(BatchOp::DeleteRange {
            store: store.state.clone(),
            range: KeyRange::from_bounds(&range),
        });
        Ok(())
    }

    /// Replaces the value of a key by what the store's merge operator makes of it and the operand.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn merge(&mut self, store: &Store, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        check_key(&store.state, key.as_ref())?;
        check_value(&store.state, operand.as_ref())?;
        self.ops.push(BatchOp::Merge {
            store: store.state.clone(),
            key: key.as_ref().to_vec(),
            operand: operand.as_ref().to_vec(),
        });
        Ok(())
    }
}

impl std::fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBatch")
            .field("len", &self.ops.len())
            .finish_non_exhaustive()
    }
}
