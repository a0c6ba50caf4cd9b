//! The part of the writer for readers beside it, in this process or in others.
//!
//! A reader pins the commit that it sees, or [`OPENING`] while it reads the checkpoint and the log after it.
//! To the writer a pinned commit is a snapshot. The writer looks for pins *after* it has stored what makes a
//! version or a page unneeded, a frame or a checkpoint, and *before* it lets go of it. A reader whose pin was
//! not seen reads afterwards, finds the newer frame or checkpoint, and does not need what is let go.
//!
//! Versions that readers see are kept and moved like those of snapshots. A reader also has offsets of pages
//! and records that were moved since, so nothing is used again while there are readers, up to a limit. Beyond
//! it the writer changes the epoch first, which lets readers locate everything again.

use std::sync::atomic::{Ordering, fence};

use halocline_media::Medium;
use halocline_pool::{PoolError, Slab};

use crate::committer::Committer;
use crate::fault::{StoreFault, injected};
use crate::layout::{LEAF, READER_EPOCH, ReaderEpoch, SEGMENT};
use crate::segments::Freed;
use crate::snapshots::{KeptVersion, ReaderPins, Snapshots};
use crate::state::StoresState;

/// The number that a reader pins while it opens.
pub(crate) const OPENING: u64 = 0;

/// Part of the log, as its inverse, that may wait for readers.
const READERS_DIVISOR: u64 = 8;

/// Returns the number that a reader pins which sees a commit.
pub(crate) fn pin_of(commit: u64) -> u64 {
    commit + 1
}

/// The epoch of the stores, in the root of their slab.
#[derive(Debug, Clone)]
pub(crate) struct EpochWords {
    medium: Medium,
    at: u64,
}

impl EpochWords {
    pub(crate) fn for_slab(slab: &Slab) -> Self {
        Self {
            medium: slab.medium().clone(),
            at: slab.root() + READER_EPOCH,
        }
    }

    /// Returns the epoch. What was loaded before was there in it, if it is the same as before that.
    pub(crate) fn load(&self) -> ReaderEpoch {
        if injected(StoreFault::MoveOn) {
            self.release();
        }
        fence(Ordering::Acquire);
        ReaderEpoch {
            openings: self.medium.load_u64(self.at).into(),
            releases: self.medium.load_u64(self.at + 8).into(),
        }
    }

    /// Begins the epoch of a new writer: what readers see can change from now on.
    pub(crate) fn open(&self) {
        self.advance(self.at);
    }

    /// Begins an epoch in which readers have to locate everything again.
    pub(crate) fn release(&self) {
        self.advance(self.at + 8);
    }

    fn advance(&self, at: u64) {
        self.medium
            .store_u64(at, self.medium.load_u64(at).wrapping_add(1));
        // Visible before anything is stored to space that is used again.
        fence(Ordering::SeqCst);
    }
}

impl StoresState {
    /// Looks for readers beside the writer. Everything that makes versions or pages unneeded which the caller
    /// then lets go must be stored before.
    pub(crate) fn look_for_readers(&self, committer: &mut Committer, snapshots: &mut Snapshots) {
        // Before the look: a reader that is not noticed yet pins a later commit, or has pinned at this time.
        snapshots.note_time(committer.commit, self.now());
        let readers = self.pins(committer, snapshots.readers()).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot look for readers of the stores, and keeps everything");
            ReaderPins {
                opening_since: Some(committer.readers_since),
                commits: Vec::new(),
            }
        });
        for KeptVersion { record, .. } in snapshots.set_readers(readers) {
            self.forget_kept(record);
        }
    }

    fn pins(&self, committer: &mut Committer, before: &ReaderPins) -> Result<ReaderPins, PoolError> {
        if injected(StoreFault::IgnoreReaders) {
            return Ok(ReaderPins::default());
        }
        // A reader pins its commit before it stops opening.
        let is_opening = !self.slab.pinned(OPENING..OPENING + 1)?.is_empty();
        let pinned = self.slab.pinned(OPENING + 1..Slab::PINS)?;
        let opening_since = if is_opening {
            Some(before.opening_since.unwrap_or(committer.readers_since))
        } else {
            committer.readers_since = committer.commit;
            None
        };
        // What was seen of an earlier writer is gone.
        let commits = pinned
            .into_iter()
            .map(|pins| (pins.start - 1).max(self.first_commit)..pins.end - 1);
        Ok(ReaderPins {
            opening_since,
            commits: commits.filter(|commits| !commits.is_empty()).collect(),
        })
    }

    /// Lets pages and segments be used again that no checkpoint needs any more, unless they have to wait for
    /// readers.
    pub(crate) fn release(&self, committer: &mut Committer, freed: Freed) {
        {
            let mut snapshots = self.snapshots();
            self.look_for_readers(committer, &mut snapshots);
            let mut segments = self.segments();
            committer.waiting.append(freed);
            if snapshots.readers() != &ReaderPins::default() {
                let limit = (segments.log_bytes().0 / READERS_DIVISOR).max(self.options.pending_bytes);
                let waiting = &committer.waiting;
                let bytes = waiting.segments.len() as u64 * SEGMENT + waiting.pages.len() as u64 * LEAF;
                if bytes <= limit {
                    return;
                }
                if !injected(StoreFault::ReleaseSilently) {
                    EpochWords::for_slab(&self.slab).release();
                }
            }
            let released = std::mem::take(&mut committer.waiting);
            self.count_freed(released.segments.len());
            segments.release(&self.slab, &released);
        }
    }
}
