//! Threads that share the tasks of a phase.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::{JoinError, JoinResult};

/// Makes the other threads stop if this one panics.
struct PanicGuard<'a>(&'a AtomicBool);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// The threads of a join. They stop as soon as one of them fails or the caller cancels.
#[derive(Debug)]
pub(super) struct JoinWorkers<'a> {
    pub(super) threads: usize,
    cancelled: &'a AtomicBool,
    failed: AtomicBool,
}

impl<'a> JoinWorkers<'a> {
    pub(super) fn new(threads: NonZeroUsize, cancelled: &'a AtomicBool) -> JoinWorkers<'a> {
        JoinWorkers {
            threads: threads.get(),
            cancelled,
            failed: AtomicBool::new(false),
        }
    }

    /// Fails if the join has to stop.
    ///
    /// # Errors
    /// [`JoinError::Interrupted`].
    #[inline]
    pub(super) fn check(&self) -> JoinResult<()> {
        if self.cancelled.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed) {
            return Err(JoinError::Interrupted);
        }
        Ok(())
    }

    /// Makes all threads stop.
    pub(super) fn stop(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Runs tasks 0 to `tasks - 1`, each on any thread, with a state per thread, which is ended by `finish`.
    ///
    /// # Errors
    /// The first one of any thread.
    pub(super) fn run<S>(
        &self,
        tasks: usize,
        init: impl Fn() -> JoinResult<S> + Sync,
        task: impl Fn(&mut S, usize) -> JoinResult<()> + Sync,
        finish: impl Fn(S) -> JoinResult<()> + Sync,
    ) -> JoinResult<()> {
        // Relaxed order suffices for the counter and the flags, which pass no data on: the caller sees what
        // the threads have written because the scope joins them.
        let next = AtomicUsize::new(0);
        let first = Mutex::new(None);
        let work = || -> JoinResult<()> {
            let mut state = init()?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= tasks {
                    return finish(state);
                }
                self.check()?;
                task(&mut state, number)?;
            }
        };
        let guarded = || {
            let _panics = PanicGuard(&self.failed);
            if let Err(error) = work() {
                let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                // A thread that stops because of another one's error comes later.
                if first.is_none() {
                    *first = Some(error);
                }
                self.failed.store(true, Ordering::Relaxed);
            }
        };
        let threads = self.threads.min(tasks).max(1);
        thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(guarded);
            }
            guarded();
        });
        match first.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }
}
