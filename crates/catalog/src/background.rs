//! State of the background compaction, through which sessions and the thread in `compaction_thread.rs`
//! coordinate.
//!
//! Invariant: a writer that waits for the lock ends a merge that yields, whichever of them comes first: the
//! writer counts itself before it looks for a merge, and the merge announces itself before it looks for
//! writers.
//!
//! The thread merges when nobody has published for 200 ms, or after 16 publishes in a row. A merge is bounded
//! by 2^20 rows (a quarter of that where they are sorted), 64 MiB of DRAM (a quarter of the budget if that is
//! less) and 128 MiB/s. Larger groups are left to `compact` and `VACUUM`.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use halocline_columns::Table;

use crate::settings::Compaction;

/// Number of publishes in a row that put a merge off at most.
const MAX_DEFERRALS: u32 = 16;
/// Pause before a merge is tried again that has made way for a writer.
const PAUSE: Duration = Duration::from_millis(20);

/// Ids of the segments of tables whose merge met damage, by table uid.
type DamagedTables = BTreeMap<u64, Vec<u64>>;

/// State of the compaction of one database.
#[derive(Debug)]
pub struct Background {
    state: Mutex<CompactionState>,
    changed: Condvar,
    /// Ends the merge that is under way.
    cancel: AtomicBool,
    /// Set while a merge is under way that makes way for writers.
    yields: AtomicBool,
    /// Number of writers that wait for the lock.
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct CompactionState {
    mode: Compaction,
    /// Set while a version has been published that the thread has not looked at yet.
    has_news: bool,
    over: bool,
    thread: Option<JoinHandle<()>>,
    damaged: DamagedTables,
}

impl Background {
    /// Returns the state of a compaction that has not begun.
    pub fn new(mode: Compaction) -> Self {
        Self {
            state: Mutex::new(CompactionState {
                mode,
                has_news: false,
                over: false,
                thread: None,
                damaged: DamagedTables::new(),
            }),
            changed: Condvar::new(),
            cancel: AtomicBool::new(false),
            yields: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, CompactionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a version was published, which may be worth a merge. Calls `spawn` to start the thread of
    /// the compaction if there is none yet.
    pub fn published(&self, spawn: impl FnOnce() -> io::Result<JoinHandle<()>>) {
        let mut state = self.state();
        if state.mode == Compaction::Off || state.over {
            return;
        }
        state.has_news = true;
        if state.thread.is_none() {
            match spawn() {
                Ok(thread) => state.thread = Some(thread),
                Err(error) => tracing::warn!("no compaction in the background: {error}"),
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Sets the mode; `off` ends a merge that is under way.
    pub fn set_mode(&self, mode: Compaction) {
        self.state().mode = mode;
        if mode == Compaction::Off {
            self.cancel.store(true, Ordering::SeqCst);
        }
    }

    /// Returns the flag that ends the merge under way.
    pub fn cancel(&self) -> &AtomicBool {
        &self.cancel
    }

    /// Returns true if a merge of this table has met damage and its segments are still the same: another
    /// merge would meet it again.
    pub fn is_damaged(&self, table: &Table) -> bool {
        let state = self.state();
        let segments = state.damaged.get(&table.uid());
        segments.is_some_and(|segments| *segments == ids(table))
    }

    /// Records that a merge of this table has met damage. The table is left alone until its segments are
    /// others.
    pub fn note_damaged(&self, table: &Table) {
        self.state().damaged.insert(table.uid(), ids(table));
    }

    /// Announces a writer that waits for the lock, until the returned guard is dropped.
    pub fn announce_writer(&self) -> WaitingWriter<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if self.yields.load(Ordering::SeqCst) {
            self.cancel.store(true, Ordering::SeqCst);
        }
        WaitingWriter(self)
    }

    /// Waits for a publish and then until nobody has published for `quiet`. Returns false if the database is
    /// being closed.
    pub fn wait(&self, quiet: Duration) -> bool {
        let mut state = self.state();
        let mut disturbances = 0;
        loop {
            while !(state.over || state.has_news && state.mode == Compaction::Auto) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.has_news = false;
            let is_quiet = |state: &mut CompactionState| !state.over && !state.has_news;
            let waited = self.changed.wait_timeout_while(state, quiet, is_quiet);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            match (state.over, state.has_news) {
                (true, _) => return false,
                (false, true) if !quiet.is_zero() && disturbances < MAX_DEFERRALS => disturbances += 1,
                (false, _) => return true,
            }
        }
    }

    /// Pauses for a writer. Returns false if the database is being closed or the compaction was switched off.
    pub fn pause(&self) -> bool {
        let goes_on = |state: &mut CompactionState| !state.over && state.mode == Compaction::Auto;
        let waited = self.changed.wait_timeout_while(self.state(), PAUSE, goes_on);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        goes_on(&mut state)
    }

    /// Prepares a merge, which makes way for writers if `yields`. Returns false if it must not begin now.
    pub fn enter(&self, yields: bool) -> bool {
        self.cancel.store(false, Ordering::SeqCst);
        self.yields.store(yields, Ordering::SeqCst);
        // A writer that comes after this store sees that the merge yields; one that came before is counted
        // below.
        let state = self.state();
        !state.over && state.mode == Compaction::Auto && !(yields && self.waiting.load(Ordering::SeqCst) > 0)
    }

    /// Notes the end of the merge for which [`enter`](Self::enter) returned true.
    pub fn leave(&self) {
        self.yields.store(false, Ordering::SeqCst);
    }

    /// Ends the compaction and joins its thread.
    pub fn end(&self) {
        let mut state = self.state();
        state.over = true;
        self.cancel.store(true, Ordering::SeqCst);
        let thread = state.thread.take();
        drop(state);
        self.changed.notify_all();
        if let Some(thread) = thread {
            // A thread that panicked has ended as well.
            let _ = thread.join();
        }
    }
}

/// Returns the ids of the segments of a table.
fn ids(table: &Table) -> Vec<u64> {
    table.segments().iter().map(|segment| segment.id()).collect()
}

/// A guard that stands for a writer waiting for the lock.
pub struct WaitingWriter<'a>(&'a Background);

impl Drop for WaitingWriter<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
