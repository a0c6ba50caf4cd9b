//! The threads that look through an index together when a selection is large.
//!
//! Invariants: none is started before such a selection comes, none with one thread for queries; the sessions
//! of a database share them, so that large selections at the same time take turns on as many threads as one
//! may have.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use halocline_elf::Workers;

/// Most threads that a query or an index build uses, regardless of the settings.
pub const MAX_THREADS: usize = 1024;

/// Made by the sessions of a database, in their configuration found by plans.
#[derive(Default)]
pub struct SelectionThreads(Mutex<Option<Arc<Workers>>>);

impl SelectionThreads {
    /// Returns `threads` threads. An earlier set of another size ends once it is no longer used.
    pub fn workers(&self, threads: usize) -> Arc<Workers> {
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*workers {
            Some(workers) if workers.threads() == threads => Arc::clone(workers),
            _ => Arc::clone(workers.insert(Arc::new(Workers::new(threads)))),
        }
    }
}

impl fmt::Debug for SelectionThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SelectionThreads")
    }
}
