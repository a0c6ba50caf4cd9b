//! The count of a log's records, which distinguishes damage from the end of the log.
//!
//! The last [`LOG_COUNTS`] bytes of a log's extent are two counts, each of one *start* of the log. A log that
//! is reused under another start gets the count that the previous start does not use. A word of a count holds
//! a value and a checksum that depends on the start, is stored atomically, and only grows.
//!
//! Invariants: `end` and `records` are stored when that many records are durable, so they never exceed what a
//! crash leaves. `seen_end` and `seen_records` are stored when the records are visible. They are valid in the
//! boot in which they were written, whose number their checksums depend on, and meaningless in any other. A
//! count may lag behind the records (an append was interrupted, or another handle stored a smaller value
//! after a larger one), but never exceeds them.

use std::mem::{offset_of, size_of};

use halocline_media::Medium;
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::fault::{PoolFault, injected};
use crate::layout::{LOG_COUNTS, LOG_VERSION, LogCount, LogMeta, RECORD_ALIGN};
use crate::object::ExtentRef;

/// The end of the longest log whose count fits its word.
pub(crate) const MAX_END: u64 = (u32::MAX as u64) * RECORD_ALIGN;

const SIDE: u64 = size_of::<LogCount>() as u64;
const START: u64 = offset_of!(LogCount, start) as u64;
const END: CountWord = CountWord(offset_of!(LogCount, end) as u64);
const RECORDS: CountWord = CountWord(offset_of!(LogCount, records) as u64);
const SEEN_END: CountWord = CountWord(offset_of!(LogCount, seen_end) as u64);
const SEEN_RECORDS: CountWord = CountWord(offset_of!(LogCount, seen_records) as u64);

/// The offset of a word in a count, which its checksum depends on.
#[derive(Debug, Clone, Copy)]
struct CountWord(u64);

impl CountWord {
    fn encode(self, value: u32, seed: u64) -> u64 {
        u64::from(value) | u64::from(self.check(value, seed)) << 32
    }

    fn decode(self, word: u64, seed: u64) -> Option<u32> {
        let value = word as u32;
        ((word >> 32) as u32 == self.check(value, seed)).then_some(value)
    }

    fn check(self, value: u32, seed: u64) -> u32 {
        let bytes = u64::from(value) | self.0 << 32;
        (xxh3_64_with_seed(&bytes.to_le_bytes(), seed) >> 32) as u32
    }
}

/// A number of records from the start of a log, and the position after the last of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RecordCount {
    pub(crate) end: u64,
    pub(crate) records: u64,
}

/// A lower bound of a log's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountBound {
    /// At least one word of the count is intact.
    AtLeast(KnownCount),
    /// Another start has taken over, which happens only to a log without records.
    Superseded,
    /// The count is damaged, so the number of records is unknown.
    Unknown,
}

/// The position of damage in a log, and its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogDamage {
    /// Number of intact records before the damaged one.
    pub intact: u64,
    /// Position in the log at which the damaged record starts.
    pub position: u64,
    /// Number of lost records, including the damaged one, or `None` if it is unknown because the count is
    /// damaged, too.
    pub lost: Option<u64>,
}

impl CountBound {
    /// Returns the damage of a log with this lower bound if only the records `found` are present.
    pub(crate) fn damage(self, found: RecordCount) -> Option<LogDamage> {
        let lost = match self {
            CountBound::Superseded if found.records == 0 => return None,
            CountBound::Superseded | CountBound::Unknown => None,
            CountBound::AtLeast(KnownCount { end, records }) => {
                let lost = records.map(|records| records.saturating_sub(found.records));
                let shorter = end.is_some_and(|end| end > found.end);
                if !shorter && lost.is_none_or(|lost| lost == 0) {
                    return None;
                }
                // A torn pair of stores may have left one of the two words behind, so report at least one
                // record.
                lost.map(|lost| lost.max(1))
            }
        };
        Some(LogDamage {
            intact: found.records,
            position: found.end,
            lost,
        })
    }
}

/// The intact words of a count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KnownCount {
    pub(crate) end: Option<u64>,
    pub(crate) records: Option<u64>,
}

/// Returns true if a log with this metadata has a count.
pub(crate) fn has_count(meta: &[u8]) -> bool {
    LogMeta::read_from_bytes(meta).is_ok_and(|meta| meta.version.get() == LOG_VERSION)
}

/// The counts at the end of a log's extent, as used by a log of one start.
pub(crate) struct LogCounts<'a> {
    medium: &'a Medium,
    /// Offset of the first count.
    at: u64,
    start: u64,
    /// Identifies this boot.
    boot: u64,
}

