//! A medium that counts flushed lines and fences: [`Counting`].
//!
//! The cost of an update of a durable structure is the number of lines it writes and of fences it waits for,
//! which is the same on every machine. This medium counts them on top of any other, at the price of one
//! addition each.
#![allow(unsafe_code, reason = "hands the caller's promise on")]

use std::ops::Sub;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::flush::lines;
use crate::{AccessObserver, FileMedium, MediaError, Medium, MediumAccess, MediumBackend, MediumKind};

/// A medium that counts the flushes and fences of the medium below.
#[derive(Debug)]
pub struct Counting {
    medium: Medium,
    lines: AtomicU64,
    fences: AtomicU64,
}

/// Numbers of flushed lines and fences, since creation or between two readings (their difference).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlushCounts {
    /// Lines flushed; a line flushed twice counts twice.
    pub lines: u64,
    /// Fences.
    pub fences: u64,
}

impl Sub for FlushCounts {
    type Output = FlushCounts;

    fn sub(self, before: FlushCounts) -> FlushCounts {
        FlushCounts {
            lines: self.lines - before.lines,
            fences: self.fences - before.fences,
        }
    }
}

impl Counting {
    /// Wraps the medium with counters at zero.
    pub fn new(medium: impl Into<Medium>) -> Counting {
        Counting {
            medium: medium.into(),
            lines: AtomicU64::new(0),
            fences: AtomicU64::new(0),
        }
    }

    /// Returns the medium below.
    pub fn inner(&self) -> &Medium {
        &self.medium
    }

    /// Returns the current counts.
    pub fn counts(&self) -> FlushCounts {
        FlushCounts {
            lines: self.lines.load(Ordering::Relaxed),
            fences: self.fences.load(Ordering::Relaxed),
        }
    }
}

impl MediumAccess for Counting {
    #[inline]
    fn len(&self) -> u64 {
        self.medium.len()
    }

    #[inline]
    fn load(&self, offset: u64, into: &mut [u8]) {
        self.medium.load(offset, into);
    }

    #[inline]
    fn load_u64(&self, offset: u64) -> u64 {
        self.medium.load_u64(offset)
    }

    #[inline]
    unsafe fn slice(&self, offset: u64, len: usize) -> &[u8] {
        // SAFETY: the caller upholds the contract of the medium below.
        unsafe { self.medium.slice(offset, len) }
    }

    #[inline]
    fn prefetch(&self, offset: u64) {
        self.medium.prefetch(offset);
    }

    #[inline]
    fn store(&self, offset: u64, bytes: &[u8]) {
        self.medium.store(offset, bytes);
    }

    #[inline]
    fn store_u64(&self, offset: u64, value: u64) {
        self.medium.store_u64(offset, value);
    }

    #[inline]
    fn flush(&self, offset: u64, len: u64) {
        self.lines.fetch_add(lines(offset, len), Ordering::Relaxed);
        self.medium.flush(offset, len);
    }

    #[inline]
    fn fence(&self) -> Result<(), MediaError> {
        self.fences.fetch_add(1, Ordering::Relaxed);
        self.medium.fence()
    }
}

impl MediumBackend for Counting {
    fn kind(&self) -> MediumKind {
        self.medium.kind()
    }

    fn grow(&self, new_len: u64) -> Result<(), MediaError> {
        self.medium.grow(new_len)
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        self.medium.reserve(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        self.medium.discard(offset, len)
    }

    fn truncate(&self, len: u64) -> Result<u64, MediaError> {
        self.medium.truncate(len)
    }

    fn can_gather(&self) -> bool {
        self.medium.can_gather()
    }

    fn gather(&self, offset: u64, len: u64) -> bool {
        self.medium.gather(offset, len)
    }

    fn allocated(&self) -> Result<u64, MediaError> {
        self.medium.allocated()
    }

    fn refresh(&self) -> Result<u64, MediaError> {
        self.medium.refresh()
    }

    fn sync(&self) -> Result<(), MediaError> {
        self.medium.sync()
    }

    fn fence_is_durable(&self) -> bool {
        self.medium.fence_is_durable()
    }

    fn observer(&self) -> Option<(Arc<dyn AccessObserver>, u64)> {
        self.medium.observer()
    }

    fn as_file(&self) -> Option<&FileMedium> {
        self.medium.as_file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dram;

    #[test]
    fn lines_are_counted_by_what_a_range_overlaps() {
        let medium = Counting::new(Dram::new(4096).unwrap());
        for (offset, len) in [(0, 0), (0, 1), (60, 8), (64, 128), (8, 64)] {
            medium.flush(offset, len);
        }
        let before = medium.counts();
        assert_eq!(before, FlushCounts { lines: 7, fences: 0 });
        medium.persist(0, 64).unwrap();
        assert_eq!(medium.counts() - before, FlushCounts { lines: 1, fences: 1 });
    }
}
