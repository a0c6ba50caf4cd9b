//! Commits: conditions are compared, records appended to the log, made durable, and put into the trees.
//!
//! Threads queue their commits; the one that gets the committer takes all that wait, and one fence makes them
//! durable together. Until then no reader sees them.
//!
//! Where commits need not be durable when they return, a later fence makes them so. Until then trees on the
//! slow tier must not lead to their records, which power loss could take away: memtables do.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use halocline_media::MediaError;
use halocline_pool::PoolError;

use crate::append::{Appender, Current, Overlay, Staged};
use crate::error::{Result, StoreError};
use crate::fault::{StoreFault, injected};
use crate::key_range::KeyRange;
use crate::leaf::EntrySlot;
use crate::log::{LogMark, LogWriter};
use crate::memtable::MemEntry;
use crate::record::RecordRef;
use crate::room::SegmentClaim;
use crate::segments::Freed;
use crate::snapshots::{KeptVersion, Snapshots};
use crate::state::{Located, StoreState, StoreTrees, StoresState};
use crate::tree::Damage;

/// Multiple of the limits of a checkpoint at which commits wait for it.
const OVERDUE: usize = 3;

/// Part of the needed bytes of the log, as its inverse, that is appended before a checkpoint is due. What was
/// emptied is used again after it.
const APPENDED: u64 = 32;

/// Least number of appended bytes at which a checkpoint is due, unless the options say less.
const LEAST_APPENDED: u64 = 1 << 20;

/// Longest time that a commit waits for space to be used again: a medium may be too slow for more.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Time after which a commit that waits looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Time for which a single commit trusts that the path still led to the file. A commit of several, which
/// share the cost, always looks.
const PLACE_TRUSTED: Duration = Duration::from_millis(50);

/// An operation of a batch.
#[derive(Clone)]
pub(crate) enum BatchOp {
    Put {
        store: Arc<StoreState>,
        key: Vec<u8>,
        value: Vec<u8>,
        /// Time of expiry in ms since 1970.
        expires: Option<u64>,
    },
    Delete {
        store: Arc<StoreState>,
        key: Vec<u8>,
    },
    Merge {
        store: Arc<StoreState>,
        key: Vec<u8>,
        operand: Vec<u8>,
    },
    DeleteRange {
        store: Arc<StoreState>,
        range: KeyRange,
    },
}

/// A condition under which a batch is committed.
pub(crate) enum CommitCondition {
    /// No commit after `since` wrote the key.
    Unchanged {
        store: Arc<StoreState>,
        key: Vec<u8>,
        since: u64,
    },
    /// No commit after `since` wrote a key of the range.
    RangeUnchanged {
        store: Arc<StoreState>,
        range: KeyRange,
        since: u64,
    },
    /// The key has this value, or none.
    Value {
        store: Arc<StoreState>,
        key: Vec<u8>,
        expected: Option<Vec<u8>>,
    },
}

/// The outcome of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything is durable, unless the options defer that.
    Committed,
    /// Nothing has changed: the condition at this position does not hold.
    Failed(usize),
}

/// A commit that waits for the committer.
pub(crate) struct PendingCommit {
    ops: Vec<BatchOp>,
    conditions: Vec<CommitCondition>,
    claim: SegmentClaim,
    outcome: Mutex<Option<Result<Outcome>>>,
}

impl PendingCommit {
    fn set(&self, outcome: Result<Outcome>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }

