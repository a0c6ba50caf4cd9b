//! Pairs with their times of expiry: [`StorePair`], [`StoreLookup`], [`PairScan`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::Result;
use crate::scan_iterator::Scan;

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StorePair {
    /// The key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// The time at which the key expires, if it does, in whole milliseconds since 1970.
    pub expires: Option<SystemTime>,
}

/// The result of [`Store::look_up`](crate::Store::look_up).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreLookup {
    /// The key has this value.
    Found(StorePair),
    /// The key had a value that has expired. Its space may be reclaimed at any time, and the key is
    /// [`Missing`](Self::Missing) then.
    Expired,
    /// The key has no value.
    Missing,
}

/// An iterator like [`Scan`] that also returns times of expiry.
#[derive(Debug)]
pub struct PairScan(Scan);

impl PairScan {
    pub(crate) fn new(scan: Scan) -> Self {
        Self(scan)
    }
}

impl Iterator for PairScan {
    type Item = Result<StorePair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_pair()
    }
}

impl DoubleEndedIterator for PairScan {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_pair_back()
    }
}

/// Converts a time from its form in a record.
pub(crate) fn from_millis(millis: u64) -> SystemTime {
    let since = Duration::from_millis(millis);
    // Saturate: a time beyond the range of `SystemTime` is never reached.
    UNIX_EPOCH
        .checked_add(since)
        .unwrap_or(UNIX_EPOCH + Duration::from_millis(i64::MAX as u64))
}

/// Converts a time to its form in a record; times before 1970 are 0.
pub(crate) fn to_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
