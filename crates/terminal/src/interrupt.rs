//! Ctrl-C.
//!
//! A command that can stop in the middle holds a [`Guard`] and watches [`Guard::requested`] or awaits
//! [`Guard::wait`]. Without a guard, and at the second Ctrl-C, the program ends at once: a pool holds either
//! all of a change or nothing of it, whenever its process dies. Directories named by [`remove_on_exit`] are
//! removed then.
//!
//! A program that runs a script ends at the latest 350 ms after the first Ctrl-C ([`exit_when_late`]): an
//! operator in the middle of a large batch, or a reader of its output that does not read, cannot keep it.
//!
//! No Ctrl-C is lost: whether a guard lives and whether it was asked to stop change under one lock, so that a
//! request reaches either the guard, whose [`Guard::end`] tells of it at the latest, or ends the program.
//!
//! Ctrl-C ends a query, an import between two batches, a compaction between two steps, and a commit that
//! builds indexes. The shell returns to its prompt after 200 ms, and leaves what has not stopped by then to
//! end unseen.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, process, thread};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::CliError;

/// True while a guard lives. `REQUESTED` is written with this locked.
static GUARDED: Mutex<bool> = Mutex::new(false);
static REQUESTED: AtomicBool = AtomicBool::new(false);
static WAKE: Notify = Notify::const_new();
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// True if the program ends soon after the first Ctrl-C.
static EXIT_WHEN_LATE: AtomicBool = AtomicBool::new(false);

/// Time from the first Ctrl-C to the end of the process.
const EXIT_DELAY: Duration = Duration::from_millis(350);

/// Starts to listen, on a thread of its own; from here on no Ctrl-C ends the process by itself. Call once.
pub fn listen() {
    if !can_open_files() {
        return;
    }
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return; // Ctrl-C then kills the process, as it does any other
    };
    let signals = {
        let _context = runtime.enter();
        survive_file_limit();
        signal(SignalKind::interrupt())
    };
    let Ok(mut signals) = signals else { return };
    thread::spawn(move || {
        runtime.block_on(async {
            let mut late = false;
            loop {
                let received = if late {
                    match timeout(EXIT_DELAY, signals.recv()).await {
                        Ok(received) => received,
                        Err(_) => exit(),
                    }
                } else {
                    signals.recv().await
                };
                if received.is_none() {
                    return;
                }
                on_signal();
                late = EXIT_WHEN_LATE.load(Ordering::Relaxed);
            }
        });
    });
}

/// Returns false if the process may open too few files to start a runtime of tokio, which would panic.
#[must_use]
pub fn can_open_files() -> bool {
    let pairs: Vec<_> = (0..4).map(|_| UnixStream::pair()).collect();
    pairs.iter().all(Result::is_ok)
}

fn on_signal() {
    if !request() {
        exit();
    }
}

/// Ends the program, whatever its other threads do.
fn exit() -> ! {
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

/// Has the program end soon after the first Ctrl-C, even if what was asked to stop does not.
pub fn exit_when_late() {
    EXIT_WHEN_LATE.store(true, Ordering::Relaxed);
}

/// Has a write beyond the limit of file sizes (`ulimit -f`) be an error instead of the end of the process: a
/// signal that is listened to does not end it. Fails quietly, as the limit is rare.
fn survive_file_limit() {
    // Linux's number of SIGXFSZ on all architectures that are supported.
    const SIGXFSZ: i32 = 25;
    let _ = signal(SignalKind::from_raw(SIGXFSZ));
}

/// Has a directory removed when the program is interrupted.
pub fn remove_on_exit(directory: &Path) {
    locked(&TEMPORARY).push(directory.to_owned());
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While it lives, the first Ctrl-C is a request instead of the end. There is one at a time.
#[derive(Debug)]
pub struct Guard(());

impl Default for Guard {
    fn default() -> Self {
        Self::new()
    }
}

impl Guard {
    /// Takes Ctrl-C over, and forgets an earlier request.
    #[must_use]
    pub fn new() -> Self {
        let mut guarded = locked(&GUARDED);
        debug_assert!(!*guarded, "a command holds one guard");
        *guarded = true;
        REQUESTED.store(false, Ordering::SeqCst);
        Self(())
    }

    /// Ends what Ctrl-C could have stopped.
    ///
    /// # Errors
    /// [`CliError::Interrupted`] if Ctrl-C was pressed and came too late to be heard, so that what would
    /// follow does not begin.
    pub fn end(self) -> Result<(), CliError> {
        drop(self);
        // Nothing sets it without a guard, and only the next guard forgets it.
        if REQUESTED.load(Ordering::SeqCst) {
            return Err(CliError::Interrupted);
        }
        Ok(())
    }

    /// Returns the flag that is set once Ctrl-C is pressed.
    #[must_use]
    pub fn requested(&self) -> &'static AtomicBool {
        &REQUESTED
    }

    /// Returns once Ctrl-C was pressed.
    pub async fn wait(&self) {
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
