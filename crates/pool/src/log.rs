//! Logs: extents that are appended to, record by record, while their generation is the newest.
//!
//! Invariants: a record's checksum is seeded by the checksum of the record before it and by the *start* of its log, a
//! number drawn anew by every publish. So a log ends at the first record that does not verify, and nothing that was
//! ever appended under another start, or behind a record that is not there any more, is taken for one of its records.
//!
//! How many records there are at least, the [count](crate::log_count) at the end of the extent says: a log that ends
//! before is damaged, and neither read, appended to nor folded. Logs of older versions of the format have no count; what
//! is damaged ends them.
//!
//! What verifies is never changed while the log's generation is the newest or anyone reads it. All of a log may be
//! read while it is appended to: its bytes are only ever copied, never borrowed.

use std::mem::size_of;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use halocline_media::{MediaError, Medium};
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::PoolError;
use crate::directory::{ExtentRef, ObjectKind, Record};
use crate::layout::{LOG_COUNTS, LOG_VERSION, LogMeta, RECORD_ALIGN, RECORD_OVERHEAD, RecordHeader};
use crate::log_count::{Bound, Counted, Known, LogCounts, MAX_END};
use crate::mistake::{Mistake, made};

/// Bytes of the checksum that ends each record.
const SUM: u64 = 8;

/// The records of a log from a position on, of [`Snapshot::log_records`](crate::Snapshot::log_records).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogRecords {
    /// The records, in the order in which they were appended.
    pub records: Vec<Box<[u8]>>,
    /// The position behind the last of them: from here on the next call finds what was appended since.
    pub end: u64,
}

/// What a handle knows of a log, beside what the directory says.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// The records that were found to verify.
    verified: Mutex<Counted>,
    /// Locked by whoever stores a record.
    storing: Mutex<()>,
    persisted: Mutex<Persisted>,
    /// Told when a fence is over.
    fenced: Condvar,
}

/// What of a log this handle has made durable.
#[derive(Debug, Default)]
struct Persisted {
    end: u64,
    /// Is somebody at it, for all who wait.
    led: bool,
}

/// Where a log is damaged, and what that costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogDamage {
    /// Records before the damage, all of them intact. The damaged one is the next.
    pub intact: u64,
    /// Where in the log the damaged record starts.
    pub position: u64,
    /// Records that are lost, the damaged one included; none if the count is damaged as well, so that nobody knows.
    pub lost: Option<u64>,
}

impl LogDamage {
    /// As an error of the log of this name.
    pub(crate) fn of(self, path: &Path, name: &str) -> PoolError {
        PoolError::DamagedLog {
            path: path.to_owned(),
            name: name.to_owned(),
            damage: self,
        }
    }
}

/// Why a log cannot be read or appended to.
#[derive(Debug)]
pub(crate) enum LogFault {
    Damaged(LogDamage),
    Media(MediaError),
}

impl LogFault {
    /// As an error of the log of this name.
    pub(crate) fn of(self, path: &Path, name: &str) -> PoolError {
        match self {
            LogFault::Damaged(damage) => damage.of(path, name),
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

/// What a look at a whole log finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Examined {
    /// Its records, up to the first that is damaged.
    pub(crate) found: Counted,
    /// Those whose number is durable.
    pub(crate) counted: u64,
    /// The first damaged record.
    pub(crate) damage: Option<LogDamage>,
    /// Whether a word of its count is damaged.
    pub(crate) count_damaged: bool,
}

/// A log of a pinned generation.
pub(crate) struct Log<'a> {
    medium: &'a Medium,
    extent: ExtentRef,
    tail: &'a Tail,
    counts: Option<LogCounts<'a>>,
}

/// What one record says of itself.
struct Found {
    end: u64,
    sum: u64,
    verifies: bool,
}

impl<'a> Log<'a> {
    /// The log that the record of an object describes, if it is one; `boot` is a number of this boot of the machine.
    pub(crate) fn of(medium: &'a Medium, record: &'a Record, boot: u64) -> Option<Log<'a>> {
        let (ObjectKind::LOG, [extent]) = (record.kind, &*record.extents) else {
            return None;
        };
        let counted = has_count(&record.meta);
        Some(Log {
            medium,
            extent: *extent,
            tail: &record.tail,
            counts: counted.then(|| LogCounts::new(medium, extent, boot)),
        })
    }

    /// Bytes of its extent.
    pub(crate) fn capacity(&self) -> u64 {
        self.extent.len
    }

    /// Bytes that records can take.
    pub(crate) fn room(&self) -> u64 {
        match self.counts {
            Some(_) => (self.extent.len - LOG_COUNTS).min(MAX_END),
            None => self.extent.len,
        }
    }

