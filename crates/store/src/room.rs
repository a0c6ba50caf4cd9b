//! Room in the slab: which segments commits leave to others, and what is done when there are none.
//!
//! Invariants: batches with values leave free segments for deletions and for the next checkpoint, deletions
//! for the checkpoint, so that a full disk can be emptied. The slab grows, and waits for another writer of
//! the pool, while no lock is held that commits or readers take.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use halocline_pool::PoolError;

use crate::commit::{BatchOp, LOOK_AGAIN};
use crate::committer::Committer;
use crate::error::{Result, StoreError};
use crate::fault::{StoreFault, injected};
use crate::layout::{CHUNK, LEAF, MAX_KEY, SEGMENT};
use crate::moves::FENCED_BYTES;
use crate::state::StoresState;

/// Free segments that batches with values, and moves of records, leave to deletions.
const FOR_DELETIONS: u64 = 2;

/// Free segments that a checkpoint needs beside those for a whole catalog and its pages, and for deleted
/// ranges.
const FOR_CHECKPOINT: u64 = 1;

/// Free segments that batches with values leave to the moves of records.
const FOR_COPIES: u64 = 3;

/// Bytes of pages that a record after the last checkpoint may cost in the next one: a part of a leaf that is
/// split, and of the branches above it that are written anew.
const SPLIT_BYTES: u64 = 256;

/// Records of a new leaf, at least.
const LEAF_RECORDS: u64 = 32;

/// Times that a commit looks for room, each time for twice as much.
const ATTEMPTS: u32 = 20;

/// Times that it does so without a further free segment.
const GAINS: u32 = 2;

/// Rounds in which segments are emptied and freed for a commit that has no room. The first one frees what was
/// deleted, which leaves room for the moves of the second one.
const ROUNDS: u32 = 2;

/// The segments that a commit may take when the disk is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentClaim {
    /// Those that neither deletions nor a checkpoint need.
    Values,
    /// Those that a checkpoint does not need.
    Deletions,
    All,
}

impl SegmentClaim {
    /// Returns the claim of a batch.
    pub(crate) fn for_batch(ops: &[BatchOp]) -> Self {
        let is_value = |op: &BatchOp| matches!(op, BatchOp::Put { .. } | BatchOp::Merge { .. });
        if ops.iter().any(is_value) {
            Self::Values
        } else {
            Self::Deletions
        }
    }
}

/// Bytes of a record beside its key and value, at most.
const RECORD_BYTES: usize = 64;

/// Bytes of the frames of a batch, and of the link to the next segment, at most.
const FRAME_BYTES: u64 = 256;

/// Returns bounds of the bytes of the log that a batch needs.
fn bounds(ops: &[BatchOp]) -> (u64, u64) {
    let (mut least, mut most) = (0, FRAME_BYTES);
    for op in ops {
        let (bytes, is_known) = match op {
            BatchOp::Put { key, value, .. } => (key.len() + value.len(), true),
            BatchOp::Delete { key, .. } => (key.len(), true),
            BatchOp::Merge { .. } | BatchOp::DeleteRange { .. } => (0, false),
        };
        if matches!(op, BatchOp::Put { .. }) {
            least += bytes as u64;
        }
        // Large values are cut into chunks, each with the key.
        most = if is_known && bytes < CHUNK {
            most + (bytes + RECORD_BYTES) as u64
        } else {
            SEGMENT
        };
    }
    (least, most)
}

impl StoresState {
    /// Returns the bytes of the log that a batch needs, about.
    pub(crate) fn bytes_of(&self, ops: &[BatchOp]) -> u64 {
        let of_op = |op: &BatchOp| match op {
            BatchOp::Put { key, value, .. } => key.len() + value.len() + RECORD_BYTES,
            BatchOp::Merge { key, operand, .. } => key.len() + operand.len() + RECORD_BYTES,
            BatchOp::Delete { key, .. } => key.len() + RECORD_BYTES,
            BatchOp::DeleteRange { store, range } => match self.keys_if_few(store, range) {
                Ok(Some(keys)) => keys.iter().map(|key| key.len() + RECORD_BYTES).sum(),
                // One record with both bounds, of which nothing depends on how many keys there are.
                Ok(None) | Err(_) => 2 * MAX_KEY + RECORD_BYTES,
            },
        };
        (ops.iter().map(of_op).sum::<usize>() as u64).max(SEGMENT)
    }

