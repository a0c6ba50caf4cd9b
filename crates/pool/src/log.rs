//! Logs: extents that are appended to, record by record, while their generation is the newest.
//!
//! Invariants: a record's checksum is seeded by the checksum of the record before it and by the *start* of
//! its log, a number drawn anew by every publish. So a log ends at the first record that does not verify, and
//! bytes that were appended under another start, or after a record that no longer exists, are never mistaken
//! for its records.
//!
//! The [count](crate::log_count) at the end of the extent is a lower bound of the number of records. A log
//! with fewer is damaged, and is neither read, appended to nor folded. Logs of older versions of the format
//! have no count; damage ends them.
//!
//! Verified records are never changed while the log's generation is the newest or anyone reads it. A log may
//! be read while it is appended to, so its bytes are only copied, never borrowed.

use std::mem::size_of;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use halocline_media::{MediaError, Medium};
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::little_endian::U32;
use zerocopy::{FromZeros, IntoBytes};

use crate::PoolError;
use crate::directory::ObjectRecord;
use crate::fault::{PoolFault, injected};
use crate::layout::{LOG_COUNTS, RECORD_ALIGN, RECORD_OVERHEAD, RecordHeader};
use crate::log_count::{CountBound, LogCounts, LogDamage, MAX_END, RecordCount, has_count};
use crate::object::{ExtentRef, ObjectKind};

/// Bytes of the checksum that ends each record.
const SUM: u64 = 8;

/// The records of a log from a position on, as returned by
/// [`Snapshot::log_records`](crate::Snapshot::log_records).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogRecords {
    /// The records, in the order in which they were appended.
    pub records: Vec<Box<[u8]>>,
    /// The position after the last record, from which the next call finds what was appended since.
    pub end: u64,
}

/// Volatile state of a log in one handle.
#[derive(Debug, Default)]
pub(crate) struct LogTail {
    /// The records that have been verified.
    verified: Mutex<RecordCount>,
    /// Held while a record is stored.
    storing: Mutex<()>,
    persisted: Mutex<PersistState>,
    /// Notified after each fence.
    fenced: Condvar,
}

/// The part of a log that this handle has made durable.
#[derive(Debug, Default)]
struct PersistState {
    end: u64,
    /// True while a thread flushes and fences for all waiting ones.
    led: bool,
}

impl LogDamage {
    /// Converts the damage to an error of the named log.
    pub(crate) fn into_error(self, path: &Path, name: &str) -> PoolError {
        PoolError::DamagedLog {
            path: path.to_owned(),
            name: name.to_owned(),
            damage: self,
        }
    }
}

/// The reason why a log cannot be read or appended to.
#[derive(Debug)]
pub(crate) enum LogFault {
    Damaged(LogDamage),
    Media(MediaError),
}

impl LogFault {
    /// Converts the fault to an error of the named log.
    pub(crate) fn into_error(self, path: &Path, name: &str) -> PoolError {
        match self {
            LogFault::Damaged(damage) => damage.into_error(path, name),
            LogFault::Media(error) => error.into(),
        }
    }
}

impl From<LogDamage> for LogFault {
    fn from(damage: LogDamage) -> LogFault {
        LogFault::Damaged(damage)
    }
}

impl From<MediaError> for LogFault {
    fn from(error: MediaError) -> LogFault {
        LogFault::Media(error)
    }
}

/// The result of reading a whole log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogExamination {
    /// Its records, up to the first damaged one.
    pub(crate) found: RecordCount,
    /// Number of records that the durable count covers.
    pub(crate) counted: u64,
    /// The first damaged record.
    pub(crate) damage: Option<LogDamage>,
    /// True if a word of the count is damaged.
    pub(crate) count_damaged: bool,
}

/// A log of a pinned generation.
pub(crate) struct PinnedLog<'a> {
    medium: &'a Medium,
    extent: ExtentRef,
    tail: &'a LogTail,
    counts: Option<LogCounts<'a>>,
}

/// A record as read from the log.
struct ParsedRecord {
    end: u64,
    sum: u64,
    verifies: bool,
}

