//! State of the scrub, and [`DamageLog`], the list of the damage that the scrub or a merge in the background
//! has found.
//!
//! It reads steps of at most 1 MiB, and rests a minute after each pass.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most bytes verified in one step.
const MAX_STEP_BYTES: usize = 1 << 20;
/// Least number of steps per second, so that the reads are spread evenly.
const MIN_STEPS_PER_SECOND: u64 = 8;

/// Damage found in the background: a sentence for each finding, without duplicates.
#[derive(Debug, Default)]
pub struct DamageLog(Mutex<BTreeSet<String>>);

impl DamageLog {
    fn list(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a finding and logs a warning, unless the finding is known.
    pub fn add(&self, what: String) {
        let mut list = self.list();
        if !list.contains(&what) {
            tracing::warn!("{what}");
            list.insert(what);
        }
    }

    /// Returns all findings.
    pub fn all(&self) -> Vec<String> {
        self.list().iter().cloned().collect()
    }
}

/// State of the scrub of one database.
#[derive(Debug, Default)]
pub struct Scrub {
    state: Mutex<ScrubState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ScrubState {
    /// Bytes per second; `None` while the scrub is off.
    rate: Option<u64>,
    /// Number of completed passes.
    passes: u64,
    over: bool,
    thread: Option<JoinHandle<()>>,
}

impl Scrub {
    fn state(&self) -> MutexGuard<'_, ScrubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the rate in bytes per second; none switches the scrub off. Calls `spawn` to start the thread if
    /// there is none yet.
    pub fn set(&self, rate: Option<u64>, spawn: impl FnOnce() -> io::Result<JoinHandle<()>>) {
        let mut state = self.state();
        state.rate = rate;
        if rate.is_some() && state.thread.is_none() && !state.over {
            match spawn() {
                Ok(thread) => state.thread = Some(thread),
                Err(error) => tracing::warn!("no scrub: {error}"),
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Ends the scrub and joins its thread.
    pub fn end(&self) {
        let mut state = self.state();
        state.over = true;
        let thread = state.thread.take();
        drop(state);
        self.changed.notify_all();
        if let Some(thread) = thread {
            // A thread that panicked has ended as well.
            let _ = thread.join();
        }
    }

    /// Waits until the scrub is switched on. Returns false if the database is being closed.
    pub fn wait(&self) -> bool {
        let off = |state: &mut ScrubState| !state.over && state.rate.is_none();
        let state = self.changed.wait_while(self.state(), off);
        !state.unwrap_or_else(PoisonError::into_inner).over
    }

    /// Waits for `time`. Returns false if the database is being closed or the scrub was switched off.
    pub fn pause(&self, time: Duration) -> bool {
        let on = |state: &mut ScrubState| !state.over && state.rate.is_some();
        let waited = self.changed.wait_timeout_while(self.state(), time, on);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        on(&mut state)
    }

    /// Waits for as long as reading `bytes` takes at the set rate. Returns as [`pause`](Self::pause) does.
    pub fn throttle(&self, bytes: u64) -> bool {
        let rate = self.state().rate.unwrap_or(1).max(1);
        self.pause(Duration::from_secs_f64(bytes as f64 / rate as f64))
    }

    /// Returns the number of bytes to verify in one step.
    pub fn step_bytes(&self) -> usize {
        let rate = self.state().rate.unwrap_or(1);
        usize::try_from(rate / MIN_STEPS_PER_SECOND)
            .unwrap_or(MAX_STEP_BYTES)
            .clamp(1 << 16, MAX_STEP_BYTES)
    }

    /// Counts a completed pass.
    pub fn count_pass(&self) {
        self.state().passes += 1;
        self.changed.notify_all();
    }

    /// Waits until at least `least` passes are complete, or the thread has ended.
    #[cfg(any(test, feature = "faults"))]
    pub fn wait_for_passes(&self, least: u64) {
        let fewer = |state: &mut ScrubState| state.passes < least && !state.over;
        drop(self.changed.wait_while(self.state(), fewer));
    }
}
