//! Not writing faster than allowed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait after which the wish to cancel is looked at.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Holds a writer back to an average of bytes per second, from its start on.
pub(super) struct Throttle<'a> {
    limit: Option<u64>,
    cancel: &'a AtomicBool,
    start: Instant,
}

impl<'a> Throttle<'a> {
    pub(super) fn new(limit: Option<u64>, cancel: &'a AtomicBool) -> Self {
        Self {
            limit,
            cancel,
            start: Instant::now(),
        }
    }

    /// Waits until `written` bytes in all are not too many, or until the work is cancelled.
    pub(super) fn after(&self, written: u64) {
        let Some(limit) = self.limit else {
            return;
        };
        while let Some(wait) = early(written, limit, self.start.elapsed()) {
            if self.cancel.load(Ordering::Relaxed) {
                return;
            }
            thread::sleep(wait.min(CANCEL_CHECK_INTERVAL));
        }
    }
}

/// Returns how long to wait, after `elapsed`, until `written` bytes are within `limit` bytes per second;
/// `None` if they already are.
fn early(written: u64, limit: u64, elapsed: Duration) -> Option<Duration> {
    let seconds = written as f64 / limit.max(1) as f64;
    let due = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    due.checked_sub(elapsed).filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_time() {
        let second = Duration::from_secs(1);
        assert_eq!(early(0, 100, Duration::ZERO), None);
        assert_eq!(early(200, 100, second), Some(second));
        assert_eq!(early(100, 100, second), None);
        assert_eq!(early(100, 0, Duration::ZERO), Some(second * 100));
    }

    #[test]
    fn a_cancelled_writer_does_not_wait() {
        let cancel = AtomicBool::new(true);
        Throttle::new(Some(1), &cancel).after(u64::MAX);
        Throttle::new(None, &AtomicBool::new(false)).after(u64::MAX);
    }
}
