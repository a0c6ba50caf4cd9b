//! The threads that serve connections.
//!
//! A connection stays with its thread, so that a request wakes no other one. Where commands wait for the
//! medium that would hold up the other connections of the thread; there, all threads share all connections,
//! and a thread that waits is replaced.

use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

/// The threads.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    handles: Vec<Handle>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    next: AtomicUsize,
    ends: watch::Sender<bool>,
}

impl Workers {
    /// Uses the threads of a runtime for all connections.
    pub(crate) fn shared(runtime: &Handle) -> Workers {
        Workers {
            handles: vec![runtime.clone()],
            threads: Mutex::default(),
            next: AtomicUsize::new(0),
            ends: watch::Sender::new(false),
        }
    }

    /// Starts threads with connections of their own.
    pub(crate) fn start(threads: usize) -> io::Result<Workers> {
        let ends = watch::Sender::new(false);
        let (mut handles, mut running) = (Vec::new(), Vec::new());
        for _ in 0..threads.max(1) {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            handles.push(runtime.handle().clone());
            let mut ends = ends.subscribe();
            let run = move || {
                // It also ends when the workers are gone.
                let _ = runtime.block_on(ends.wait_for(|ends| *ends));
            };
            let thread = thread::Builder::new().name("memcached".to_owned()).spawn(run)?;
            running.push(thread);
        }
        Ok(Workers {
            handles,
            threads: Mutex::new(running),
            next: AtomicUsize::new(0),
            ends,
        })
    }

    /// Returns the thread whose turn it is.
    pub(crate) fn next(&self) -> &Handle {
        let turn = self.next.fetch_add(1, Relaxed);
        &self.handles[turn % self.handles.len()]
    }

    /// Ends the threads, and waits for that. What they still do is given up.
    pub(crate) fn end(&self) {
        self.ends.send_replace(true);
        for thread in self
            .threads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
        {
            // A connection that panicked has said so.
            let _ = thread.join();
        }
    }
}
