//! A medium that counts flushed lines and fences: [`Counting`].
//!
//! The cost of an update of a durable structure is the number of lines it writes and of fences it waits for,
//! which is the same on every machine. This medium counts them on top of any other, at the price of one
//! addition each.

use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::flush::lines;
use crate::{MediaError, Medium, MediumAccess, MediumBackend, forward_medium};

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
    forward_medium!(medium: len, load, load_u64, slice, prefetch, store, store_u64);

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
    forward_medium!(
        medium: kind, grow, reserve, discard, truncate, can_gather, gather, allocated, refresh, sync,
        fence_is_durable, observer, as_file
    );
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
