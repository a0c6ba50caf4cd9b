//! Logs in a transaction: appending to those of its base generation, naming empty ones for the next.
//!
//! Invariant: a generation that is published names no log with records in it. An extent that holds records of the base
//! is not the next generation's log; one that holds none may be, under another start (see [`crate::log`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use halocline_media::Medium;

use crate::PoolError;
use crate::directory::{ExtentRef, ObjectKind, Objects, Record};
use crate::layout::{BLOCK, RECORD_OVERHEAD};
use crate::log::{Log, LogRecords};
use crate::mistake::{Mistake, made};
use crate::snapshot::log_of;
use crate::txn::{State, Txn, check_name};

impl<M: Medium> Txn<M> {
    /// Names a log without records in the generation that this transaction will publish, with room for `capacity` bytes
    /// of records and their overhead of 16 to 23 bytes each. Creates it, or replaces the object of this name: what a log
    /// there holds must be put into other objects before. If it is a log that holds nothing and is large enough, it stays
    /// as it is, and there is nothing to publish.
    ///
    /// # Errors
    /// [`PoolError::InvalidName`], [`PoolError::NameTooLong`], [`PoolError::DiskFull`], [`PoolError::Media`],
    /// [`PoolError::SlabInUse`] if it would replace a slab that is open; the transaction stays as it was.
    pub fn put_log(&self, name: &str, capacity: u64) -> Result<(), PoolError> {
        check_name(name)?;
        let capacity =
            capacity
                .max(1)
                .checked_next_multiple_of(BLOCK)
                .ok_or_else(|| PoolError::DiskFull {
                    path: self.inner.path.to_path_buf(),
                    wanted: capacity,
                })?;
        let reusable = |objects: &Objects| {
            let record = objects.get(name)?;
            let log = Log::of(self.medium(), record)?;
            let empty = made(Mistake::KeepFullLog) || !self.base_has_records(&record.extents[0]);
            (log.capacity() >= capacity && empty).then(|| Arc::clone(record))
        };
        let mut state = self.state();
        self.lock_slab(&mut state, name)?;
        if reusable(&state.objects).is_some() {
            return Ok(());
        }
        let record = match reusable(&self.base().directory().objects) {
            Some(record) => record,
            None => {
                drop(state);
                let offset = self.reserve(capacity)?;
                // The start of an empty log, which the first append would have to clear; a crash may undo it.
                self.inner.medium.store_u64(offset, 0);
                state = self.state();
                Arc::new(Record::log(ExtentRef {
                    offset,
                    len: capacity,
                    checksum: 0,
                }))
            }
        };
        let name: Arc<str> = name.into();
        Arc::make_mut(&mut state.objects).insert(Arc::clone(&name), record);
        state.changed.insert(name);
        Ok(())
    }

    /// Appends a record to a log of the base generation; returns the position behind it. When this returns, the record is
    /// as durable as a publish would be, and snapshots of the base generation see it; whether the transaction is then
    /// committed or dropped is all the same. One fence, whatever the size of the pool.
    ///
    /// # Errors
    /// [`PoolError::LogFull`]: fold the log and name an empty one. [`PoolError::NoSuchObject`], [`PoolError::NotALog`],
    /// [`PoolError::Media`]: whether the record is there may be unknown until the pool is opened again.
    pub fn log_append(&self, name: &str, record: &[u8]) -> Result<u64, PoolError> {
        let end = self.log_store(name, record)?;
        self.base().log_persist(name, end)?;
        Ok(end)
    }

    /// The first half of [`log_append`](Txn::log_append): the record is seen by others, and survives the end of the
    /// process, but not yet what the medium's fences are for. [`Snapshot::log_persist`](crate::Snapshot::log_persist), with
    /// the position that this returns, makes it durable, for several transactions at once: it needs no transaction, so the
    /// next one can store its record meanwhile.
    ///
    /// # Errors
    /// As [`log_append`](Txn::log_append).
    pub fn log_store(&self, name: &str, record: &[u8]) -> Result<u64, PoolError> {
        let base = self.base();
        let log = log_of(base, name)?;
        match log.store(record, self.inner.salt) {
            Ok(Some(end)) => {
                if !self.inner.medium.fence_is_durable() {
                    self.inner.unsynced_log.store(true, Ordering::Release);
                }
                Ok(end)
            }
            Ok(None) => Err(PoolError::LogFull {
                path: self.inner.path.to_path_buf(),
                name: name.to_owned(),
                wanted: (record.len() as u64).next_multiple_of(8) + RECORD_OVERHEAD,
                free: log.capacity() - log.end(),
                capacity: log.capacity(),
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// All records of a log of the base generation from a position on, those that this transaction has appended included:
    /// what has to be folded. Linear in the bytes of these records.
    ///
    /// # Errors
    /// As [`Snapshot::log_records`](crate::Snapshot::log_records).
    pub fn log_records(&self, name: &str, from: u64) -> Result<LogRecords, PoolError> {
        self.base().log_records(name, from)
    }

    /// Gives every log of the next generation its start.
    ///
    /// # Errors
    /// [`PoolError::LogNotFolded`] if one of them holds records of the base.
    pub(crate) fn start_logs(&self, state: &mut State) -> Result<(), PoolError> {
        if state.only_slab {
            return Ok(());
        }
        let logs = state
            .objects
            .iter()
            .filter(|(_, record)| record.kind == ObjectKind::LOG);
        let logs: Vec<(Arc<str>, ExtentRef)> = logs
            .map(|(name, record)| (Arc::clone(name), record.extents[0]))
            .collect();
        for (name, extent) in logs {
            if self.base_has_records(&extent) && !made(Mistake::KeepFullLog) {
                return Err(PoolError::LogNotFolded {
                    path: self.inner.path.to_path_buf(),
                    name: name.to_string(),
                });
            }
            let checksum = match made(Mistake::KeepLogStart) {
                true => extent.checksum,
                false => self.inner.draw(),
            };
            let record = Record::log(ExtentRef { checksum, ..extent });
            Arc::make_mut(&mut state.objects).insert(Arc::clone(&name), Arc::new(record));
            state.changed.insert(name);
        }
        Ok(())
    }

    /// Whether the extent is that of a log of the base generation in which records are.
    fn base_has_records(&self, extent: &ExtentRef) -> bool {
        let mut logs = self.base().directory().objects.values();
        logs.any(|record| {
            Log::of(self.medium(), record)
                .is_some_and(|log| record.extents[0].offset == extent.offset && log.end() > 0)
        })
    }
}