    fn take(&self) -> Option<Result<Outcome>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The state that only one thread at a time changes.
pub(crate) struct Committer {
    pub(crate) log: LogWriter,
    /// The newest commit.
    pub(crate) commit: u64,
    /// True while a checkpoint copies leaves, which must then not change.
    pub(crate) merging: bool,
    /// Entries that were changed in place since the last checkpoint.
    pub(crate) dirty: Vec<EntrySlot>,
    /// Pages and segments that become free with the next checkpoint.
    pub(crate) freed: Freed,
    /// Pages and segments that no checkpoint needs any more, but readers beside the writer may.
    pub(crate) waiting: Freed,
    /// A commit that was there when no reader was opening: each one that opens later sees it.
    pub(crate) readers_since: u64,
    /// Number of records since the last checkpoint.
    pub(crate) pending_records: usize,
    /// Bytes of log since the last checkpoint.
    pub(crate) pending_bytes: u64,
    /// Deletions that were not purged yet: store, key, commit.
    pub(crate) deletions: Vec<(Arc<StoreState>, Vec<u8>, u64)>,
    /// The segments of the newest catalog.
    pub(crate) catalog: Vec<u64>,
    /// Number of the newest checkpoint.
    pub(crate) checkpoint: u64,
    pub(crate) next_store: u32,
}

impl StoresState {
    /// Commits a batch if all conditions hold.
    ///
    /// # Errors
    /// Damage, a full disk, and errors of the medium. Nothing has changed, except that after an error of the
    /// medium it is unknown what is durable, and all later commits fail.
    pub(crate) fn commit(
        self: &Arc<Self>,
        ops: Vec<BatchOp>,
        conditions: Vec<CommitCondition>,
        claim: SegmentClaim,
    ) -> Result<Outcome> {
        self.writable()?;
        let pending = Arc::new(PendingCommit {
            ops,
            conditions,
            claim,
            outcome: Mutex::default(),
        });
        let mut attempts = 0;
        loop {
            match self.commit_queued(&pending) {
                Err(StoreError::Pool(PoolError::DiskFull { path, .. })) => {
                    let wanted = self.bytes_of(&pending.ops);
                    self.after_full(PoolError::DiskFull { path, wanted }.into(), claim, &mut attempts)?;
                }
                outcome => return outcome,
            }
        }
    }