impl<'a> LogCounts<'a> {
    /// Accesses the counts of the log in this extent, whose checksum is the log's start.
    pub(crate) fn new(medium: &'a Medium, extent: &ExtentRef, boot: u64) -> LogCounts<'a> {
        LogCounts {
            medium,
            at: extent.offset + extent.len - LOG_COUNTS,
            start: extent.checksum,
            boot,
        }
    }

    /// Returns the lower bound. It must be read before the records are scanned.
    pub(crate) fn bound(&self) -> CountBound {
        let superseded = || {
            if (0..2).any(|side| self.is_of_another_start(side)) {
                CountBound::Superseded
            } else {
                CountBound::Unknown
            }
        };
        let Some(side) = self.side() else {
            return superseded();
        };
        let value = |word: CountWord, seed| word.decode(self.load(side, word.0), seed).map(u64::from);
        let seen = self.seen_seed();
        let end = value(END, self.start).max(value(SEEN_END, seen));
        let records = value(RECORDS, self.start).max(value(SEEN_RECORDS, seen));
        match (end, records) {
            (None, None) => superseded(),
            _ => CountBound::AtLeast(KnownCount {
                end: end.map(|end| end * RECORD_ALIGN),
                records,
            }),
        }
    }

    /// Returns true if no durable word is damaged.
    pub(crate) fn is_whole(&self) -> bool {
        match self.side() {
            Some(side) => self.load(side, START) == self.start && self.is_valid(side, self.start),
            None => (0..2).any(|side| self.is_of_another_start(side)),
        }
    }

    /// Returns true if one of the two counts is unused, so that another start can create one without
    /// overwriting any.
    pub(crate) fn has_room(&self) -> bool {
        (0..2).all(|side| !self.is_of_another_start(side))
    }

    /// Returns the number of records according to the durable words.
    pub(crate) fn durable(&self) -> u64 {
        let records = self
            .side()
            .and_then(|side| RECORDS.decode(self.load(side, RECORDS.0), self.start));
        records.map_or(0, u64::from)
    }

    /// Stores the count of an empty log of this start, to be flushed by the caller. It replaces the count
    /// that `keep`, the previous log in this extent, does not use; without `keep`, both are replaced.
    pub(crate) fn create(&self, keep: Option<&LogCounts<'_>>) {
        let kept = keep.and_then(LogCounts::side);
        let side = match kept {
            Some(kept) => 1 - kept,
            None => 0,
        };
        let count = self.encoded(RecordCount::default());
        if kept.is_none() {
            self.medium
                .store(self.at + SIDE, LogCount::new_zeroed().as_bytes());
        }
        self.medium.store(self.at + side * SIDE, count.as_bytes());
    }

    /// Stores and flushes the count of a log that another start has superseded and that is the newest again.
    /// While it is torn, the other start's count is whole.
    pub(crate) fn restore(&self) {
        let side = (0..2).find(|side| !self.is_of_another_start(*side)).unwrap_or(0);
        let count = self.encoded(RecordCount::default());
        self.medium.store(self.at + side * SIDE, count.as_bytes());
        self.flush();
    }

    /// Flushes the counts.
    pub(crate) fn flush(&self) {
        self.medium.flush(self.at, LOG_COUNTS);
    }

    /// Stores and flushes what the log holds as all that it ever held. Used by repair.
    pub(crate) fn reset(&self, counted: RecordCount) {
        let side = self.side().unwrap_or(0);
        self.medium
            .store(self.at + side * SIDE, self.encoded(counted).as_bytes());
        self.flush();
    }

    /// Stores that these records are durable, unless more are known to be.
    pub(crate) fn raise_durable(&self, counted: RecordCount) {
        self.raise(END, RECORDS, self.start, counted);
    }

    /// Stores that these records are visible, unless more are known to be.
    pub(crate) fn raise_seen(&self, counted: RecordCount) {
        self.raise(SEEN_END, SEEN_RECORDS, self.seen_seed(), counted);
    }

    fn raise(&self, end: CountWord, records: CountWord, seed: u64, counted: RecordCount) {
        // Only a publish creates a count. If there is none of this start, the log is no longer in use.
        let Some(side) = self.side() else { return };
        for (word, value) in [(end, counted.end / RECORD_ALIGN), (records, counted.records)] {
            let before = word.decode(self.load(side, word.0), seed);
            if let Ok(value) = u32::try_from(value)
                && before.is_none_or(|before| before < value)
            {
                let at = self.at + side * SIDE + word.0;
                self.medium.store_u64(at, word.encode(value, seed));
            }
        }
    }

    fn encoded(&self, counted: RecordCount) -> LogCount {
        let word = |word: CountWord, value: u64, seed| U64::new(word.encode(value as u32, seed));
        let end = counted.end / RECORD_ALIGN;
        LogCount {
            start: U64::new(self.start),
            end: word(END, end, self.start),
            records: word(RECORDS, counted.records, self.start),
            seen_end: word(SEEN_END, end, self.seen_seed()),
            seen_records: word(SEEN_RECORDS, counted.records, self.seen_seed()),
            reserved: [0; 24],
        }
    }

    /// Returns the index of the count of this start, even if its start word is damaged.
    fn side(&self) -> Option<u64> {
        (0..2)
            .find(|side| self.load(*side, START) == self.start)
            .or_else(|| (0..2).find(|side| self.is_valid(*side, self.start)))
    }

    fn is_of_another_start(&self, side: u64) -> bool {
        let start = self.load(side, START);
        start != self.start && self.is_valid(side, start)
    }

    fn is_valid(&self, side: u64, start: u64) -> bool {
        [END, RECORDS]
            .iter()
            .all(|word| word.decode(self.load(side, word.0), start).is_some())
    }

    fn load(&self, side: u64, word: u64) -> u64 {
        self.medium.load_u64(self.at + side * SIDE + word)
    }

    /// Returns the seed of the words that are valid in this boot only.
    fn seen_seed(&self) -> u64 {
        if injected(PoolFault::TrustSeenCount) {
            self.start
        } else {
            self.start ^ self.boot
        }
    }
}