impl<'a> PinnedLog<'a> {
    /// Returns the log that an object record describes, or `None` if it is not a log; `boot` identifies this
    /// boot.
    pub(crate) fn from_record(
        medium: &'a Medium,
        record: &'a ObjectRecord,
        boot: u64,
    ) -> Option<PinnedLog<'a>> {
        let (ObjectKind::LOG, [extent]) = (record.kind, &*record.extents) else {
            return None;
        };
        let counted = has_count(&record.meta);
        Some(PinnedLog {
            medium,
            extent: *extent,
            tail: &record.tail,
            counts: counted.then(|| LogCounts::new(medium, extent, boot)),
        })
    }

    /// Returns the bytes of its extent.
    pub(crate) fn capacity(&self) -> u64 {
        self.extent.len
    }

    /// Returns the bytes that are available to records.
    pub(crate) fn room(&self) -> u64 {
        match self.counts {
            Some(_) => (self.extent.len - LOG_COUNTS).min(MAX_END),
            None => self.extent.len,
        }
    }

    /// Returns its counts, if it has them.
    pub(crate) fn counts(&self) -> Option<&LogCounts<'a>> {
        self.counts.as_ref()
    }

    /// Returns the records that have been verified.
    pub(crate) fn verified(&self) -> RecordCount {
        *self.tail.lock_verified()
    }

    /// Returns the end of the last record. Costs one read past the end found last, and one read of the
    /// count.
    ///
    /// # Errors
    /// A record is damaged.
    pub(crate) fn end(&self) -> Result<u64, LogDamage> {
        let verified = self.verified().end;
        self.scan_counted(verified, |_| ())
    }

    /// Returns all complete records from a position on, or `None` if no record ends there.
    ///
    /// # Errors
    /// A record before or after the position is damaged.
    pub(crate) fn records(&self, from: u64) -> Result<Option<LogRecords>, LogDamage> {
        let mut least = self.verified().end;
        if from != least {
            least = self.end()?;
        }
        if from > least || !from.is_multiple_of(RECORD_ALIGN) {
            return Ok(None);
        }
        let mut records = Vec::new();
        let end = if from == least {
            self.scan_counted(from, |record| records.push(record.into()))?
        } else {
            self.scan(from, |record| records.push(record.into()))
        };
        // If `from` lies within a record, nothing verifies there and `least` is not reached.
        Ok((end >= least).then_some(LogRecords { records, end }))
    }

    /// Stores a record after the others, visible but not durable. Returns the new end, or `None` if there is
    /// no room.
    ///
    /// # Errors
    /// A record is damaged (nothing is stored), or the medium fails.
    pub(crate) fn store(&self, record: &[u8], salt: u32) -> Result<Option<u64>, LogFault> {
        let _one_at_a_time = self.tail.storing.lock().unwrap_or_else(PoisonError::into_inner);
        let start = self.end()?;
        let sum_at = size_of::<RecordHeader>() as u64 + (record.len() as u64).next_multiple_of(RECORD_ALIGN);
        let end = start + sum_at + SUM;
        let len = match u32::try_from(record.len()) {
            Ok(len) if end <= self.room() => U32::new(len),
            _ => return Ok(None),
        };
        self.restore_count()?;
        self.clear(start)?;
        let salt = U32::new(if injected(PoolFault::SaltNothing) { 0 } else { salt });
        let mut bytes = Vec::with_capacity((sum_at + SUM) as usize + size_of::<RecordHeader>());
        bytes.extend_from_slice(RecordHeader { len, salt }.as_bytes());
        bytes.extend_from_slice(record);
        let sum = self.sum(&bytes, self.sum_before(start));
        bytes.resize(sum_at as usize, 0);
        bytes.extend_from_slice(&sum.to_le_bytes());
        if end + size_of::<RecordHeader>() as u64 <= self.room() {
            // A zero header makes sure that old bytes after the record do not look like a record after a
            // damaged one.
            bytes.extend_from_slice(RecordHeader::new_zeroed().as_bytes());
        }
        self.medium.store(self.extent.offset + start, &bytes);
        let mut verified = self.tail.lock_verified();
        if verified.end == start {
            *verified = RecordCount {
                end,
                records: verified.records + 1,
            };
        }
        drop(verified);
        if injected(PoolFault::TrustLogTail) {
            self.lock_persisted().end = start;
        }
        Ok(Some(end))
    }

    /// Makes all records up to a position durable. Of concurrent callers, one flushes and fences for all
    /// whose records are stored by then, so that n callers take two fences instead of n.
    pub(crate) fn persist(&self, upto: u64) -> Result<(), MediaError> {
        let mut persisted = self.lock_persisted();
        while persisted.led && persisted.end < upto {
            persisted = self
                .tail
                .fenced
                .wait(persisted)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if persisted.end >= upto {
            return Ok(());
        }
        persisted.led = true;
        // The writer of earlier records may have died before they were flushed.
        let from = persisted.end;
        drop(persisted);
        let verified = self.verified();
        let end = verified.end.max(upto);
        let behind = (end + size_of::<RecordHeader>() as u64).min(self.room());
        if injected(PoolFault::CountBeforeFence) {
            self.count(verified);
        }
        self.medium.flush(self.extent.offset + from, behind - from);
        if let Some(counts) = &self.counts {
            // Flush the count of the records before these.
            counts.flush();
        }
        let result = self.medium.fence();
        if result.is_ok() {
            // Do not wait for the count: the next fence makes it durable, and until then it is a valid lower
            // bound.
            self.count(verified);
        }
        let mut persisted = self.lock_persisted();
        persisted.led = false;
        if result.is_ok() {
            persisted.end = persisted.end.max(end);
        }
        drop(persisted);
        self.tail.fenced.notify_all();
        result
    }

    /// Flushes the records up to a position in a log that is not published yet, and counts them.
    pub(crate) fn flush_first(&self, end: u64) {
        if injected(PoolFault::PublishFirstRecordsEarly) {
            return;
        }
        let behind = (end + size_of::<RecordHeader>() as u64).min(self.room());
        self.medium.flush(self.extent.offset, behind);
        self.count(self.verified());
    }

    /// Recreates a missing count durably. It is missing if a later generation, which is gone, used the log
    /// under another start.
    fn restore_count(&self) -> Result<(), MediaError> {
        let Some(counts) = &self.counts else { return Ok(()) };
        if counts.bound() != CountBound::Superseded {
            return Ok(());
        }
        counts.restore();
        if self.medium.fence_is_durable() {
            self.medium.fence()
        } else {
            self.medium.sync()
        }
    }

    /// Records how many records the last fence covered: durably if it made them durable, otherwise for this
    /// boot.
    fn count(&self, records: RecordCount) {
        match &self.counts {
            Some(counts) if self.medium.fence_is_durable() => counts.raise_durable(records),
            Some(counts) => counts.raise_seen(records),
            None => {}
        }
    }

    /// Makes sure, durably, that no record starts where the next one will be stored. A partly lost record may
    /// be there, which a torn store of the next one could complete, reviving everything that had followed
    /// it.
    fn clear(&self, end: u64) -> Result<(), MediaError> {
        let at = self.extent.offset + end;
        if self.medium.load_u64(at) == 0 || injected(PoolFault::LeaveLostRecord) {
            return Ok(());
        }
        self.medium.store_u64(at, 0);
        if self.medium.fence_is_durable() {
            self.medium.persist(at, size_of::<RecordHeader>() as u64)
        } else {
            self.medium.sync()
        }
    }

    /// Reads all records, including those verified before, and finds the first damaged one: there are fewer
    /// than the count says, or one does not verify but is followed by one that does.
    pub(crate) fn examine(&self) -> LogExamination {
        let counts = self.counts.as_ref();
        let bound = counts.map(LogCounts::bound);
        fence(Ordering::Acquire);
        let mut found = RecordCount::default();
        found.end = self.scan(0, |_| found.records += 1);
        let damage = bound.and_then(|bound| bound.damage(found)).or_else(|| {
            let mut payload = Vec::new();
            let behind = self.read(found.end, self.sum_before(found.end), &mut payload)?;
            let next = self.read(behind.end, behind.sum, &mut payload)?;
            next.verifies.then_some(LogDamage {
                intact: found.records,
                position: found.end,
                lost: None,
            })
        });
        LogExamination {
            found,
            counted: counts.map_or(0, LogCounts::durable),
            damage,
            count_damaged: counts.is_some_and(|counts| !counts.is_whole()),
        }
    }

    /// Ends the log after these records permanently; flushed. The caller holds the writer's lock.
    pub(crate) fn cut(&self, found: RecordCount) {
        if found.end + size_of::<RecordHeader>() as u64 <= self.room() {
            self.medium.store_u64(self.extent.offset + found.end, 0);
            self.medium
                .flush(self.extent.offset + found.end, size_of::<RecordHeader>() as u64);
        }
        if let Some(counts) = &self.counts {
            counts.reset(found);
        }
    }

    /// Scans like [`scan`](Self::scan) from a known record boundary, and compares the end with the count.
    fn scan_counted(&self, from: u64, each: impl FnMut(&[u8])) -> Result<u64, LogDamage> {
        let bound = self.counts.as_ref().map(LogCounts::bound);
        // Records are stored before the count that covers them, so reads of records must not precede that of
        // the count.
        fence(Ordering::Acquire);
        let end = self.scan(from, each);
        let verified = self.verified();
        let damage = bound.and_then(|bound| bound.damage(verified));
        match damage.filter(|_| !injected(PoolFault::IgnoreCount)) {
            Some(damage) => Err(damage),
            None => Ok(end),
        }
    }

    /// Calls `each` for each record from a position on, and remembers the end.
    fn scan(&self, from: u64, mut each: impl FnMut(&[u8])) -> u64 {
        let before = self.verified();
        let mut after = before;
        let (mut at, mut sum) = (from, self.sum_before(from));
        let mut bytes = Vec::new();
        while let Some(found) = self.read(at, sum, &mut bytes)
            && found.verifies
        {
            each(&bytes[size_of::<RecordHeader>()..]);
            if at == after.end {
                after = RecordCount {
                    end: found.end,
                    records: after.records + 1,
                };
            }
            (at, sum) = (found.end, found.sum);
        }
        if after.end > before.end {
            let mut verified = self.tail.lock_verified();
            if after.end > verified.end {
                *verified = after;
            }
        }
        at
    }

    /// Reads a record at a position, with its header, into `bytes`. Returns `None` if it does not fit.
    fn read(&self, at: u64, sum_before: u64, bytes: &mut Vec<u8>) -> Option<ParsedRecord> {
        let room = self.room().checked_sub(at)?.checked_sub(RECORD_OVERHEAD)?;
        let mut header = RecordHeader::new_zeroed();
        self.medium.load(self.extent.offset + at, header.as_mut_bytes());
        let len = u64::from(header.len.get());
        if len > room {
            return None;
        }
        bytes.resize(size_of::<RecordHeader>() + len as usize, 0);
        self.medium.load(self.extent.offset + at, bytes);
        let end = at + RECORD_OVERHEAD + len.next_multiple_of(RECORD_ALIGN);
        let sum = self.medium.load_u64(self.extent.offset + end - SUM);
        // The header may have changed since; only a record that is being stored does that.
        let whole = bytes.starts_with(header.as_bytes());
        Some(ParsedRecord {
            end,
            sum,
            verifies: whole && sum == self.sum(bytes, sum_before),
        })
    }

    /// Returns the checksum of a record with the given header and payload.
    fn sum(&self, bytes: &[u8], before: u64) -> u64 {
        let before = if injected(PoolFault::UnchainedRecords) {
            0
        } else {
            before
        };
        xxh3_64_with_seed(bytes, before ^ self.extent.checksum)
    }

    /// Returns the checksum of the record that ends at a position.
    fn sum_before(&self, at: u64) -> u64 {
        match at.checked_sub(SUM) {
            Some(sum) => self.medium.load_u64(self.extent.offset + sum),
            None => 0,
        }
    }

    fn lock_persisted(&self) -> MutexGuard<'_, PersistState> {
        self.tail.persisted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogTail {
    fn lock_verified(&self) -> MutexGuard<'_, RecordCount> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
