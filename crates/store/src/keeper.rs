//! Maintenance: checkpoints, the emptying of segments, and what an opening has left to be settled, in a
//! thread of its own or in that of a commit.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::Result;
use crate::layout::SEGMENT;
use crate::room::SegmentClaim;
use crate::state::StoresState;

/// How often the keeper looks for work that nobody announced, such as records that expire.
const IDLE_INTERVAL: Duration = Duration::from_millis(200);

/// Part of the log, as its inverse, that may be emptied segments before a checkpoint frees them.
const EMPTIED_DIVISOR: u64 = 32;

/// Segments that are kept free, at least and as a part of all, as its inverse: so commits need not wait for
/// another writer of the pool, such as an import.
pub(crate) const RESERVE: u64 = 8;
const RESERVED_PART: u64 = 32;

impl StoresState {
    /// Returns the number of segments that should be free.
    pub(crate) fn reserve(&self) -> u64 {
        RESERVE.max(self.slab.stats().capacity / RESERVED_PART)
    }

    /// Returns true if so few segments are free that the slab should grow ahead.
    pub(crate) fn is_reserve_low(&self) -> bool {
        let stats = self.slab.stats();
        stats.capacity - stats.used < self.reserve()
    }

    /// Lets the slab grow ahead, unless the pool has another writer now. Called without locks: the publish of
    /// a chunk must not keep commits waiting.
    pub(crate) fn fill_reserve(&self) {
        // Whoever needs the space fails if there is none.
        match self.slab.reserve(self.reserve()) {
            Ok(()) if !self.is_reserve_low() => {
                self.beside_writer.store(false, Ordering::Release);
                // On a full disk the free segments may be those that values leave to others.
                if self.is_pressed() && !self.lacks_room(&self.committer(), SegmentClaim::Values) {
                    self.pressed.store(false, Ordering::Release);
                }
            }
            Ok(()) => {}
            Err(error) => {
                self.note_full(&error);
                tracing::debug!(%error, "the stores cannot grow ahead");
            }
        }
    }

    /// Makes a checkpoint if one is due, and empties segments if there is too much garbage. Returns true if
    /// segments were emptied, so that there may be more. Otherwise gives space back of which there is much.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub(crate) fn maintain(&self) -> Result<bool> {
        self.writable()?;
        self.fill_reserve();
        let one_at_a_time = self.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        self.settle()?;
        self.read_expiries();
        let emptied = self.collect_garbage()?;
        let is_due = {
            let committer = self.committer();
            let waiting = committer.freed.segments.len() as u64 * SEGMENT;
            let wants_space = self.is_pressed()
                && (waiting > 0
                    || !committer.deletions.is_empty()
                    || committer.pending_records > 0 && self.lacks_room(&committer, SegmentClaim::Values));
            self.is_checkpoint_due(&committer)
                || wants_space
                || waiting * EMPTIED_DIVISOR > self.segments().log_bytes().0
        };
        if is_due {
            self.checkpoint()?;
        }
        drop(one_at_a_time);
        if !emptied {
            self.give_back_if_due();
        }
        Ok(emptied)
    }

    /// Makes a checkpoint now.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub(crate) fn checkpoint_now(&self) -> Result<()> {
        let _one_at_a_time = self.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        self.checkpoint()
    }
}

/// Starts the thread that maintains the stores as long as they are open.
pub(crate) fn start(state: &Arc<StoresState>) -> std::io::Result<JoinHandle<()>> {
    state.has_keeper.store(true, Ordering::Release);
    let state = Arc::downgrade(state);
    std::thread::Builder::new()
        .name("store keeper".to_owned())
        .spawn(move || run(&state))
}

fn run(state: &Weak<StoresState>) {
    if let Some(state) = state.upgrade()
        && let Err(error) = state.settle()
    {
        tracing::warn!(%error, "what the log superseded could not be looked up");
    }
    let (mut failed, mut again) = (false, false);
    while let Some(state) = state.upgrade() {
        {
            let committer = state.committer();
            let is_idle = !again && !state.is_checkpoint_due(&committer) || failed;
            if is_idle && !state.stopping.load(Ordering::Acquire) {
                let waited = state.work.wait_timeout(committer, IDLE_INTERVAL);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        }
        if state.stopping.load(Ordering::Acquire) {
            return;
        }
        let result = state.maintain_in_turns();
        if let Err(error) = &result
            && !failed
        {
            tracing::warn!(%error, "the stores could not be maintained");
        }
        let deleting = state.go_on_deleting();
        if let Err(error) = &deleting {
            tracing::debug!(%error, "the keys of a deleted range are deleted later");
        }
        failed = result.is_err() || deleting.is_err();
        state.failing.store(failed, Ordering::Release);
        let emptied = result.unwrap_or(false);
        again = emptied || deleting.unwrap_or(false);
        let readers_wait = !state.committer().waiting.is_empty();
        state
            .reclaiming
            .store(emptied && !readers_wait, Ordering::Release);
        state.progress.notify_all();
    }
}
