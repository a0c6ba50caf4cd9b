//! Return of unused space to the pool.
//!
//! The slab closes chunks that are nearly empty, records and pages in them move elsewhere, a checkpoint no
//! longer needs them, and then the slab gives the chunks back by a generation of the pool.
//!
//! Invariants: a chunk is given back only when the newest checkpoint is durable and needs no segment of it,
//! and no reader does: segments wait for readers as they do before they are used again. At most as much moves
//! as is given back three times over; and automatically, only what is a good part of the stores is.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::fault::{StoreFault, injected};
use crate::gc::CHOSEN_AT_ONCE;
use crate::keeper::RESERVE;
use crate::layout::SEGMENT;
use crate::readers::EpochWords;
use crate::segments::SegmentKind;
use crate::state::StoresState;

/// Segments that stay free, as a part of those in use, as its inverse.
const LEFT_FREE: u64 = 8;

/// Times that what commits have put into closed chunks, before these were closed, is moved.
const ROUNDS: usize = 8;

/// Times that garbage is collected before.
const COLLECTIONS: usize = 64;

/// Time until the next attempt after one that has failed.
const PAUSE: Duration = Duration::from_secs(1);

/// The occasion on which space is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// A caller asks for it, such as `VACUUM`.
    Asked,
    /// A store was dropped.
    Dropped,
    /// More than half of the space is free.
    Idle,
}

impl Occasion {
    /// Returns the number of free segments from which on space is given back, with `used` segments in use and
    /// `free` ones free.
    fn least(self, used: u64, free: u64) -> u64 {
        const MIB: u64 = (1 << 20) / SEGMENT;
        match self {
            Self::Asked => 0,
            Self::Dropped => (4 * MIB).max((used + free) / 8),
            Self::Idle => (16 * MIB).max((used + free) / 2),
        }
    }
}

/// State of the return of unused space.
#[derive(Debug, Default)]
pub(crate) struct Surplus {
    /// True if a store was dropped since space was given back.
    has_dropped: AtomicBool,
    /// When an attempt has failed.
    failed: Mutex<Option<Instant>>,
}

