//! When a checkpoint is due, and when commits wait for it.

use std::sync::atomic::Ordering;

use crate::committer::Committer;
use crate::state::StoresState;

/// Multiple of the limits of a checkpoint at which commits wait for it.
const OVERDUE_FACTOR: usize = 3;

/// Part of the needed bytes of the log, as its inverse, that is appended before a checkpoint is due. What was
/// emptied is used again after it.
const APPENDED_DIVISOR: u64 = 32;

/// Least number of appended bytes at which a checkpoint is due, unless the options say less.
const MIN_APPENDED_BYTES: u64 = 1 << 20;

impl StoresState {
    /// Returns true if the keeper is so far behind that commits have to wait for it.
    pub(crate) fn is_overdue(&self, committer: &Committer) -> bool {
        self.is_keeper_able()
            && (committer.pending_records > OVERDUE_FACTOR * self.options.pending_records
                || committer.pending_bytes > OVERDUE_FACTOR as u64 * self.pending_bytes())
    }

    /// Returns true if the keeper makes the checkpoints that are due.
    pub(crate) fn is_keeper_able(&self) -> bool {
        self.has_keeper.load(Ordering::Acquire)
            && !self.stopping.load(Ordering::Acquire)
            && self.writable().is_ok()
            // Commits go on until the log cannot grow, and fail then.
            && !self.failing.load(Ordering::Acquire)
    }

    /// Returns the appended bytes at which a checkpoint is due.
    pub(crate) fn pending_bytes(&self) -> u64 {
        let (_, live) = self.segments().log_bytes();
        self.pending_bytes_of(live)
    }

    pub(crate) fn pending_bytes_of(&self, live: u64) -> u64 {
        let most = self.options.pending_bytes;
        most.min((live / APPENDED_DIVISOR).max(MIN_APPENDED_BYTES))
    }

    /// Returns true if a limit is exceeded up to which commits wait for a checkpoint.
    pub(crate) fn is_checkpoint_due(&self, committer: &Committer) -> bool {
        committer.pending_records >= self.options.pending_records
            || committer.pending_bytes >= self.pending_bytes()
    }
}
