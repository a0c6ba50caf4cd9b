//! Turns of the keeper: it works for a short time, and pauses for those that commit and read.
//!
//! A thread that computes for several milliseconds keeps its CPU for as long as the system lets it, and
//! whoever wakes meanwhile waits for that: commits, readers, and the clients of a server. So the keeper
//! sleeps after each turn, which also leaves it its share of a CPU that is never idle. It does not pause
//! while commits wait for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::state::StoresState;

/// Length of a turn, after which the keeper pauses between two steps of its work.
const TURN: Duration = Duration::from_micros(100);

/// Length of a pause. Timers of the system may make it a little longer.
const PAUSE: Duration = Duration::from_micros(50);

/// The turns of the keeper.
#[derive(Debug, Default)]
pub(crate) struct KeeperTurns {
    /// The beginning of the turn, while the keeper works.
    began: Mutex<Option<Instant>>,
    /// Number of commits that wait for the keeper.
    waiting: AtomicUsize,
}

/// A commit that waits for the keeper, until it is dropped.
pub(crate) struct WaitingForKeeper<'a>(&'a KeeperTurns);

impl Drop for WaitingForKeeper<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl KeeperTurns {
    /// Notes that a commit waits.
    pub(crate) fn wait(&self) -> WaitingForKeeper<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        WaitingForKeeper(self)
    }

    fn is_awaited(&self) -> bool {
        // A commit that is not seen here waits for one pause more.
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Sets the beginning of the turn; `None` for none.
    fn set(&self, began: Option<Instant>) {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = began;
    }

    fn is_over(&self) -> bool {
        let began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        began.is_some_and(|began| began.elapsed() >= TURN)
    }
}

impl StoresState {
    /// Does the same as [`maintain`](Self::maintain), in turns.
    ///
    /// # Errors
    /// As [`maintain`](Self::maintain).
    pub(crate) fn maintain_in_turns(&self) -> Result<bool> {
        self.turns.set(Some(Instant::now()));
        let result = self.maintain();
        self.turns.set(None);
        result
    }

    /// Pauses if a turn of the keeper is over, unless commits wait for the keeper or the stores are closed.
    /// Called between steps, without locks that commits or readers take.
    pub(crate) fn end_turn(&self) {
        if !self.turns.is_over() {
            return;
        }
        let is_awaited = self.turns.is_awaited() || self.is_ahead_of_keeper();
        if !is_awaited && !self.stopping.load(Ordering::Acquire) {
            thread::sleep(PAUSE);
        }
        self.turns.set(Some(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_over_after_its_time_and_never_outside_of_the_keeper() {
        let turns = KeeperTurns::default();
        assert!(!turns.is_over());
        let now = Instant::now();
        turns.set(Some(now + TURN));
        assert!(!turns.is_over());
        turns.set(now.checked_sub(TURN));
        assert!(turns.is_over());
        turns.set(None);
        assert!(!turns.is_over());
    }

    #[test]
    fn commits_wait_until_they_are_done() {
        let turns = KeeperTurns::default();
        let (first, second) = (turns.wait(), turns.wait());
        drop(first);
        assert!(turns.is_awaited());
        drop(second);
        assert!(!turns.is_awaited());
    }
}
