//! Ctrl-C.
//!
//! A command that can stop in the middle holds a [`Guard`] and watches [`Guard::requested`] or awaits
//! [`Guard::wait`]. Without a guard, and at the second Ctrl-C, the program ends at once: a pool holds either all of a
//! change or nothing of it, whenever its process dies. Directories named by [`remove_on_exit`] are removed then.
//!
//! No Ctrl-C is lost: whether a guard lives and whether it was asked to stop change under one lock, so that a request
//! reaches either the guard, whose [`Guard::end`] tells of it at the latest, or ends the program.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, process, thread};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::error::CliError;

/// Whether a guard lives. `REQUESTED` is written with this locked.
static GUARDED: Mutex<bool> = Mutex::new(false);
static REQUESTED: AtomicBool = AtomicBool::new(false);
static WAKE: Notify = Notify::const_new();
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Starts to listen, on a thread of its own; from here on no Ctrl-C ends the process by itself. Call once.
pub(crate) fn listen() {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return; // Ctrl-C then kills the process, as it does any other
    };
    let signals = {
        let _context = runtime.enter();
        signal(SignalKind::interrupt())
    };
    let Ok(mut signals) = signals else { return };
    thread::spawn(move || {
        runtime.block_on(async {
            while signals.recv().await.is_some() {
                on_signal();
            }
        });
    });
}

fn on_signal() {
    if request() {
        return;
    }
    for directory in locked(&TEMPORARY).drain(..) {
        let _ = fs::remove_dir_all(directory);
    }
    let _ = writeln!(io::stderr(), "\nerror: interrupted");
    process::exit(130);
}

/// Asks the living guard to stop; false where there is none, or it was asked before.
fn request() -> bool {
    let guarded = locked(&GUARDED);
    let first = *guarded && !REQUESTED.swap(true, Ordering::SeqCst);
    if first {
        WAKE.notify_waiters();
    }
    first
}

/// Has a directory removed when the program is interrupted.
pub(crate) fn remove_on_exit(directory: &Path) {
    locked(&TEMPORARY).push(directory.to_owned());
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While it lives, the first Ctrl-C is a request instead of the end. There is one at a time.
pub(crate) struct Guard(());

impl Guard {
    pub(crate) fn new() -> Self {
        let mut guarded = locked(&GUARDED);
        debug_assert!(!*guarded, "a command holds one guard");
        *guarded = true;
        REQUESTED.store(false, Ordering::SeqCst);
        Self(())
    }

    /// Ends what Ctrl-C could have stopped: an error where it was pressed and came too late to be heard, so that what
    /// would follow does not begin.
    pub(crate) fn end(self) -> Result<(), CliError> {
        drop(self);
        // Nothing sets it without a guard, and only the next guard forgets it.
        if REQUESTED.load(Ordering::SeqCst) {
            return Err(CliError::Interrupted);
        }
        Ok(())
    }

    /// Set once Ctrl-C was pressed.
    pub(crate) fn requested(&self) -> &'static AtomicBool {
        &REQUESTED
    }

    /// Returns once Ctrl-C was pressed.
    pub(crate) async fn wait(&self) {
        loop {
            let woken = WAKE.notified();
            if REQUESTED.load(Ordering::SeqCst) {
                return;
            }
            woken.await;
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        *locked(&GUARDED) = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_reaches_the_guard_or_nobody() {
        assert!(!request(), "there is no guard");
        let guard = Guard::new();
        assert!(request());
        assert!(!request(), "the second one ends the program");
        assert!(matches!(guard.end(), Err(CliError::Interrupted)));
        let guard = Guard::new();
        assert!(!guard.requested().load(Ordering::SeqCst), "it was told already");
        assert!(guard.end().is_ok());
    }
}
