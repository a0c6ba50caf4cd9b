//! Logs: extents that are appended to, record by record, while their generation is the newest.
//!
//! Invariants: a record's checksum is seeded by the checksum of the record before it and by the *start* of its log, a
//! number drawn anew by every publish. So a log ends at the first record that does not verify, and nothing that was
//! ever appended under another start, or behind a record that is not there any more, is taken for one of its records.
//! What verifies is never changed while the log's generation is the newest or anyone reads it. All of a log may be
//! read while it is appended to: its bytes are only ever copied, never borrowed.

use std::mem::size_of;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use halocline_media::{MediaError, Medium};
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::little_endian::U32;
use zerocopy::{FromZeros, IntoBytes};

use crate::directory::{ExtentRef, ObjectKind, Record};
use crate::layout::{RECORD_ALIGN, RECORD_OVERHEAD, RecordHeader};
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
    /// The end of the records that were found to verify.
    verified: AtomicU64,
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

/// A log of a pinned generation.
pub(crate) struct Log<'a> {
    medium: &'a dyn Medium,
    extent: ExtentRef,
    tail: &'a Tail,
}

/// What one record says of itself.
struct Found {
    end: u64,
    sum: u64,
    verifies: bool,
}

impl<'a> Log<'a> {
    /// The log that the record of an object describes, if it is one.
    pub(crate) fn of(medium: &'a dyn Medium, record: &'a Record) -> Option<Log<'a>> {
        let (ObjectKind::LOG, [extent]) = (record.kind, &*record.extents) else {
            return None;
        };
        Some(Log {
            medium,
            extent: *extent,
            tail: &record.tail,
        })
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.extent.len
    }

    /// The end of its last record. Costs one look at what follows the end that was found last.
    pub(crate) fn end(&self) -> u64 {
        self.scan(self.tail.verified.load(Ordering::Acquire), |_| ())
    }

    /// All complete records from a position on; nothing if no record ends there.
    pub(crate) fn records(&self, from: u64) -> Option<LogRecords> {
        let known = self.tail.verified.load(Ordering::Acquire);
        let least = if from > known { self.end() } else { known };
        if from > least || !from.is_multiple_of(RECORD_ALIGN) {
            return None;
        }
        let mut records = Vec::new();
        let end = self.scan(from, |record| records.push(record.into()));
        // From within a record nothing verifies, so that the end is not reached.
        (end >= least).then_some(LogRecords { records, end })
    }

    /// Stores a record behind the others, visible and not durable; returns the end, or nothing if there is no room.
    pub(crate) fn store(&self, record: &[u8], salt: u32) -> Result<Option<u64>, MediaError> {
        let _one_at_a_time = self.tail.storing.lock().unwrap_or_else(PoisonError::into_inner);
        let start = self.end();
        let sum_at = size_of::<RecordHeader>() as u64 + (record.len() as u64).next_multiple_of(RECORD_ALIGN);
        let end = start + sum_at + SUM;
        let len = match u32::try_from(record.len()) {
            Ok(len) if end <= self.extent.len => U32::new(len),
            _ => return Ok(None),
        };
        self.clear(start)?;
        let salt = U32::new(if made(Mistake::SaltNothing) { 0 } else { salt });
        let mut bytes = Vec::with_capacity((sum_at + SUM) as usize + size_of::<RecordHeader>());
        bytes.extend_from_slice(RecordHeader { len, salt }.as_bytes());
        bytes.extend_from_slice(record);
        let sum = self.sum(&bytes, self.sum_before(start));
        bytes.resize(sum_at as usize, 0);
        bytes.extend_from_slice(&sum.to_le_bytes());
        if end + size_of::<RecordHeader>() as u64 <= self.extent.len {
            // So that what lay here before need not be cleared, and does not look like a record behind a damaged one.
            bytes.extend_from_slice(RecordHeader::new_zeroed().as_bytes());
        }
        self.medium.store(self.extent.offset + start, &bytes);
        self.tail.verified.fetch_max(end, Ordering::AcqRel);
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
        let end = self.tail.verified.load(Ordering::Acquire).max(upto);
        let behind = (end + size_of::<RecordHeader>() as u64).min(self.extent.len);
        self.medium.flush(self.extent.offset + from, behind - from);
        let result = self.medium.fence();
        let mut persisted = self.persisted();
        persisted.led = false;
        if result.is_ok() {
            persisted.end = persisted.end.max(end);
        }
        drop(persisted);
        self.tail.fenced.notify_all();
        result
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

    /// Counts all records, and says whether one is damaged behind the last: one that does not verify, but leads to
    /// one that does.
    pub(crate) fn examine(&self) -> (u64, Option<u64>) {
        let mut count = 0;
        let end = self.scan(0, |_| count += 1);
        let mut payload = Vec::new();
        let behind = self.read(end, self.sum_before(end), &mut payload);
        let damaged = behind
            .and_then(|behind| self.read(behind.end, behind.sum, &mut payload))
            .is_some_and(|next| next.verifies);
        (count, damaged.then_some(end))
    }

    /// Hands out each record from a position on, and remembers the end.
    fn scan(&self, from: u64, mut each: impl FnMut(&[u8])) -> u64 {
        let (mut at, mut sum) = (from, self.sum_before(from));
        let mut bytes = Vec::new();
        while let Some(found) = self.read(at, sum, &mut bytes)
            && found.verifies
        {
            each(&bytes[size_of::<RecordHeader>()..]);
            (at, sum) = (found.end, found.sum);
        }
        if at > from {
            self.tail.verified.fetch_max(at, Ordering::AcqRel);
        }
        at
    }

    /// Reads what would be the record at a position, with its header, into `bytes`; nothing if it does not fit.
    fn read(&self, at: u64, sum_before: u64, bytes: &mut Vec<u8>) -> Option<Found> {
        let room = self.extent.len.checked_sub(at)?.checked_sub(RECORD_OVERHEAD)?;
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
