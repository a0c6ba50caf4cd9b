//! Ctrl-C.
//!
//! A command that can stop in the middle holds a [`Guard`] and watches [`Guard::requested`] or awaits
//! [`Guard::wait`]. Without a guard, and at the second Ctrl-C, the program ends at once: a pool holds either all of a
//! change or nothing of it, whenever its process dies. Directories named by [`remove_on_exit`] are removed then.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{fs, process, thread};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

static GUARDS: AtomicUsize = AtomicUsize::new(0);
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
    if GUARDS.load(Ordering::SeqCst) > 0 && !REQUESTED.swap(true, Ordering::SeqCst) {
        WAKE.notify_waiters();
        return;
    }
    for directory in TEMPORARY
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .drain(..)
    {
        let _ = fs::remove_dir_all(directory);
    }
    let _ = writeln!(io::stderr(), "\nerror: interrupted");
    process::exit(130);
}

/// Has a directory removed when the program is interrupted.
pub(crate) fn remove_on_exit(directory: &Path) {
    TEMPORARY
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .push(directory.to_owned());
}

/// While it lives, the first Ctrl-C is a request instead of the end.
pub(crate) struct Guard(());

impl Guard {
    pub(crate) fn new() -> Self {
        REQUESTED.store(false, Ordering::SeqCst);
        GUARDS.fetch_add(1, Ordering::SeqCst);
        Self(())
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
        GUARDS.fetch_sub(1, Ordering::SeqCst);
    }
}
