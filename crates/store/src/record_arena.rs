//! Many records in one allocation that is used again: [`RecordArena`].
//!
//! Invariant: all bytes of the allocation are initialised, those from `used` on by records of earlier uses.
//! So a record is loaded to its place at once, without zeros stored there before.

use std::ops::Range;

use halocline_media::Medium;

use crate::record::RecordRef;

/// The smallest allocation: a few records of a usual size.
const MIN_LEN: usize = 4 << 10;

/// Records that were loaded and verified, and other bytes.
#[derive(Debug, Default)]
pub(crate) struct RecordArena {
    bytes: Vec<u8>,
    used: usize,
}

/// The place of a verified record in an arena.
#[derive(Debug, Clone)]
pub(crate) struct RecordSpan {
    pub(crate) key: Range<usize>,
    pub(crate) value: Range<usize>,
    /// Time of expiry in ms since 1970, if the record has one.
    pub(crate) expires: Option<u64>,
}

impl RecordArena {
    /// Forgets all records. Keeps the allocation.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    /// Returns the number of bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Returns bytes of the arena.
    #[inline]
    pub(crate) fn get(&self, range: &Range<usize>) -> &[u8] {
        &self.bytes[range.start..range.end]
    }

    /// Makes room for `len` bytes in all.
    #[inline]
    pub(crate) fn reserve(&mut self, len: usize) {
        if len > self.bytes.len() {
            self.grow(len);
        }
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        if self.bytes.is_empty() {
            self.bytes = vec![0; len.max(MIN_LEN)];
        } else {
            self.bytes.resize(len.max(2 * self.bytes.len()), 0);
        }
    }

    /// Loads a whole record and verifies it. `None` if it is damaged; the arena is as before, then.
    #[inline]
    pub(crate) fn load(&mut self, medium: &Medium, record: &RecordRef) -> Option<RecordSpan> {
        let start = self.used;
        let end = start + record.contents_len();
        self.reserve(end);
        let layout = record.load_contents(medium, &mut self.bytes[start..end])?;
        self.used = end;
        let value_at = start + layout.value_at;
        Some(RecordSpan {
            key: start + layout.key_at..value_at,
            value: value_at..end,
            expires: layout.expires,
        })
    }

    /// Removes all bytes from `start` on but those of `kept`, which begin at `start` then.
    pub(crate) fn keep_last(&mut self, start: usize, kept: &Range<usize>) {
        self.bytes.copy_within(kept.clone(), start);
        self.used = start + kept.len();
    }

    /// Returns the allocation, cut after the bytes in use.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.truncate(self.used);
        self.bytes
    }
}