impl Surplus {
    fn failed(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoresState {
    /// Notes that a store was dropped.
    pub(crate) fn note_drop(&self) {
        self.surplus.has_dropped.store(true, Ordering::Release);
    }

    /// Returns the number of segments that should stay free.
    fn left_free(&self, used: u64) -> u64 {
        (2 * RESERVE).max(used / LEFT_FREE)
    }

    /// Returns true if enough segments are free that some should be given back.
    fn is_worth(&self, occasion: Occasion) -> bool {
        let stats = self.slab.stats();
        let free = stats.capacity.saturating_sub(stats.used);
        let surplus = free.saturating_sub(self.left_free(stats.used));
        stats.chunks > 1 && surplus > 0 && surplus >= occasion.least(stats.used, free)
    }

    /// Gives space back if much of it is free, unless the pool has another writer.
    pub(crate) fn give_back_if_due(&self) {
        let occasion = if self.surplus.has_dropped.load(Ordering::Acquire) {
            Occasion::Dropped
        } else {
            Occasion::Idle
        };
        let is_paused = self
            .surplus
            .failed()
            .is_some_and(|failed| failed.elapsed() < PAUSE);
        if is_paused || !self.is_worth(occasion) {
            return;
        }
        // Nothing moves in vain.
        let given = match self.slab.pool().begin() {
            Ok(txn) => {
                drop(txn);
                self.give_back(occasion, Duration::ZERO)
            }
            Err(error) => Err(error.into()),
        };
        match given {
            Ok(_) => *self.surplus.failed() = None,
            Err(error) => {
                *self.surplus.failed() = Some(Instant::now());
                tracing::debug!(%error, "the stores keep unused space");
            }
        }
    }

    /// Gives space back to the pool. Returns the number of bytes.
    ///
    /// # Errors
    /// Those of [`Stores::give_back`](crate::Stores::give_back).
    pub(crate) fn give_back(&self, occasion: Occasion, wait: Duration) -> Result<u64> {
        self.writable()?;
        if occasion == Occasion::Asked {
            for _ in 0..COLLECTIONS {
                if !self.maintain()? {
                    break;
                }
            }
        }
        let _one_at_a_time = self.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        self.settle()?;
        if occasion != Occasion::Idle {
            self.join_sparse_pages()?;
        }
        if occasion == Occasion::Asked {
            // What was emptied is free only then.
            self.checkpoint()?;
            self.release_waiting();
        }
        if !self.is_worth(occasion) {
            self.surplus.has_dropped.store(false, Ordering::Release);
            return Ok(0);
        }
        let closed = self.slab.close_chunks(self.left_free(self.slab.stats().used));
        let left = self.leave_chunks(&closed, occasion);
        let given = left.and_then(|()| Ok(self.slab.give_back_chunks(wait)?));
        self.segments().set_leaving(BTreeSet::new());
        self.slab.reopen_chunks();
        self.surplus.has_dropped.store(false, Ordering::Release);
        given
    }

    /// Moves what is in these ranges of segments elsewhere.
    fn leave_chunks(&self, closed: &[Range<u64>], occasion: Occasion) -> Result<()> {
        let mut before = None;
        for _ in 0..ROUNDS {
            self.leave_current_segment(closed)?;
            self.leave_catalog(closed);
            let (mut logs, mut pages) = (Vec::new(), BTreeSet::new());
            {
                let (current, segments) = (self.committer().log.position().segment, self.segments());
                for range in closed {
                    for (offset, segment) in segments.range(range) {
                        match segment.kind {
                            SegmentKind::Log if segments.is_emptied(offset) || offset == current => {}
                            SegmentKind::Log => logs.push(offset),
                            SegmentKind::Leaves | SegmentKind::Branches => drop(pages.insert(offset)),
                        }
                    }
                }
            }
            if injected(StoreFault::GiveBackEarly) {
                return self.free_early(&logs);
            }
            // A damaged leaf stays where it is. In the first round the catalog may move.
            let here = Some((logs.clone(), pages.clone()));
            if before == here || before.is_some() && logs.is_empty() && pages.is_empty() {
                break;
            }
            before = here;
            self.segments().set_leaving(pages);
            self.empty_all(logs)?;
            self.checkpoint()?;
            if occasion == Occasion::Asked {
                self.release_waiting();
            }
        }
        Ok(())
    }

    /// Lets the log go on in another segment if its current one is in one of these ranges.
    fn leave_current_segment(&self, closed: &[Range<u64>]) -> Result<()> {
        let mut committer = self.committer();
        self.writable()?;
        let current = committer.log.position().segment;
        if closed.iter().any(|range| range.contains(&current)) {
            committer.log.leave_segment(&self.slab, &mut self.segments())?;
            // A fence of another thread would not cover the link.
            self.fence_log(&mut committer)?;
        }
        Ok(())
    }

    /// Lets the next checkpoint write a new catalog if the newest one is in one of these ranges.
    fn leave_catalog(&self, closed: &[Range<u64>]) {
        let mut committer = self.committer();
        let is_closed = |segment: &u64| closed.iter().any(|range| range.contains(segment));
        if committer.catalog.segments.iter().any(is_closed) {
            committer.catalog.must_renew = true;
        }
    }

    /// Empties log segments, whatever is needed of them, with checkpoints in between that commits may wait
    /// for.
    fn empty_all(&self, mut logs: Vec<u64>) -> Result<()> {
        while !logs.is_empty() {
            let some = &logs[..logs.len().min(CHOSEN_AT_ONCE)];
            self.empty_segments(some)?;
            let before = logs.len();
            logs.retain(|segment| !self.segments().is_emptied(*segment));
            if logs.len() == before {
                break;
            }
            let is_due = self.is_checkpoint_due(&self.committer());
            if is_due {
                self.checkpoint()?;
            }
        }
        Ok(())
    }

    /// Frees log segments before a checkpoint no longer needs them, for an injected fault.
    pub(crate) fn free_early(&self, logs: &[u64]) -> Result<()> {
        self.empty_segments(logs)?;
        let freed = std::mem::take(&mut self.committer().freed);
        self.segments().release(&self.slab, &freed);
        Ok(())
    }

    /// Lets everything be used again that waits for readers, who locate what they see anew.
    fn release_waiting(&self) {
        let mut committer = self.committer();
        if !committer.waiting.is_empty() {
            EpochWords::for_slab(&self.slab).release();
            let released = std::mem::take(&mut committer.waiting);
            self.count_freed(released.segments.len());
            self.segments().release(&self.slab, &released);
        }
    }

    /// Moves pages out of segments with few of them into free pages of others, if that gains a good part.
    fn join_sparse_pages(&self) -> Result<()> {
        let sparse = self.segments().sparse();
        if sparse.is_empty() {
            return Ok(());
        }
        self.segments().set_leaving(sparse);
        let moved = self.checkpoint();
        self.segments().set_leaving(BTreeSet::new());
        moved
    }
}