    /// Queues a commit, and commits it with all others of the queue unless another thread does.
    fn commit_queued(self: &Arc<Self>, pending: &Arc<PendingCommit>) -> Result<Outcome> {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::clone(pending));
        let mut committer = self.committer();
        if let Some(outcome) = pending.take() {
            return outcome;
        }
        let begun = Instant::now();
        while self.is_overdue(&committer) || self.is_ahead_of_keeper() && begun.elapsed() < LONGEST_WAIT {
            let _waits = self.turns.wait();
            self.work.notify_all();
            let waited = self.progress.wait_timeout(committer, LOOK_AGAIN);
            committer = waited.unwrap_or_else(PoisonError::into_inner).0;
            if let Some(outcome) = pending.take() {
                return outcome;
            }
        }
        let group = std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner));
        let written = committer.log.written();
        self.commit_group(&mut committer, &group);
        self.count_appended(committer.log.written() - written);
        let is_due = self.is_checkpoint_due(&committer);
        let is_reserve_low = self.is_reserve_low();
        drop(committer);
        if self.options.background {
            if is_due || is_reserve_low {
                self.work.notify_all();
            }
        } else if is_due && let Err(error) = self.maintain() {
            // The commit is durable. What is due is tried again with the next one.
            tracing::warn!(%error, "the stores could not be maintained");
        }
        if is_reserve_low && !self.options.background {
            self.fill_reserve();
        }
        pending
            .take()
            .unwrap_or_else(|| unreachable!("it was in the group"))
    }

    /// Returns true if the keeper is so far behind that commits have to wait for it.
    pub(crate) fn is_overdue(&self, committer: &Committer) -> bool {
        self.options.background
            && !self.stopping.load(Ordering::Acquire)
            && self.writable().is_ok()
            // Commits go on until the log cannot grow, and fail then.
            && !self.failing.load(Ordering::Acquire)
            && (committer.pending_records > OVERDUE * self.options.pending_records
                || committer.pending_bytes > OVERDUE as u64 * self.pending_bytes())
    }

    /// Returns the appended bytes at which a checkpoint is due.
    pub(crate) fn pending_bytes(&self) -> u64 {
        let (_, live) = self.segments().log_bytes();
        self.pending_bytes_of(live)
    }

    pub(crate) fn pending_bytes_of(&self, live: u64) -> u64 {
        let most = self.options.pending_bytes;
        most.min((live / APPENDED).max(LEAST_APPENDED))
    }

    /// Returns true if a limit is exceeded up to which commits wait for a checkpoint.
    pub(crate) fn is_checkpoint_due(&self, committer: &Committer) -> bool {
        committer.pending_records >= self.options.pending_records
            || committer.pending_bytes >= self.pending_bytes()
    }

    fn commit_group(&self, committer: &mut Committer, group: &[Arc<PendingCommit>]) {
        let needs_values = group.iter().any(|pending| {
            let merges = pending.ops.iter().any(|op| matches!(op, BatchOp::Merge { .. }));
            merges
                || pending
                    .conditions
                    .iter()
                    .any(|condition| matches!(condition, CommitCondition::Value { .. }))
        });
        let trusted = match group.len() {
            0 | 1 => PLACE_TRUSTED,
            _ => Duration::ZERO,
        };
        let is_deferred = !self.options.durable_commits;
        committer.log.set_deferring(is_deferred);
        let (mut overlay, mut staged, mut durable) = (Overlay::new(), Vec::new(), Vec::new());
        for pending in group {
            let outcome = self.writable().and_then(|()| {
                self.slab.pool().check_place(trusted)?;
                let mark = committer.log.mark();
                let before = staged.len();
                let kept = self.kept_beside(committer, pending.claim, &pending.ops)?;
                committer.log.keep_free(kept);
                let appended = self.append(committer, &mut overlay, &mut staged, pending, needs_values);
                if !matches!(appended, Ok(Outcome::Committed)) {
                    staged.truncate(before);
                    self.take_back(committer, mark)?;
                }
                appended
            });
            match outcome {
                Ok(Outcome::Committed) => durable.push(pending),
                other => pending.set(other),
            }
        }
        committer.log.set_deferring(false);
        committer.log.keep_free(0);
        if durable.is_empty() {
            return;
        }
        if injected(StoreFault::ApplyEarly) {
            self.publish(committer, std::mem::take(&mut staged));
        }
        let fenced = match is_deferred {
            true => Ok(()),
            false => self.fence_log(committer),
        };
        let result = match fenced {
            Ok(()) => {
                self.publish(committer, staged);
                None
            }
            Err(error) => Some(error.to_string()),
        };
        for pending in durable {
            pending.set(match &result {
                None => Ok(Outcome::Committed),
                Some(reason) => Err(StoreError::Poisoned {
                    reason: reason.clone(),
                }),
            });
        }
    }

    /// Makes all frames of the log durable.
    ///
    /// # Errors
    /// Those of the medium: all later commits fail.
    pub(crate) fn fence_log(&self, committer: &mut Committer) -> std::result::Result<(), MediaError> {
        if !injected(StoreFault::ForgetDeferred) {
            committer.log.flush_deferred(self.medium());
        }
        if !injected(StoreFault::AcknowledgeEarly) {
            self.medium().fence().inspect_err(|error| self.poison(error))?;
        }
        committer.log.set_fenced();
        Ok(())
    }

    /// Takes back what the log has since a mark.
    ///
    /// # Errors
    /// Those of the medium: all later commits fail.
    pub(crate) fn take_back(&self, committer: &mut Committer, mark: LogMark) -> Result<()> {
        let taken = committer.log.take_back(self.medium(), mark);
        taken.inspect_err(|error| self.poison(error))?;
        Ok(())
    }

    /// Makes all commits that have returned durable. Others go on meanwhile.
    ///
    /// # Errors
    /// Those of the medium: all later commits fail.
    pub(crate) fn flush(&self) -> Result<()> {
        let _one_at_a_time = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.writable()?;
        let sealed = {
            let mut committer = self.committer();
            if committer.log.is_fenced() {
                return Ok(());
            }
            committer.log.seal()
        };
        if !injected(StoreFault::ForgetDeferred) {
            sealed.flush(self.medium());
        }
        self.medium().fence().inspect_err(|error| self.poison(error))?;
        self.committer().log.set_sealed_fenced(&sealed);
        Ok(())
    }

    /// Puts the records into the trees and lets readers see them.
    pub(crate) fn publish(&self, committer: &mut Committer, staged: Vec<Staged>) {
        let mut snapshots = self.snapshots();
        if snapshots.oldest().is_some() {
            // Between versions that a snapshot sees, those that nobody sees are unlinked.
            self.look_for_readers(committer, &mut snapshots);
        }
        for record in staged {
            // The records were just written and the versions before them just read.
            if let Err(damage) = self.apply(committer, &mut snapshots, record) {
                self.poison(&self.damaged(damage));
            }
        }
        self.visible.store(committer.commit, Ordering::Release);
    }

    /// Compares the conditions and appends the records of a batch.
    fn append(
        &self,
        committer: &mut Committer,
        overlay: &mut Overlay,
        staged: &mut Vec<Staged>,
        pending: &PendingCommit,
        needs_values: bool,
    ) -> Result<Outcome> {
        for (at, condition) in pending.conditions.iter().enumerate() {
            if !self.holds(overlay, condition)? {
                return Ok(Outcome::Failed(at));
            }
        }
        let (commit, written) = (committer.commit + 1, committer.log.written());
        let mut appender = Appender {
            state: self,
            committer,
            group: overlay,
            batch: Overlay::new(),
            staged,
            commit,
            needs_values,
            begun: false,
        };
        for op in &pending.ops {
            appender.append(op)?;
        }
        let (begun, batch) = (appender.begun, appender.batch);
        if begun {
            committer.log.end(self.medium());
            committer.commit = commit;
            committer.pending_bytes += committer.log.written() - written;
        }
        overlay.extend(batch);
        Ok(Outcome::Committed)
    }

    pub(crate) fn holds(&self, overlay: &Overlay, condition: &CommitCondition) -> Result<bool> {
        match condition {
            CommitCondition::Unchanged { store, key, since } => {
                store.is_one_of(self)?;
                if !store.is_seen_at(*since) {
                    return Ok(false);
                }
                let commit = match self.current(&[overlay], store, key)? {
                    Current::Absent => 0,
                    Current::Staged(staged) => staged.commit,
                    Current::Found(located) => located.record.commit(),
                };
                Ok(commit <= *since || injected(StoreFault::SkipValidation))
            }
            CommitCondition::RangeUnchanged { store, range, since } => {
                store.is_one_of(self)?;
                if !store.is_seen_at(*since) {
                    return Ok(false);
                }
                if injected(StoreFault::SkipRanges) {
                    return Ok(true);
                }
                let is_written = overlay
                    .keys()
                    .any(|(id, key)| *id == store.id && range.contains(key));
                Ok(!is_written && self.newest_commit_in(store, range)? <= *since)
            }
            CommitCondition::Value { store, key, expected } => {
                store.is_one_of(self)?;
                let value = self.current_value(&[overlay], store, key)?;
                Ok(value.as_deref() == expected.as_deref())
            }
        }
    }

    /// Returns the value that a key had as of a commit.
    #[inline]
    pub(crate) fn get(&self, store: &StoreState, key: &[u8], commit: u64) -> Result<Option<Vec<u8>>> {
        self.find(store, key, commit, |version| self.value_of(version))
    }

    /// Calls `read` with the version that a key had as of a commit, while the tree is locked.
    #[inline]
    pub(crate) fn find<T>(
        &self,
        store: &StoreState,
        key: &[u8],
        commit: u64,
        read: impl Fn(&RecordRef) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.reading(commit, || {
            store.is_one_of(self)?;
            if !store.is_seen_at(commit) {
                return Ok(None);
            }
            let trees = store.read();
            let located = trees.locate(&self.pages(), key);
            let version = located.and_then(|located| match located {
                Some(located) => self.version_of(store, key, &located, commit),
                None => Ok(None),
            });
            match version.map_err(|damage| self.damaged(damage))? {
                Some(version) => read(&version),
                None => Ok(None),
            }
        })
    }

    /// Returns the version of a key that a snapshot of a commit sees.
    #[inline]
    fn version_of(
        &self,
        store: &StoreState,
        key: &[u8],
        newest: &Located,
        commit: u64,
    ) -> Result<Option<RecordRef>, Damage> {
        let Some(version) = self.version_at(newest.record, commit)? else {
            return Ok(None);
        };
        // The key of a record that an entry of a leaf leads to was compared when the entry was found.
        let is_compared = newest.slot.is_some() && version.offset == newest.record.offset;
        if is_compared || version.head.store.get() == store.id && version.is_of(self.medium(), key) {
            return Ok(Some(version));
        }
        // The checksum tells a damaged record from that of another key.
        match version.contents(self.medium()) {
            Some(_) => Err(Damage::version(version.offset)),
            None => Err(Damage::record(version.offset)),
        }
    }

    /// Returns the value of a record, if it is not a deletion and has not expired.
    pub(crate) fn value_of(&self, record: &RecordRef) -> Result<Option<Vec<u8>>> {
        let value = self
            .contents(record)
            .and_then(|contents| contents.map(|contents| self.value(record, contents)).transpose());
        value.map_err(|damage| self.damaged(damage))
    }

    /// Puts a durable record into the tree of its store.
    fn apply(
        &self,
        committer: &mut Committer,
        snapshots: &mut Snapshots,
        staged: Staged,
    ) -> Result<(), Damage> {
        let medium = self.medium();
        let record = RecordRef::load(medium, staged.record).ok_or(Damage::record(staged.record))?;
        let store = &staged.store;
        let mut trees = store.write();
        let located = match staged.after_staged {
            true => trees.locate(&self.pages(), &staged.key)?,
            false => staged.located,
        };
        if let Some(old) = &located {
            self.supersede(snapshots, &old.record, &record)?;
        }
        self.remember(&record)?;
        self.count(store, located.as_ref().map(|located| &located.record), &record)?;
        let slot = located.and_then(|located| located.slot);
        committer.point(&mut trees, medium, &staged.key, slot, staged.record);
        if record.is_deleted() {
            committer
                .deletions
                .push((Arc::clone(store), staged.key, staged.commit));
        }
        Ok(())
    }

    /// Keeps the version that a new one supersedes if a snapshot sees it, and otherwise forgets it.
    fn supersede(&self, snapshots: &mut Snapshots, old: &RecordRef, new: &RecordRef) -> Result<(), Damage> {
        let (commit, until) = (old.commit(), new.commit());
        if snapshots.sees(commit, until) && !injected(StoreFault::IgnoreSnapshots) {
            snapshots.keep(KeptVersion {
                record: old.offset,
                commit,
                until,
            });
            return Ok(());
        }
        // The newest version of a checkpoint stays linked: replay counts it.
        let is_of_checkpoint = commit <= self.frozen.load(Ordering::Acquire);
        if !is_of_checkpoint && snapshots.oldest().is_some_and(|oldest| oldest < commit) {
            // No snapshot sees the old version, but one may see those before it.
            new.set_prev(self.medium(), old.head.prev.get());
        }
        self.forget(old)
    }

    /// Adjusts the number of keys and bytes of a store.
    pub(crate) fn count(
        &self,
        store: &StoreState,
        old: Option<&RecordRef>,
        new: &RecordRef,
    ) -> Result<(), Damage> {
        let size = |record: &RecordRef| -> Result<u64, Damage> {
            Ok(record.key_len() as u64 + self.extent_of(record)?.0)
        };
        if let Some(old) = old.filter(|old| !old.is_deleted()) {
            store.keys.fetch_sub(1, Ordering::Relaxed);
            store.bytes.fetch_sub(size(old)?, Ordering::Relaxed);
        }
        if !new.is_deleted() {
            store.keys.fetch_add(1, Ordering::Relaxed);
            store.bytes.fetch_add(size(new)?, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Committer {
    /// Lets the entry of a key lead to a record: in place, or in the memtable.
    pub(crate) fn point(
        &mut self,
        trees: &mut StoreTrees,
        medium: &halocline_media::Medium,
        key: &[u8],
        slot: Option<EntrySlot>,
        record: u64,
    ) {
        self.pending_records += 1;
        let is_durable =
            self.log.is_fenced() || injected(StoreFault::ApplyEarly) || injected(StoreFault::MoveUnfenced);
        match slot {
            Some(slot) if !self.merging && is_durable => {
                slot.set_record(medium, record);
                self.dirty.push(slot);
            }
            _ => {
                trees.active.set(key, MemEntry::Record(record));
            }
        }
    }
}
