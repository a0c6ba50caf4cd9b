//! Log segments: the bytes of records that are needed, expired or kept for snapshots.
//!
//! Invariants: `live` is the sum of the needed bytes of all log segments that have not expired. Each segment
//! that is not emptied is filed under the bytes that emptying it would not gain, so whatever changes these
//! files it anew.

use super::{SegmentKind, SegmentUse, Segments};
use crate::fault::{StoreFault, injected};
use crate::layout::SEGMENT;
use crate::log_segments::LogSegments;

impl Segments {
    /// Returns the bytes of needed records of a log segment that have not expired, and those that emptying it
    /// would not gain: 0 if nothing of it is needed. Bytes that no record could fill are among the latter, as
    /// the copies may leave as many unused.
    pub(super) fn effective(&self, offset: u64) -> (u64, u64) {
        let used = self.map.get(&offset).map_or(0, |segment| segment.used);
        let live = used.saturating_sub(self.expiring.expired(offset));
        let occupied = match live {
            0 => 0,
            _ if injected(StoreFault::IgnoreTails) => live,
            _ => live + self.tails.get(&offset).unwrap_or(&0),
        };
        (live, occupied)
    }

    /// Files a log segment anew whose bytes have changed. `before` is what was [effective](Self::effective).
    fn refile(&mut self, offset: u64, before: (u64, u64)) {
        let after = self.effective(offset);
        self.live = self.live - before.0 + after.0;
        if !self.emptied.contains(&offset) {
            self.by_use.change(offset, before.1, after.1);
        }
    }

    /// Returns the bytes of a log segment that emptying it would not gain, as far as they are known.
    pub(crate) fn occupied_bytes(&self, offset: u64) -> u64 {
        self.effective(offset).1
    }

    /// Lets records count as not needed that have expired at a time in ms since 1970. The clock may go back.
    pub(crate) fn expire(&mut self, now: u64) {
        for offset in self.expiring.due(now) {
            let before = self.effective(offset);
            self.expiring.set_time(offset);
            self.refile(offset, before);
        }
    }

    /// Returns log segments of which only the latest expiry is known, at most `most`.
    pub(crate) fn with_unknown_expiries(&self, most: usize) -> Vec<u64> {
        self.expiring.unknown(most)
    }

    /// Sets the times of expiry of the records in a segment of which only the latest was known, with their
    /// lengths, needed or not.
    pub(crate) fn set_expiries(&mut self, offset: u64, records: &[(Option<u64>, u64)]) {
        if let Some(segment) = self.map.get(&offset).copied() {
            let before = self.effective(offset);
            self.expiring.set(offset, segment.used, segment.expires, records);
            self.refile(offset, before);
        }
    }

    /// Returns true if the end of a log segment was [measured](Self::set_tail), or does not matter.
    pub(crate) fn is_measured(&self, offset: u64) -> bool {
        self.occupied_bytes(offset) == 0 || self.tails.contains_key(&offset)
    }

    /// Records how many bytes at the end of a log segment no record could fill.
    pub(crate) fn set_tail(&mut self, offset: u64, bytes: u64) {
        if self.map.contains_key(&offset) {
            let before = self.effective(offset);
            self.tail_bytes += bytes;
            self.tail_bytes -= self.tails.insert(offset, bytes).unwrap_or(0);
            self.refile(offset, before);
        }
    }

    /// Records that nothing of a log segment is needed any more.
    pub(crate) fn set_emptied(&mut self, offset: u64) {
        if self.map.contains_key(&offset) {
            let (_, occupied) = self.effective(offset);
            self.changed.insert(offset);
            self.by_use.remove(offset, occupied);
            self.emptied.insert(offset);
            self.tail_bytes -= self.tails.remove(&offset).unwrap_or(0);
        }
    }

    /// Returns true if nothing of a log segment is needed any more, which waits to be used again.
    pub(crate) fn is_emptied(&self, offset: u64) -> bool {
        self.emptied.contains(&offset)
    }

    /// Returns the log segments that can be emptied.
    pub(crate) fn by_use(&self) -> &LogSegments {
        &self.by_use
    }

    /// Returns the bytes of log segments that were emptied and wait to be used again.
    pub(crate) fn emptied_bytes(&self) -> u64 {
        self.emptied.len() as u64 * SEGMENT
    }

    /// Counts a record as one that only snapshots need, or no longer.
    pub(crate) fn count_kept(&mut self, record: u64, len: u64, is_kept: bool) {
        let Some(segment) = self.log_of(record) else {
            return;
        };
        self.changed.insert(segment);
        let kept = self.kept.entry(segment).or_default();
        *kept = if is_kept {
            *kept + len
        } else {
            kept.saturating_sub(len)
        };
    }

    /// Returns a segment as it is after a crash, when there are no snapshots.
    pub(crate) fn without_kept(&self, offset: u64) -> Option<SegmentUse> {
        let mut segment = *self.map.get(&offset)?;
        if segment.kind == SegmentKind::Log {
            let kept = self.kept.get(&offset).copied().unwrap_or(0);
            segment.used = segment.used.saturating_sub(kept);
        }
        Some(segment)
    }

    /// Returns true if an offset is in a segment of the log.
    pub(crate) fn has_record(&self, offset: u64) -> bool {
        let segment = self.map.range(..=offset).next_back();
        segment.is_some_and(|(start, segment)| segment.kind == SegmentKind::Log && offset - start < SEGMENT)
    }

    /// Returns the bytes of all log segments, and those of needed records in them.
    pub(crate) fn log_bytes(&self) -> (u64, u64) {
        (self.logs * SEGMENT, self.live)
    }

    /// Returns the bytes at the ends of log segments that no record could fill, as far as they are known.
    /// Those of emptied segments do not count.
    pub(crate) fn tail_bytes(&self) -> u64 {
        self.tail_bytes
    }

    /// Counts a record of a store as needed. `expires` is the time of its expiry, or 0.
    pub(crate) fn add_live(&mut self, store: u32, record: u64, len: u64, expires: u64) {
        if let Some(start) = self.log_of(record) {
            let before = self.effective(start);
            if let Some(segment) = self.map.get_mut(&start) {
                segment.used += len;
                segment.expires = segment.expires.max(expires);
                segment.store.widen(store);
            }
            if expires > 0 {
                self.expiring.add(start, expires, len);
            }
            self.changed.insert(start);
            self.refile(start, before);
        }
    }

    /// Counts a record as not needed any more. `expires` is the time of its expiry, or 0.
    pub(crate) fn remove_live(&mut self, record: u64, len: u64, expires: u64) {
        if let Some(start) = self.log_of(record) {
            let before = self.effective(start);
            if let Some(segment) = self.map.get_mut(&start) {
                // After a crash the count may be too low by what the lost process had counted.
                segment.used -= len.min(segment.used);
            }
            if expires > 0 {
                self.expiring.subtract(start, expires, len);
            }
            self.changed.insert(start);
            self.refile(start, before);
        }
    }

    /// Counts no record of a log segment as needed any more.
    pub(crate) fn forget_all(&mut self, offset: u64) {
        let before = self.effective(offset);
        if let Some(segment) = self.map.get_mut(&offset) {
            segment.used = 0;
        }
        self.changed.insert(offset);
        self.refile(offset, before);
    }

    /// Returns the log segment that contains an offset.
    fn log_of(&self, offset: u64) -> Option<u64> {
        let (&start, segment) = self.map.range(..=offset).next_back()?;
        (offset - start < SEGMENT && segment.kind == SegmentKind::Log).then_some(start)
    }
}