    /// Its counts, if it has them.
    pub(crate) fn counts(&self) -> Option<&LogCounts<'a>> {
        self.counts.as_ref()
    }

    /// The records that were found to verify.
    pub(crate) fn verified(&self) -> Counted {
        *self.tail.verified()
    }

    /// The end of its last record. Costs one look at what follows the end that was found last, and one at the count.
    ///
    /// # Errors
    /// A record is damaged.
    pub(crate) fn end(&self) -> Result<u64, LogDamage> {
        let verified = self.verified().end;
        self.scan_counted(verified, |_| ())
    }

    /// All complete records from a position on; nothing if no record ends there.
    ///
    /// # Errors
    /// A record is damaged, be it before the position or behind it.
    pub(crate) fn records(&self, from: u64) -> Result<Option<LogRecords>, LogDamage> {
        let mut least = self.verified().end;
        if from != least {
            least = self.end()?;
        }
        if from > least || !from.is_multiple_of(RECORD_ALIGN) {
            return Ok(None);
        }
        let mut records = Vec::new();
        let end = match from == least {
            true => self.scan_counted(from, |record| records.push(record.into()))?,
            false => self.scan(from, |record| records.push(record.into())),
        };
        // From within a record nothing verifies, so that the end is not reached.
        Ok((end >= least).then_some(LogRecords { records, end }))
    }

    /// Stores a record behind the others, visible and not durable; returns the end, or nothing if there is no room.
    ///
    /// # Errors
    /// A record is damaged, behind which nothing is stored; the medium fails.
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
        let salt = U32::new(if made(Mistake::SaltNothing) { 0 } else { salt });
        let mut bytes = Vec::with_capacity((sum_at + SUM) as usize + size_of::<RecordHeader>());
        bytes.extend_from_slice(RecordHeader { len, salt }.as_bytes());
        bytes.extend_from_slice(record);
        let sum = self.sum(&bytes, self.sum_before(start));
        bytes.resize(sum_at as usize, 0);
        bytes.extend_from_slice(&sum.to_le_bytes());
        if end + size_of::<RecordHeader>() as u64 <= self.room() {
            // So that what lay here before need not be cleared, and does not look like a record behind a damaged one.
            bytes.extend_from_slice(RecordHeader::new_zeroed().as_bytes());
        }
        self.medium.store(self.extent.offset + start, &bytes);
        let mut verified = self.tail.verified();
        if verified.end == start {
            *verified = Counted {
                end,
                records: verified.records + 1,
            };
        }
        drop(verified);
        if made(Mistake::TrustLogTail) {
            self.persisted().end = start;
        }
        Ok(Some(end))
    }

    /// Makes all records up to a position durable. Of threads that ask at the same time one flushes and fences for all
    /// whose records are stored by then; so n of them take two fences rather than n.
    pub(crate) fn persist(&self, upto: u64) -> Result<(), MediaError> {
        let mut persisted = self.persisted();
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
        // Whoever appended the records before may have died before they were flushed.
        let from = persisted.end;
        drop(persisted);
        let verified = self.verified();
        let end = verified.end.max(upto);
        let behind = (end + size_of::<RecordHeader>() as u64).min(self.room());
        if made(Mistake::CountBeforeFence) {
            self.count(verified);
        }
        self.medium.flush(self.extent.offset + from, behind - from);
        if let Some(counts) = &self.counts {
            // That of the records before these.
            counts.flush();
        }
        let result = self.medium.fence();
        if result.is_ok() {
            // Not waited for: the next fence makes it durable, and until then it says less than there is.
            self.count(verified);
        }
        let mut persisted = self.persisted();
        persisted.led = false;
        if result.is_ok() {
            persisted.end = persisted.end.max(end);
        }
        drop(persisted);
        self.tail.fenced.notify_all();
        result
    }

    /// Flushes the records up to a position, of a log that nobody can see yet, and counts them.
    pub(crate) fn flush_first(&self, end: u64) {
        if made(Mistake::PublishFirstRecordsEarly) {
            return;
        }
        let behind = (end + size_of::<RecordHeader>() as u64).min(self.room());
        self.medium.flush(self.extent.offset, behind);
        self.count(self.verified());
    }

    /// Makes sure, durably, that there is a count. There is none if a later generation, which is gone, used the log under
    /// another start.
    fn restore_count(&self) -> Result<(), MediaError> {
        let Some(counts) = &self.counts else { return Ok(()) };
        if counts.bound() != Bound::Superseded {
            return Ok(());
        }
        counts.restore();
        match self.medium.fence_is_durable() {
            true => self.medium.fence(),
            false => self.medium.sync(),
        }
    }

    /// Takes down how many records the last fence was for: for good if it made them durable, else for this boot.
    fn count(&self, records: Counted) {
        match &self.counts {
            Some(counts) if self.medium.fence_is_durable() => counts.raise_durable(records),
            Some(counts) => counts.raise_seen(records),
            None => {}
        }
    }

    /// Makes sure, durably, that no record starts where the next one is to be stored. There may be one that was lost in
    /// part: what arrives of the next one could make it whole again, and so bring back all that had come behind it.
    fn clear(&self, end: u64) -> Result<(), MediaError> {
        let at = self.extent.offset + end;
        if self.medium.load_u64(at) == 0 || made(Mistake::LeaveLostRecord) {
            return Ok(());
        }
        self.medium.store_u64(at, 0);
        if self.medium.fence_is_durable() {
            self.medium.persist(at, size_of::<RecordHeader>() as u64)
        } else {
            self.medium.sync()
        }
    }

    /// Reads all records, whether or not they have been read before, and finds the first that is damaged: there are less
    /// than the count says, or one does not verify but leads to one that does.
    pub(crate) fn examine(&self) -> Examined {
        let counts = self.counts.as_ref();
        let bound = counts.map(LogCounts::bound);
        fence(Ordering::Acquire);
        let mut found = Counted::default();
        found.end = self.scan(0, |_| found.records += 1);
        let damage = bound.and_then(|bound| missing(bound, found)).or_else(|| {
            let mut payload = Vec::new();
            let behind = self.read(found.end, self.sum_before(found.end), &mut payload)?;
            let next = self.read(behind.end, behind.sum, &mut payload)?;
            next.verifies.then_some(LogDamage {
                intact: found.records,
                position: found.end,
                lost: None,
            })
        });
        Examined {
            found,
            counted: counts.map_or(0, LogCounts::durable),
            damage,
            count_damaged: counts.is_some_and(|counts| !counts.is_whole()),
        }
    }

    /// Ends the log behind these records, for good; flushed. Only with the writer's lock.
    pub(crate) fn cut(&self, found: Counted) {
        if found.end + size_of::<RecordHeader>() as u64 <= self.room() {
            self.medium.store_u64(self.extent.offset + found.end, 0);
            self.medium
                .flush(self.extent.offset + found.end, size_of::<RecordHeader>() as u64);
        }
        if let Some(counts) = &self.counts {
            counts.reset(found);
        }
    }

    /// As [`scan`](Self::scan), for a position that is known to be the end of a record; compares the end with the count.
    fn scan_counted(&self, from: u64, each: impl FnMut(&[u8])) -> Result<u64, LogDamage> {
        let bound = self.counts.as_ref().map(LogCounts::bound);
        // The records that it counts were stored before it was.
        fence(Ordering::Acquire);
        let end = self.scan(from, each);
        let verified = self.verified();
        let damage = bound.and_then(|bound| missing(bound, verified));
        match damage.filter(|_| !made(Mistake::IgnoreCount)) {
            Some(damage) => Err(damage),
            None => Ok(end),
        }
    }

    /// Hands out each record from a position on, and remembers the end.
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
                after = Counted {
                    end: found.end,
                    records: after.records + 1,
                };
            }
            (at, sum) = (found.end, found.sum);
        }
        if after.end > before.end {
            let mut verified = self.tail.verified();
            if after.end > verified.end {
                *verified = after;
            }
        }
        at
    }

    /// Reads what would be the record at a position, with its header, into `bytes`; nothing if it does not fit.
    fn read(&self, at: u64, sum_before: u64, bytes: &mut Vec<u8>) -> Option<Found> {
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
        // The header may have changed since, which only a record that is being stored does.
        let whole = bytes.starts_with(header.as_bytes());
        Some(Found {
            end,
            sum,
            verifies: whole && sum == self.sum(bytes, sum_before),
        })
    }

    /// The checksum of a record by its header and payload.
    fn sum(&self, bytes: &[u8], before: u64) -> u64 {
        let before = if made(Mistake::UnchainedRecords) {
            0
        } else {
            before
        };
        xxh3_64_with_seed(bytes, before ^ self.extent.checksum)
    }

    /// The checksum of the record that ends at a position.
    fn sum_before(&self, at: u64) -> u64 {
        match at.checked_sub(SUM) {
            Some(sum) => self.medium.load_u64(self.extent.offset + sum),
            None => 0,
        }
    }

    fn persisted(&self) -> MutexGuard<'_, Persisted> {
        self.tail.persisted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tail {
    fn verified(&self) -> MutexGuard<'_, Counted> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a log with this metadata has a count.
pub(crate) fn has_count(meta: &[u8]) -> bool {
    LogMeta::read_from_bytes(meta).is_ok_and(|meta| meta.version.get() == LOG_VERSION)
}

/// What is missing of a log that holds at least `bound`, if these are its records.
fn missing(bound: Bound, found: Counted) -> Option<LogDamage> {
    let lost = match bound {
        Bound::Superseded if found.records == 0 => return None,
        Bound::Superseded | Bound::Unknown => None,
        Bound::Known(Known { end, records }) => {
            let lost = records.map(|records| records.saturating_sub(found.records));
            let shorter = end.is_some_and(|end| end > found.end);
            if !shorter && lost.is_none_or(|lost| lost == 0) {
                return None;
            }
            // Of two words, a torn pair of stores may have left one behind.
            lost.map(|lost| lost.max(1))
        }
    };
    Some(LogDamage {
        intact: found.records,
        position: found.end,
        lost,
    })
}
