//! Verification of all stores of a pool: [`Stores::check`].
//!
//! Invariant: locks are held for one leaf at a time, or a part of one, and never while the caller's function
//! runs. So commits and checkpoints go on, and a check can be cancelled soon.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, TryLockError};
use std::time::Duration;

use zerocopy::IntoBytes;

use crate::catalog_parts::load_catalog;
use crate::check_step::{CheckedStep, StepProblem};
use crate::error::Result;
use crate::layout::{CHECKPOINT_COPY, Checkpoint};
use crate::recover::is_valid;
use crate::state::{StoreState, StoresState};
use crate::stores::Stores;

/// How often a check that waits for a checkpoint asks whether it is cancelled.
const PAUSE: Duration = Duration::from_millis(10);

/// Times that a reader looks again at a copy of the checkpoint that seems to be damaged.
const MAX_LOOKS: usize = 50;

/// The progress of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoresCheckProgress {
    /// Keys verified.
    pub keys: u64,
    /// Keys that the stores had when the check began.
    pub total: u64,
}

/// A defect of the stores. Offsets count from the start of the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoresProblem {
    /// A copy of the checkpoint is damaged. The next checkpoint replaces it.
    Checkpoint {
        /// The offset of the copy.
        offset: u64,
    },
    /// The catalog, which names stores and segments, is damaged. The next checkpoint replaces it.
    Catalog {
        /// The offset of the segment, or of the catalog's first one.
        offset: u64,
    },
    /// A branch, a leaf or a record of a store is damaged.
    Damage {
        /// The name of the store.
        store: String,
        /// The offset of the branch, leaf or record.
        offset: u64,
        /// The damage.
        what: &'static str,
    },
    /// The counters of a store are wrong.
    Counters {
        /// The name of the store.
        store: String,
        /// The number of keys, and of bytes of keys and values, by the counters.
        counted: (u64, u64),
        /// The same by the records.
        found: (u64, u64),
    },
}

impl fmt::Display for StoresProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkpoint { offset } => write!(f, "the copy of the checkpoint at {offset} is damaged"),
            Self::Catalog { offset } => write!(f, "the catalog of the stores is damaged at {offset}"),
            Self::Damage { store, offset, what } => write!(f, "store '{store}': {what} at {offset}"),
            Self::Counters {
                store,
                counted,
                found,
            } => write!(
                f,
                "store '{store}' counts {} keys of {} bytes, but has {} of {} bytes",
                counted.0, counted.1, found.0, found.1
            ),
        }
    }
}

/// The result of [`Stores::check`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoresCheckReport {
    /// Number of stores.
    pub stores: u64,
    /// Number of branches.
    pub branches: u64,
    /// Number of leaves.
    pub leaves: u64,
    /// Number of keys.
    pub keys: u64,
    /// Bytes of the keys and their values.
    pub bytes: u64,
    /// All defects, not only the first.
    pub problems: Vec<StoresProblem>,
    /// Stores whose counters were not compared because of damage, or of writes during the check.
    pub uncounted: Vec<String>,
    /// True if the check was cancelled, so that the rest is not verified.
    pub cancelled: bool,
}

impl StoresCheckReport {
    /// Returns true if nothing that was verified is damaged.
    pub fn is_intact(&self) -> bool {
        self.problems.is_empty()
    }
}

impl Stores {
    /// Reads all branches, leaves and newest records, both copies of the checkpoint and the catalog, and
    /// verifies them against their checksums and each other. Reads and writes go on meanwhile. `progress` is
    /// called after every leaf, and after every 8 MiB of keys and values, without any lock, and cancels the
    /// check by [`ControlFlow::Break`]. It is also called every 10 ms while the check waits for a checkpoint
    /// in progress before it begins.
    ///
    /// Versions that only a snapshot sees, and the heads of frames in the log, are not verified. Stores that
    /// are [open for reading](Self::open_reader) are verified beside their writer, if they have one: counters
    /// that differ are not compared then. O(bytes).
    ///
    /// # Errors
    /// [`StoreError::Poisoned`](crate::StoreError::Poisoned): after a failed write the pool has to be opened
    /// again first. For a reader [`StoreError::Stale`](crate::StoreError::Stale) and
    /// [`StoreError::Overtaken`](crate::StoreError::Overtaken). Damage is part of the report.
    pub fn check(
        &self,
        progress: &mut dyn FnMut(StoresCheckProgress) -> ControlFlow<()>,
    ) -> Result<StoresCheckReport> {
        let state = &*self.handle.state;
        if !self.is_reader() {
            state.writable()?;
        }
        let mut report = StoresCheckReport::default();
        let waiting = StoresCheckProgress { keys: 0, total: 0 };
        if state
            .check_checkpoint(&mut report, &mut || progress(waiting))
            .is_break()
        {
            report.cancelled = true;
            return Ok(report);
        }
        // Of damage the check makes a report.
        let is_settled = state.settle().is_ok() && state.finish_deleted_ranges().is_ok();
        let stores: Vec<_> = state.stores().values().cloned().collect();
        let total = stores
            .iter()
            .map(|store| store.keys.load(Ordering::Relaxed))
            .sum();
        for store in stores {
            report.stores += 1;
            if state
                .check_store(&store, total, &mut report, progress)?
                .is_break()
            {
                report.cancelled = true;
                break;
            }
        }
        if !is_settled {
            let is_of_counters = |problem: &StoresProblem| matches!(problem, StoresProblem::Counters { .. });
            report.problems.retain(|problem| !is_of_counters(problem));
            report.uncounted = state.stores().keys().cloned().collect();
        }
        Ok(report)
    }
}

