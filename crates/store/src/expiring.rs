//! The log segments with records that expire: [`ExpiringSegments`], in DRAM.
//!
//! A catalog has only the latest expiry of each segment. Until the records of a segment are
//! [read](ExpiringSegments::set) after an opening, all of it counts as needed until then.

use std::collections::{BTreeSet, HashMap};

use crate::expiry::ExpiryHistogram;

/// The expiries of a segment.
#[derive(Debug, Default)]
struct ExpiringSegment {
    histogram: ExpiryHistogram,
    /// Bytes that have expired as of the time to which it was set.
    expired: u64,
    /// The next time at which more expire.
    next: Option<u64>,
}

/// All log segments with records that expire.
#[derive(Debug, Default)]
pub(crate) struct ExpiringSegments {
    segments: HashMap<u64, ExpiringSegment>,
    /// The segments by the time at which more of them expires.
    by_time: BTreeSet<(u64, u64)>,
    /// Segments of which only the latest expiry is known.
    unknown: BTreeSet<u64>,
    /// The time in ms since 1970 up to which records count as expired.
    now: u64,
}

impl ExpiringSegments {
    /// Returns those of a catalog: offset, needed bytes, and the latest expiry or 0.
    pub(crate) fn of_catalog(segments: impl Iterator<Item = (u64, u64, u64)>) -> Self {
        let mut expiring = Self::default();
        for (offset, used, expires) in segments.filter(|(_, _, expires)| *expires > 0) {
            expiring.add(offset, expires, used);
            expiring.unknown.insert(offset);
        }
        expiring
    }

    /// Returns the bytes of a segment that have expired.
    pub(crate) fn expired(&self, offset: u64) -> u64 {
        if self.segments.is_empty() {
            0
        } else {
            self.segments.get(&offset).map_or(0, |segment| segment.expired)
        }
    }

    /// Adds bytes of a segment that expire at a time.
    pub(crate) fn add(&mut self, offset: u64, expires: u64, bytes: u64) {
        let segment = self.segments.entry(offset).or_default();
        segment.histogram.add(expires, bytes);
        self.set_time(offset);
    }

    /// Subtracts bytes of a segment that expire at a time.
    pub(crate) fn subtract(&mut self, offset: u64, expires: u64, bytes: u64) {
        if let Some(segment) = self.segments.get_mut(&offset) {
            segment.histogram.remove(expires, bytes);
            self.set_time(offset);
        }
    }

    /// Sets the expiries of the records of a segment with `used` needed bytes: those that are not needed
    /// have the same distribution, as far as is known. None expires after `latest`.
    pub(crate) fn set(&mut self, offset: u64, used: u64, latest: u64, records: &[(Option<u64>, u64)]) {
        if !self.unknown.remove(&offset) {
            return;
        }
        let all: u64 = records.iter().map(|(_, len)| len).sum();
        let needed = |len: u64| {
            if all > used {
                (u128::from(len) * u128::from(used) / u128::from(all.max(1))) as u64
            } else {
                len
            }
        };
        let mut histogram = ExpiryHistogram::default();
        for (expires, len) in records {
            if let Some(expires) = expires {
                histogram.add(latest.min(*expires), needed(*len));
            }
        }
        if let Some(segment) = self.segments.get_mut(&offset) {
            segment.histogram = histogram;
            self.set_time(offset);
        }
    }

    /// Removes a segment.
    pub(crate) fn remove(&mut self, offset: u64) {
        if let Some(segment) = self.segments.remove(&offset) {
            self.unknown.remove(&offset);
            if let Some(next) = segment.next {
                self.by_time.remove(&(next, offset));
            }
        }
    }

    /// Returns segments of which only the latest expiry is known, at most `most`.
    pub(crate) fn unknown(&self, most: usize) -> Vec<u64> {
        self.unknown.iter().take(most).copied().collect()
    }

    /// Sets the time, and returns the segments of which more has expired since, or less if the clock has gone
    /// back.
    pub(crate) fn due(&mut self, now: u64) -> Vec<u64> {
        let before = std::mem::replace(&mut self.now, now);
        if now < before {
            self.segments.keys().copied().collect()
        } else {
            let due = self.by_time.range(..=(now, u64::MAX));
            due.map(|(_, offset)| *offset).collect()
        }
    }

    /// Computes what of a segment has expired at the time.
    pub(crate) fn set_time(&mut self, offset: u64) {
        let Some(segment) = self.segments.get_mut(&offset) else {
            return;
        };
        segment.expired = segment.histogram.expired(self.now);
        let next = segment.histogram.next(self.now);
        let before = std::mem::replace(&mut segment.next, next);
        if next != before {
            if let Some(before) = before {
                self.by_time.remove(&(before, offset));
            }
            self.by_time.extend(next.map(|next| (next, offset)));
        }
    }
}
