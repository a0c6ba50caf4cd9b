//! Logs in a transaction: appending to those of its base generation, creating empty ones for the next.
//!
//! Invariants: a published generation's log contains the records that it was created with. An extent that
//! holds records of the base does not become the next generation's log. One without records may, under
//! another start (see [`crate::log`]), unless that overwrites the count of a generation that is being read or
//! that power loss may bring back. Nothing is published in place of a damaged log.
//!
//! Storing a record and making it durable are two calls (`log_store`, `log_persist`). The second needs no
//! transaction, and one of its concurrent callers flushes and fences for all. Between the two, a record is
//! visible, and after a crash it is either present or lost together with all records stored after it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Txn, check_name};
use crate::PoolError;
use crate::directory::{ObjectMap, ObjectRecord};
use crate::fault::{PoolFault, injected};
use crate::layout::{BLOCK, LOG_COUNTS, RECORD_ALIGN, RECORD_OVERHEAD};
use crate::log::{LogRecords, PinnedLog};
use crate::log_count::LogCounts;
use crate::object::{ExtentRef, ObjectKind};
use crate::snapshot::log_of;

impl Txn {
    /// Creates an empty log in the generation that this transaction will publish, or replaces the object of
    /// this name. Its `capacity` is in bytes, rounded up to whole blocks of 4 KiB; 128 of them hold its
    /// count, the others records with an overhead of 16 to 23 bytes each. The contents of a replaced log
    /// must be put into other objects first. A log that is empty and large enough stays unchanged, and
    /// there is nothing to publish.
    ///
    /// # Errors
    /// [`PoolError::InvalidName`], [`PoolError::NameTooLong`], [`PoolError::DiskFull`], [`PoolError::Media`],
    /// [`PoolError::SlabInUse`] if it would replace an open slab, [`PoolError::DamagedLog`] if it would
    /// replace a damaged log. The transaction is unchanged.
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
        let reusable = |objects: &ObjectMap| {
            let Some((record, log)) = objects.get(name).and_then(|record| {
                Some((
                    record,
                    PinnedLog::from_record(self.medium(), record, self.inner.boot_tag())?,
                ))
            }) else {
                return Ok(None);
            };
            let empty = injected(PoolFault::KeepFullLog) || !self.base_has_records(&record.extents[0])?;
            Ok::<_, PoolError>((log.capacity() >= capacity && empty).then(|| Arc::clone(record)))
        };
        let mut state = self.state();
        self.lock_slab(&mut state, name)?;
        if reusable(&state.objects)?.is_some() {
            return Ok(());
        }
        let record = match reusable(&self.base().directory().objects)? {
            Some(record) => record,
            None => {
                drop(state);
                let extent = self.new_log(capacity)?;
                state = self.state();
                Arc::new(ObjectRecord::log(extent))
            }
        };
        let name: Arc<str> = name.into();
        Arc::make_mut(&mut state.objects).insert(Arc::clone(&name), record);
        state.changed.insert(name);
        Ok(())
    }

    /// Creates a log like [`put_log`](Txn::put_log) that begins with these records: the part of the previous
    /// log that no other object can take in yet. The log is at least as large as they need. Costs one
    /// more fence than an empty log, and a new extent each time.
    ///
    /// # Errors
    /// Fails like [`put_log`](Txn::put_log).
    pub fn put_log_with(&self, name: &str, capacity: u64, records: Vec<Vec<u8>>) -> Result<(), PoolError> {
        if records.is_empty() {
            return self.put_log(name, capacity);
        }
        check_name(name)?;
        let needed: u64 = records
            .iter()
            .map(|record| (record.len() as u64).next_multiple_of(RECORD_ALIGN) + RECORD_OVERHEAD)
            .sum();
        let len = (capacity.max(LOG_COUNTS).checked_add(needed))
            .and_then(|len| len.checked_next_multiple_of(BLOCK))
            .ok_or_else(|| PoolError::DiskFull {
                path: self.inner.path.to_path_buf(),
                wanted: capacity,
            })?;
        let mut state = self.state();
        self.lock_slab(&mut state, name)?;
        drop(state);
        let extent = self.new_log(len)?;
        let mut state = self.state();
        let name: Arc<str> = name.into();
        Arc::make_mut(&mut state.objects).insert(Arc::clone(&name), Arc::new(ObjectRecord::log(extent)));
        state.changed.insert(name);
        state.first_records.insert(extent.offset, records);
        Ok(())
    }

    /// Appends a record to a log of the base generation; returns the position after it. When this returns,
    /// the record is as durable as a publish would be, and snapshots of the base generation see it, no
    /// matter whether the transaction is then committed or dropped. One fence, independent of the size of
    /// the pool.
    ///
    /// # Errors
    /// [`PoolError::LogFull`]: fold the log and create an empty one. [`PoolError::NoSuchObject`],
    /// [`PoolError::NotALog`], [`PoolError::DamagedLog`]: nothing is stored. [`PoolError::Media`]: whether
    /// the record is present may be unknown until the pool is opened again.
    pub fn log_append(&self, name: &str, record: &[u8]) -> Result<u64, PoolError> {
        let end = self.log_store(name, record)?;
        self.base().log_persist(name, end)?;
        Ok(end)
    }

    /// Performs the first half of [`log_append`](Txn::log_append): the record is visible and survives the end
    /// of the process, but not what the medium's fences protect against.
    /// [`Snapshot::log_persist`](crate::Snapshot::log_persist) with the returned position makes it durable,
    /// for several transactions at once. It needs no transaction, so the next one can store its record
    /// meanwhile.
    ///
    /// # Errors
    /// Fails like [`log_append`](Txn::log_append).
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
                free: log.room() - log.verified().end,
                capacity: log.room(),
            }),
            Err(fault) => Err(fault.into_error(&self.inner.path, name)),
        }
    }

    /// Returns all records of a log of the base generation from a position on, including those that this
    /// transaction has appended: the records to fold. Linear in the bytes of these records.
    ///
    /// # Errors
    /// Fails like [`Snapshot::log_records`](crate::Snapshot::log_records).
    pub fn log_records(&self, name: &str, from: u64) -> Result<LogRecords, PoolError> {
        self.base().log_records(name, from)
    }

    /// Assigns every log of the next generation its start and its count.
    ///
    /// # Errors
    /// [`PoolError::LogNotFolded`] if one of them holds records of the base, [`PoolError::DamagedLog`] if
    /// these are damaged, [`PoolError::DiskFull`].
    pub(crate) fn start_logs(&self) -> Result<(), PoolError> {
        let state = self.state();
        // Records never concern slabs, so a publish that only creates, extends or removes slabs keeps them.
        let base = &self.base().directory().objects;
        let is_slab = |name: &Arc<str>| {
            let mut records = [base.get(name), state.objects.get(name)].into_iter().flatten();
            records.all(|record| record.kind == ObjectKind::SLAB)
        };
        if state.keeps_logs || state.changed.iter().all(is_slab) {
            return Ok(());
        }
        let logs: Vec<(Arc<str>, ExtentRef)> = state
            .objects
            .iter()
            .filter(|(_, record)| record.kind == ObjectKind::LOG)
            .map(|(name, record)| (Arc::clone(name), record.extents[0]))
            .collect();
        drop(state);
        for (name, mut extent) in logs {
            if self.base_has_records(&extent)? && !injected(PoolFault::KeepFullLog) {
                return Err(PoolError::LogNotFolded {
                    path: self.inner.path.to_path_buf(),
                    name: name.to_string(),
                });
            }
            let boot = self.inner.boot_tag();
            let mut before = self
                .base_log(&extent)
                .and_then(|record| PinnedLog::from_record(self.medium(), record, boot));
            if let Some(counts) = before.as_ref().and_then(PinnedLog::counts)
                && !self.may_restart(counts)?
            {
                extent = self.new_log(extent.len)?;
                before = None;
            }
            if !injected(PoolFault::KeepLogStart) {
                extent.checksum = self.inner.draw();
            }
            let counts = LogCounts::new(self.medium(), &extent, boot);
            counts.create(before.as_ref().and_then(PinnedLog::counts));
            let record = Arc::new(ObjectRecord::log(extent));
            let mut state = self.state();
            let first = state.first_records.remove(&extent.offset).unwrap_or_default();
            Arc::make_mut(&mut state.objects).insert(Arc::clone(&name), Arc::clone(&record));
            state.changed.insert(Arc::clone(&name));
            drop(state);
            self.store_first(&name, &record, &first)?;
            counts.flush();
        }
        Ok(())
    }

    /// Stores the first records of a log of the next generation; the fence before the publish makes them
    /// durable.
    fn store_first(&self, name: &str, record: &ObjectRecord, first: &[Vec<u8>]) -> Result<(), PoolError> {
        let Some(log) = PinnedLog::from_record(self.medium(), record, self.inner.boot_tag())
            .filter(|_| !first.is_empty())
        else {
            return Ok(());
        };
        let mut end = 0;
        for bytes in first {
            let stored = log.store(bytes, self.inner.salt);
            end = match stored.map_err(|fault| fault.into_error(&self.inner.path, name))? {
                Some(end) => end,
                None => {
                    return Err(PoolError::LogFull {
                        path: self.inner.path.to_path_buf(),
                        name: name.to_owned(),
                        wanted: (bytes.len() as u64).next_multiple_of(RECORD_ALIGN) + RECORD_OVERHEAD,
                        free: log.room() - end,
                        capacity: log.room(),
                    });
                }
            };
        }
        log.flush_first(end);
        Ok(())
    }

    /// Returns true if a log of the base can be reused under another start: the count that this would
    /// overwrite, if any, belongs to a generation that nobody reads and that no crash can bring back.
    fn may_restart(&self, counts: &LogCounts<'_>) -> Result<bool, PoolError> {
        if counts.has_room() || injected(PoolFault::RestartPinnedLog) {
            return Ok(true);
        }
        let (inner, base) = (&self.inner, self.base_generation());
        let settled = inner.medium.fence_is_durable() || inner.known_synced.load(Ordering::Acquire) >= base;
        Ok(settled && inner.access.pinned_before(base)?.is_empty())
    }

    /// Allocates a log that is empty whatever its start.
    fn new_log(&self, len: u64) -> Result<ExtentRef, PoolError> {
        let len = len.max(LOG_COUNTS);
        Ok(self.empty_log(self.reserve(len)?, len))
    }

    /// Creates an empty log in reserved space, without a start.
    pub(crate) fn empty_log(&self, offset: u64, len: u64) -> ExtentRef {
        // Clear the beginning now; otherwise the first append would have to. A crash may undo it.
        self.inner.medium.store_u64(offset, 0);
        ExtentRef::plain(offset, len, 0)
    }

    /// Returns the log of the base generation in this extent.
    fn base_log(&self, extent: &ExtentRef) -> Option<&Arc<ObjectRecord>> {
        self.base()
            .directory()
            .objects
            .values()
            .find(|record| record.kind == ObjectKind::LOG && record.extents[0].offset == extent.offset)
    }

    /// Returns true if the extent is a log of the base generation that holds records.
    ///
    /// # Errors
    /// [`PoolError::DamagedLog`] if records are missing.
    fn base_has_records(&self, extent: &ExtentRef) -> Result<bool, PoolError> {
        let boot = self.inner.boot_tag();
        for (name, record) in self.base().directory().objects.iter() {
            if let Some(log) = PinnedLog::from_record(self.medium(), record, boot)
                && record.extents[0].offset == extent.offset
            {
                let end = log
                    .end()
                    .map_err(|damage| damage.into_error(&self.inner.path, name))?;
                return Ok(end > 0);
            }
        }
        Ok(false)
    }
}