impl StoresState {
    /// Verifies both copies of the checkpoint, and the catalog. Calls `waiting` while it waits for a
    /// checkpoint in progress, which stores one copy after the other.
    fn check_checkpoint(
        &self,
        report: &mut StoresCheckReport,
        waiting: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let _no_checkpoint = loop {
            match self.maintenance.try_lock() {
                Ok(guard) => break guard,
                Err(TryLockError::Poisoned(guard)) => break guard.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    waiting()?;
                    std::thread::sleep(PAUSE);
                }
            }
        };
        let mut newest: Option<Checkpoint> = None;
        for offset in [self.slab.root(), self.slab.root() + CHECKPOINT_COPY] {
            let mut copy = self.load_copy(offset);
            // A writer elsewhere may be storing it.
            let looks = if self.observer.is_some() { MAX_LOOKS } else { 0 };
            for _ in 0..looks {
                if copy.is_some() {
                    break;
                }
                waiting()?;
                std::thread::sleep(PAUSE);
                copy = self.load_copy(offset);
            }
            let Some(copy) = copy else {
                report.problems.push(StoresProblem::Checkpoint { offset });
                continue;
            };
            if newest.is_none_or(|newest| newest.number.get() < copy.number.get()) {
                newest = Some(copy);
            }
        }
        // The catalog of an older checkpoint may be overwritten by a writer elsewhere; a reader has read its
        // own.
        if let Some(checkpoint) = newest.filter(|_| self.observer.is_none())
            && let Err(damage) = load_catalog(&self.slab, &checkpoint, self.opening)
        {
            let offset = damage.offset;
            report.problems.push(StoresProblem::Catalog { offset });
            self.committer().catalog.must_renew = true;
        }
        ControlFlow::Continue(())
    }

    /// Returns a copy of the checkpoint if it is intact.
    fn load_copy(&self, offset: u64) -> Option<Checkpoint> {
        let mut copy = Checkpoint::default();
        self.medium().load(offset, copy.as_mut_bytes());
        is_valid(&copy).then_some(copy)
    }

    /// Returns the newest commit, and the counters of a store as of it.
    fn counters(&self, store: &StoreState) -> (u64, (u64, u64)) {
        let committer = self.committer();
        let (keys, bytes) = (&store.keys, &store.bytes);
        (
            committer.commit,
            (keys.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed)),
        )
    }

    fn check_store(
        &self,
        store: &Arc<StoreState>,
        total: u64,
        report: &mut StoresCheckReport,
        progress: &mut dyn FnMut(StoresCheckProgress) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let before = self.counters(store);
        let problems = report.problems.len();
        let (mut found, mut path, mut at) = ((0, 0), Vec::new(), Some(Vec::new()));
        while let Some(from) = at {
            // A reader reads a step again if its writer has used space again meanwhile.
            let step = self.reading(self.visible.load(Ordering::Acquire), || {
                let trees = store.read();
                // The pages of a dropped store may be in use for others.
                let is_there = !store.dropped.load(Ordering::Acquire);
                Ok(is_there.then(|| trees.check_step(self, store.id, &from, &path)))
            })?;
            let Some(step) = step else {
                return Ok(ControlFlow::Continue(()));
            };
            let CheckedStep {
                branches,
                leaves,
                keys,
                bytes,
                problems,
                path: visited,
                next,
            } = step;
            report.branches += branches;
            report.leaves += leaves;
            report.keys += keys;
            report.bytes += bytes;
            found = (found.0 + keys, found.1 + bytes);
            let named = |StepProblem { offset, what }| StoresProblem::Damage {
                store: store.name.clone(),
                offset,
                what,
            };
            report.problems.extend(problems.into_iter().map(named));
            (path, at) = (visited, next);
            let stopped = progress(StoresCheckProgress {
                keys: report.keys,
                total,
            });
            if stopped.is_break() {
                return Ok(stopped);
            }
        }
        // A writer elsewhere changes leaves in place. Without a commit in between, the counters can only have
        // changed by keys that expired.
        let is_beside = self.observer.is_some() && found != before.1;
        if report.problems.len() > problems || self.counters(store) != before || is_beside {
            report.uncounted.push(store.name.clone());
        } else if found != before.1 {
            report.problems.push(StoresProblem::Counters {
                store: store.name.clone(),
                counted: before.1,
                found,
            });
        }
        Ok(ControlFlow::Continue(()))
    }
}
