//! Compaction in the background: a thread of the database merges segments when nobody has published for a moment, and
//! gives unused space back to the file system when there is nothing to merge.
//!
//! Invariants: each group of segments is merged in a transaction of its own of at most [`MAX_ROWS`] rows, so the writer's
//! lock is held for so long at most; a writer of this database that wants the lock ends the merge, which leaves nothing,
//! and the merge is tried again later. A table in which a merge meets damage is reported, and left alone as long as it has the same
//! segments: no merge hides the damage, and none is tried again and again. One that has been ended [`PATIENCE`] times in a row is let through. The thread
//! ends, within a batch of rows, before the last handle of the database is gone.
//!
//! The thread merges when nobody has published for 200 ms, or after 16 publishes in a row. A merge is bounded
//! by 2^20 rows (a quarter of that where they are sorted), 64 MiB of DRAM (a quarter of the budget if that is
//! less) and 128 MiB/s. Larger groups are left to `compact` and `VACUUM`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use halocline_columns::Table;
use halocline_columns::compact::CompactionPolicy;
use halocline_pool::PoolError;

use crate::database::Shared;
use crate::statement::{CompactOptions, WHEN_QUIET, compact_group, give_back};
use crate::{Compaction, EngineError};

/// Live rows that a merge makes at most, if they need not be sorted: 16 columns of so many take less than a second.
const MAX_ROWS: u64 = 1 << 20;
/// Bytes a second that merges write at most.
const BANDWIDTH: u64 = 128 << 20;
/// DRAM that merges use at most.
const MEMORY: usize = 64 << 20;
/// After so many merges of a group that writers have ended the next is not ended.
const PATIENCE: u32 = 3;
/// So many publishes in a row put a merge off.
const DISTURBANCES: u32 = 16;
/// How long to wait for a writer that has the lock.
const PAUSE: Duration = Duration::from_millis(20);

/// Segments that cannot be merged, by table.
type Damaged = BTreeMap<u64, Vec<u64>>;

