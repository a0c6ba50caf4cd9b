//! Back-pressure: while the log is larger than it should be, commits append half of what the keeper gains.
//!
//! So garbage gets less, whatever the medium, and commits go on meanwhile: a log that is full of garbage, as
//! when a long snapshot is dropped, does not hold them up until all of it is emptied.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::layout::SEGMENT;
use crate::state::StoresState;

/// Bytes that the keeper has to gain for each byte that a commit appends.
const GAINED_PER_BYTE: u64 = 2;

/// Bytes that commits may append while the log is larger than it should be.
#[derive(Debug, Default)]
pub(crate) struct CommitPace(AtomicI64);

impl CommitPace {
    /// Adds bytes that can be used again.
    pub(crate) fn earn(&self, bytes: u64) {
        // No other memory depends on this count. A commit that sees an old value only waits slightly too long
        // or too briefly.
        self.0.fetch_add(bytes as i64, Ordering::Relaxed);
    }

    /// Subtracts bytes that were appended.
    pub(crate) fn spend(&self, bytes: u64) {
        self.0.fetch_sub(bytes as i64, Ordering::Relaxed);
    }

    fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) < 0
    }
}

impl StoresState {
    /// Returns true if a commit has to wait until the keeper has gained space.
    pub(crate) fn is_ahead_of_keeper(&self) -> bool {
        !self.stopping.load(Ordering::Acquire) && self.pace.is_spent() && self.is_overfull()
    }

    /// Counts bytes that a group of commits has appended.
    pub(crate) fn count_appended(&self, bytes: u64) {
        if self.is_overfull() {
            self.pace.spend(GAINED_PER_BYTE * bytes)
        } else {
            self.pace.0.store(0, Ordering::Relaxed)
        }
    }

    /// Returns true if the log is so much larger than it should be that commits are slowed down. False if the
    /// keeper does not gain space, as readers may hold all of it.
    fn is_overfull(&self) -> bool {
        if !self.options.background || !self.reclaiming.load(Ordering::Acquire) {
            return false;
        }
        let segments = self.segments();
        let (all, live) = segments.log_bytes();
        let all = all - segments.tail_bytes();
        let percent = u64::from(self.options.garbage_percent);
        all > live * 100 / (100 - percent) + self.pending_bytes_of(live)
    }

    /// Counts segments that can be used again.
    pub(crate) fn count_freed(&self, segments: usize) {
        self.pace.earn(segments as u64 * SEGMENT);
    }
}