    /// Returns true if the slab could not grow because the disk is full.
    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed.load(Ordering::Acquire)
    }

    /// Remembers that the slab could not grow, if that is because the disk is full.
    pub(crate) fn note_full(&self, error: &PoolError) {
        if matches!(error, PoolError::DiskFull { .. }) {
            self.pressed.store(true, Ordering::Release);
        }
    }

    fn free_segments(&self) -> u64 {
        let stats = self.slab.stats();
        stats.capacity - stats.used
    }

    /// Returns the number of free segments that the next checkpoint may need: for a catalog, leaves and
    /// branches, and for deleted ranges, and what one in progress still needs. Called without the locks of
    /// trees and segments.
    pub(crate) fn for_checkpoint(&self, committer: &Committer) -> u64 {
        // Records that still fit the current segment of the log come before it.
        let records = committer.pending_records as u64 + SEGMENT / RECORD_BYTES as u64;
        let new = records.div_ceil(LEAF_RECORDS) * LEAF;
        let split = (records * SPLIT_BYTES).min(self.segments().with_pages() * SEGMENT);
        // It appends the remaining deleted ranges to the end of the log.
        let for_ranges = u64::from(self.has_deleted_ranges());
        let for_current = committer.merging.as_ref().map_or(0, |room| {
            let taken = self.segments().with_pages().saturating_sub(room.with_pages);
            room.needed.saturating_sub(taken)
        });
        FOR_CHECKPOINT
            + for_current
            + for_ranges
            + committer.catalog.segments.len() as u64
            + (new + split).div_ceil(SEGMENT)
    }

    /// Returns the number of free segments that a commit leaves to others.
    pub(crate) fn kept_by(&self, committer: &Committer, claim: SegmentClaim) -> u64 {
        let for_checkpoint = self.for_checkpoint(committer);
        match claim {
            _ if injected(StoreFault::KeepNothing) => 0,
            // There may be room on the disk.
            SegmentClaim::Values if self.beside_writer.load(Ordering::Acquire) => for_checkpoint,
            SegmentClaim::Values => for_checkpoint + FOR_COPIES + FOR_DELETIONS,
            // A checkpoint has just been made, and values are refused: the next one has deletions alone, which
            // split no leaves, and which it makes in place if there is no room for copies. What they take now
            // comes back with it; else a disk on which no segment can be emptied would refuse them for ever.
            SegmentClaim::Deletions
                if committer.pending_records == 0 && committer.merging.is_none() && self.is_pressed() =>
            {
                let for_pages = 1;
                let for_ranges = u64::from(self.has_deleted_ranges());
                FOR_CHECKPOINT + for_pages + for_ranges + committer.catalog.segments.len() as u64
            }
            SegmentClaim::Deletions => for_checkpoint,
            SegmentClaim::All => 0,
        }
    }

    /// Returns true if fewer segments are free than a commit has to leave to others, so that values must not
    /// even fill the current segment: they would keep it from being emptied.
    pub(crate) fn lacks_room(&self, committer: &Committer, claim: SegmentClaim) -> bool {
        claim == SegmentClaim::Values && self.free_segments() < self.kept_by(committer, claim)
    }

    /// Returns the number of free segments that a batch has to leave to others, which need not be known for
    /// one that fits the current segment of the log.
    ///
    /// # Errors
    /// [`PoolError::DiskFull`] if the batch certainly finds too few segments: nothing of it need be appended
    /// to see that.
    pub(crate) fn kept_beside(
        &self,
        committer: &Committer,
        claim: SegmentClaim,
        ops: &[BatchOp],
    ) -> Result<u64> {
        let position = committer.log.position();
        let left = position.segment + SEGMENT - position.offset;
        let (least, most) = bounds(ops);
        if most < left && !self.is_pressed() {
            return Ok(0);
        }
        if self.lacks_room(committer, claim) {
            return Err(self.no_room());
        }
        let kept = self.kept_by(committer, claim);
        let more = least.saturating_sub(left);
        if more > 0 && self.free_segments() < kept + more.div_ceil(SEGMENT) {
            Err(self.no_room())
        } else {
            Ok(kept)
        }
    }

    /// Returns the error for a commit without room.
    pub(crate) fn no_room(&self) -> StoreError {
        let path = self.slab.pool().path().to_path_buf();
        StoreError::Pool(PoolError::DiskFull {
            path,
            wanted: SEGMENT,
        })
    }

    /// Returns the number of free segments that the moves of records leave to deletions and a checkpoint.
    pub(crate) fn kept_by_copies(&self, committer: &Committer) -> u64 {
        self.for_checkpoint(committer) + FOR_DELETIONS
    }

    /// Lets the slab grow for copies that have found too few free segments. Returns false if it has not
    /// grown, so that a further attempt would fail as well.
    pub(crate) fn make_room_for_copies(&self) -> bool {
        let before = self.free_segments();
        let wanted = self.kept_by_copies(&self.committer()) + FENCED_BYTES.div_ceil(SEGMENT);
        if let Err(error) = self.slab.make_room(wanted) {
            self.note_full(&error);
        }
        self.free_segments() > before
    }

    /// Returns the bytes of copies for which there is room when segments are emptied.
    pub(crate) fn room_for_copies(&self) -> u64 {
        if !self.is_pressed() {
            return u64::MAX;
        }
        let kept = self.kept_by_copies(&self.committer());
        self.free_segments().saturating_sub(kept) * SEGMENT
    }

    /// Makes room after a commit has failed for lack of a segment: the slab grows or, for what frees space,
    /// segments are emptied. Called without locks.
    ///
    /// # Errors
    /// `error` if it is another one, or if the disk is full; another writer of the pool does not let the slab
    /// grow.
    pub(crate) fn after_full(
        &self,
        error: StoreError,
        claim: SegmentClaim,
        attempts: &mut u32,
    ) -> Result<()> {
        let StoreError::Pool(PoolError::DiskFull { wanted, .. }) = &error else {
            return Err(error);
        };
        if *attempts == ATTEMPTS {
            return Err(error);
        }
        // A part of a segment at its end may fit no record.
        let needed = (wanted + wanted / 8).div_ceil(SEGMENT) << *attempts;
        *attempts += 1;
        let before = self.free_segments();
        let wanted = (self.kept_by(&self.committer(), claim) + 1).max(self.reserve()) + needed;
        let refused = match self.grow_to(wanted, claim) {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        self.note_full(&refused);
        self.work.notify_all();
        // The keeper empties segments, and values can wait for that.
        if claim == SegmentClaim::Values && self.options.background {
            self.wait_for_checkpoint()
        } else {
            self.gain_segments(claim, before)?
        }
        let free = self.free_segments();
        // A checkpoint leaves less to do for the next one.
        let has_room = free > self.kept_by(&self.committer(), claim) && *attempts <= GAINS;
        if free > before || has_room {
            Ok(())
        } else {
            Err(match refused {
                PoolError::DiskFull { .. } => error,
                refused => refused.into(),
            })
        }
    }

    /// Waits for the end of a checkpoint in progress, for which segments are kept.
    fn wait_for_checkpoint(&self) {
        let mut committer = self.committer();
        while committer.merging.is_some() && self.writable().is_ok() {
            let _waits = self.turns.wait();
            let waited = self.progress.wait_timeout(committer, LOOK_AGAIN);
            committer = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lets the slab grow until `wanted` segments are free. Beside another writer of the pool, values may
    /// first take segments that are kept for others, which is no reason to wait.
    fn grow_to(&self, wanted: u64, claim: SegmentClaim) -> Result<(), PoolError> {
        let mut before = None;
        while before != Some(self.free_segments()) {
            before = Some(self.free_segments());
            self.slab.reserve(wanted)?;
            if self.free_segments() >= wanted {
                return Ok(());
            }
        }
        let was_beside = self.beside_writer.swap(true, Ordering::AcqRel);
        if was_beside || claim != SegmentClaim::Values {
            self.slab.make_room(wanted)?;
            self.beside_writer.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Empties segments whose records are superseded, deleted or have expired, unless others have made room
    /// since `before` segments were free.
    ///
    /// # Errors
    /// Damage, and errors of the medium.
    fn gain_segments(&self, claim: SegmentClaim, before: u64) -> Result<()> {
        let _one_at_a_time = self.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = || self.kept_by(&self.committer(), claim);
        // Nothing was superseded or deleted since the last time.
        let commit = self.committer().commit;
        let is_known = claim == SegmentClaim::Values && self.gained.swap(commit, Ordering::AcqRel) == commit;
        if is_known || self.free_segments() > before.max(kept()) {
            return Ok(());
        }
        for _ in 0..ROUNDS {
            // The first checkpoint purges what was deleted, the second one frees what was emptied then.
            let steps = self
                .checkpoint()
                .and_then(|()| self.collect_garbage())
                .and_then(|_| self.checkpoint());
            match steps {
                Err(StoreError::Pool(PoolError::DiskFull { .. } | PoolError::Locked { .. })) => break,
                other => other?,
            }
        }
        Ok(())
    }
}
