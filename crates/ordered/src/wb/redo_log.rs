//! Redo logs: lists of words that are stored atomically with respect to crashes.
//!
//! Order: (1) the pairs of offsets and values; (2) their count, which makes the log valid; (3) the
//! words themselves; (4) the count 0. Each step is durable before the next. The changed nodes are
//! locked from (1) to (4), so a log that is found valid contains no words that were changed later.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use halocline_media::LINE;
use halocline_pool::SlabRecovery;

use crate::TreeError;
use crate::open_mode::begin_repair;
use crate::persistent::NodeWriter;

use super::fault::{WbFault, injected};
use super::layout::{LOG, LOGS, LOGS_AT, PAIRS, pair_offset};

/// The logs of a tree and their locks.
#[derive(Debug)]
pub(crate) struct RedoLogs {
    /// Offset of the first log.
    at: u64,
    used: [Mutex<()>; LOGS],
    /// Log to try first; it rotates.
    turn: AtomicUsize,
}

impl RedoLogs {
    /// Creates the state for the logs in a slab with this root.
    pub(super) fn new(root: u64) -> RedoLogs {
        RedoLogs {
            at: root + LOGS_AT,
            used: Default::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Reserves a log and returns its offset. A holder never waits for another thread.
    fn take(&self) -> (MutexGuard<'_, ()>, u64) {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let place = |turn: usize| (first + turn) % LOGS;
        for turn in 0..LOGS {
            let guard = match self.used[place(turn)].try_lock() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            return (guard, self.at + place(turn) as u64 * LOG);
        }
        let guard = self.used[place(0)].lock().unwrap_or_else(PoisonError::into_inner);
        (guard, self.at + place(0) as u64 * LOG)
    }

    /// Stores all words durably. Everything they reference has been flushed by the caller.
    pub(super) fn commit(&self, out: &mut NodeWriter<'_>, pairs: &[(u64, u64)]) {
        debug_assert!(pairs.len() <= PAIRS);
        let (_taken, log) = self.take();
        for (pair, (offset, value)) in pairs.iter().enumerate() {
            out.store(log + pair_offset(pair), *offset);
            out.store(log + pair_offset(pair) + 8, *value);
        }
        flush(out, log, pair_offset(pairs.len()));
        if !injected(WbFault::LogCountsEarly) {
            out.fence();
        }
        // The log is complete and durable; the count makes it valid.
        out.store(log, pairs.len() as u64);
        out.flush(log);
        if !injected(WbFault::LogAppliedEarly) {
            out.fence();
        }
        apply(out, pairs);
        if !injected(WbFault::LogClearedEarly) {
            out.fence();
        }
        // Cleared while the nodes are still locked: a later replay must not undo newer changes of the same
        // words.
        out.store(log, 0);
        if !injected(WbFault::LogNotCleared) {
            out.flush(log);
        }
        out.fence();
    }
}

/// Stores and flushes words.
fn apply(out: &mut NodeWriter<'_>, pairs: &[(u64, u64)]) {
    let mut line = None;
    for (offset, value) in pairs {
        let next = offset / LINE;
        if let Some(line) = line.filter(|line| *line != next) {
            out.flush(line * LINE);
        }
        out.store(*offset, *value);
        line = Some(next);
    }
    line.into_iter().for_each(|line| out.flush(line * LINE));
}

fn flush(out: &mut NodeWriter<'_>, offset: u64, len: u64) {
    for line in 0..len.div_ceil(LINE) {
        out.flush(offset + line * LINE);
    }
}

/// Applies and clears all valid logs.
///
/// # Errors
/// [`TreeError::Damaged`] if a log is inconsistent, [`TreeError::Media`].
pub(super) fn replay(recovery: &SlabRecovery) -> Result<(), TreeError> {
    let slab = recovery.slab();
    let medium = slab.medium();
    for number in 0..LOGS {
        let log = slab.root() + LOGS_AT + number as u64 * LOG;
        let count = medium.load_u64(log);
        if count == 0 || injected(WbFault::LogsIgnored) {
            continue;
        }
        let damaged = |reason: &str| TreeError::Damaged {
            name: slab.name().to_owned(),
            node: log,
            reason: reason.to_owned(),
        };
        let pairs: Vec<(u64, u64)> = (0..PAIRS.min(count as usize))
            .map(|pair| log + pair_offset(pair))
            .map(|at| (medium.load_u64(at), medium.load_u64(at + 8)))
            .collect();
        let fits = |offset: u64| offset.is_multiple_of(8) && slab.node_at(offset).is_some();
        if count > PAIRS as u64 || !pairs.iter().all(|pair| fits(pair.0)) {
            return Err(damaged("it is a log with words outside all nodes"));
        }
        if slab.sums().is_some() {
            return Err(damaged("it is a log in use, although the tree was closed"));
        }
        begin_repair(slab)?;
        let mut out = NodeWriter::new(medium);
        apply(&mut out, &pairs);
        out.fence();
        out.store(log, 0);
        out.flush(log);
        out.fence();
        out.done()?;
    }
    Ok(())
}