/// What a database knows of its compaction in the background.
#[derive(Debug)]
pub(crate) struct Background {
    state: Mutex<State>,
    changed: Condvar,
    /// Ends the merge that is under way.
    cancel: AtomicBool,
    /// Is there a merge that makes way for writers.
    yields: AtomicBool,
    /// Writers that wait for the lock.
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct State {
    mode: Compaction,
    /// Has something been published that was not looked at.
    wanted: bool,
    over: bool,
    thread: Option<JoinHandle<()>>,
    /// Tables of which a merge met damage, by uid, with their segments at the time.
    damaged: Damaged,
}

/// How an attempt to merge has ended.
enum Step {
    /// A group was merged; there may be more.
    Merged,
    /// Nothing is worth merging.
    Nothing,
    /// A writer has, or wanted, the lock.
    MadeWay,
}

impl Background {
    pub(crate) fn new(mode: Compaction) -> Self {
        Self {
            state: Mutex::new(State {
                mode,
                wanted: false,
                over: false,
                thread: None,
                damaged: Damaged::new(),
            }),
            changed: Condvar::new(),
            cancel: AtomicBool::new(false),
            yields: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was published: it may be worth a merge now.
    pub(crate) fn published(shared: &Arc<Shared>) {
        let background = &shared.background;
        let mut state = background.state();
        if state.mode == Compaction::Off || state.over {
            return;
        }
        state.wanted = true;
        if state.thread.is_none() {
            let shared = Arc::clone(shared);
            let thread = std::thread::Builder::new().name("compaction".into());
            match thread.spawn(move || run(&shared)) {
                Ok(thread) => state.thread = Some(thread),
                Err(error) => tracing::warn!("no compaction in the background: {error}"),
            }
        }
        drop(state);
        background.changed.notify_all();
    }

    /// Switches it on or off; off ends a merge that is under way.
    pub(crate) fn set(shared: &Arc<Shared>, mode: Compaction) {
        shared.background.state().mode = mode;
        match mode {
            Compaction::Off => shared.background.cancel.store(true, Ordering::SeqCst),
            Compaction::Auto => Self::published(shared),
        }
    }

    /// Whether a merge of this table has met damage, and its segments are the same: it would meet it again.
    pub(crate) fn is_damaged(&self, table: &Table) -> bool {
        let state = self.state();
        let segments = state.damaged.get(&table.uid());
        segments.is_some_and(|segments| *segments == ids(table))
    }

    /// Takes note that a merge of this table has met damage: it is left alone until its segments are others.
    pub(crate) fn note_damaged(&self, table: &Table) {
        self.state().damaged.insert(table.uid(), ids(table));
    }

    /// Says that a writer wants the lock, until what this returns is dropped.
    pub(crate) fn writer(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if self.yields.load(Ordering::SeqCst) {
            self.cancel.store(true, Ordering::SeqCst);
        }
        Waiting(self)
    }

    /// Waits until something is to be done, and nobody has published for a moment; false at the end.
    fn wait(&self, quiet: Duration) -> bool {
        let mut state = self.state();
        let mut disturbances = 0;
        loop {
            while !(state.over || state.wanted && state.mode == Compaction::Auto) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.wanted = false;
            let is_quiet = |state: &mut State| !state.over && !state.wanted;
            let waited = self.changed.wait_timeout_while(state, quiet, is_quiet);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            match (state.over, state.wanted) {
                (true, _) => return false,
                (false, true) if !quiet.is_zero() && disturbances < DISTURBANCES => disturbances += 1,
                (false, _) => return true,
            }
        }
    }

    /// Waits a little; false at the end, or when it was switched off.
    fn pause(&self) -> bool {
        let goes_on = |state: &mut State| !state.over && state.mode == Compaction::Auto;
        let waited = self.changed.wait_timeout_while(self.state(), PAUSE, goes_on);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        goes_on(&mut state)
    }

    /// Prepares a merge; false if it must not begin now.
    fn enter(&self, yields: bool) -> bool {
        self.cancel.store(false, Ordering::SeqCst);
        self.yields.store(yields, Ordering::SeqCst);
        // Whoever comes after this sees that the merge makes way; whoever came before is seen here.
        let state = self.state();
        !state.over && state.mode == Compaction::Auto && !(yields && self.waiting.load(Ordering::SeqCst) > 0)
    }

    fn end(&self) {
        let mut state = self.state();
        state.over = true;
        self.cancel.store(true, Ordering::SeqCst);
        let thread = state.thread.take();
        drop(state);
        self.changed.notify_all();
        if let Some(thread) = thread {
            // One that has panicked is over, too.
            let _ = thread.join();
        }
    }
}

fn ids(table: &Table) -> Vec<u64> {
    table.segments().iter().map(|segment| segment.id()).collect()
}

/// A writer that waits for the lock.
pub(crate) struct Waiting<'a>(&'a Background);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ends the compaction and the scrub of a database with the last of its handles.
pub(crate) struct Owner(Arc<Shared>);

impl Owner {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self(Arc::clone(shared))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.background.end();
        self.0.scrub.end();
    }
}

fn run(shared: &Arc<Shared>) {
    let background = &shared.background;
    while background.wait(shared.rules.quiet) {
        let mut made_way = 0;
        loop {
            match step(shared, made_way < PATIENCE) {
                Ok(Step::Merged) => made_way = 0,
                Ok(Step::Nothing) => {
                    give_back(shared, WHEN_QUIET);
                    break;
                }
                Ok(Step::MadeWay) => {
                    made_way += 1;
                    if !background.pause() {
                        break;
                    }
                }
                Err(error) => {
                    tracing::warn!("compaction in the background: {error}");
                    break;
                }
            }
        }
    }
}

/// Merges the first group of segments that is worth it.
fn step(shared: &Arc<Shared>, yields: bool) -> Result<Step, EngineError> {
    let policy = CompactionPolicy {
        max_rows: MAX_ROWS,
        ..CompactionPolicy::default()
    };
    let options = CompactOptions {
        memory: Some(shared.options.memory.map_or(MEMORY, |all| (all / 4).min(MEMORY))),
        bandwidth: Some(BANDWIDTH),
        full: false,
    };
    let background = &shared.background;
    if !background.enter(yields) {
        return Ok(Step::MadeWay);
    }
    let merged = compact_group(shared, &policy, &options, &background.cancel);
    background.yields.store(false, Ordering::SeqCst);
    match merged {
        Ok(true) => Ok(Step::Merged),
        Ok(false) => Ok(Step::Nothing),
        Err(EngineError::Cancelled | EngineError::Pool(PoolError::Locked { .. })) => Ok(Step::MadeWay),
        Err(error) => Err(error),
    }
}
