//! Huge pages for the chunks of a slab, in the background: [`Gatherer`].
//!
//! Where the medium does not use huge pages by itself, a thread collapses the pages of chunks. It takes at
//! most a tenth of a CPU, and ends when all chunks are done, when the medium refuses, and when the slab is
//! closed. Small slabs are left as they are: their pages fit the caches of the CPU.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use halocline_media::Medium;

use crate::layout::HUGE;

/// The pages of a slab with fewer bytes are left as they are.
const MIN_SLAB_BYTES: u64 = 64 << 20;

/// Divisor: the thread takes at most this part of a CPU.
const CPU_DIVISOR: u32 = 10;

/// Number of pieces one after the other that the medium has to refuse before the thread gives up.
const MAX_REFUSALS: u32 = 8;

/// Collapses the chunks of a slab until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Gatherer {
    queue: Arc<GatherQueue>,
}

#[derive(Debug, Default)]
struct GatherQueue {
    state: Mutex<GatherState>,
    /// Wakes the thread when it shall end.
    closed: Condvar,
}

#[derive(Debug, Default)]
struct GatherState {
    /// Offsets and ends of what has not been collapsed.
    ranges: VecDeque<(u64, u64)>,
    /// Bytes of all chunks so far.
    bytes: u64,
    is_running: bool,
    /// True if the slab is closed, or the medium refuses.
    is_over: bool,
}

impl GatherState {
    /// Takes the next piece, which ends at a multiple of a huge page.
    fn take(&mut self) -> Option<(u64, u64)> {
        let (from, to) = self.ranges.pop_front()?;
        let end = ((from / HUGE + 1) * HUGE).min(to);
        if end < to {
            self.ranges.push_front((end, to));
        }
        Some((from, end))
    }
}

impl Drop for Gatherer {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.is_over = true;
        state.ranges.clear();
        self.queue.closed.notify_all();
    }
}

impl Gatherer {
    /// Adds chunks, by their offsets and lengths.
    pub(super) fn add(&self, medium: &Medium, chunks: impl Iterator<Item = (u64, u64)>) {
        if !medium.can_gather() {
            return;
        }
        let mut state = self.queue.state();
        if state.is_over {
            return;
        }
        for (offset, len) in chunks {
            state.ranges.push_back((offset, offset + len));
            state.bytes += len;
        }
        if state.is_running || state.bytes < MIN_SLAB_BYTES {
            return;
        }
        let (queue, medium) = (Arc::clone(&self.queue), medium.clone());
        let work = move || queue.run(&|from, to| medium.gather(from, to - from));
        let started = std::thread::Builder::new().name("gather".to_owned()).spawn(work);
        match started {
            Ok(_) => state.is_running = true,
            Err(error) => tracing::debug!(%error, "pages stay as they are"),
        }
    }
}

impl Gatherer {
    /// Leaves a chunk as it is from now on: it is not one of the slab any more.
    pub(super) fn remove(&self, offset: u64, len: u64) {
        let mut state = self.queue.state();
        state
            .ranges
            .retain(|(from, _)| !(offset..offset + len).contains(from));
        state.bytes = state.bytes.saturating_sub(len);
    }
}

impl GatherQueue {
    fn state(&self) -> MutexGuard<'_, GatherState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Collapses pieces until there are none.
    fn run(&self, gather: &dyn Fn(u64, u64) -> bool) {
        let mut refused = 0;
        let mut pause = Duration::ZERO;
        loop {
            let piece = {
                let state = self.state();
                let waited = self
                    .closed
                    .wait_timeout_while(state, pause, |state| !state.is_over);
                let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
                state.is_over |= refused == MAX_REFUSALS;
                let piece = state.take().filter(|_| !state.is_over);
                state.is_running = piece.is_some();
                piece
            };
            let Some((from, to)) = piece else {
                return;
            };
            let start = Instant::now();
            refused = if gather(from, to) { 0 } else { refused + 1 };
            pause = start.elapsed() * (CPU_DIVISOR - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(ranges: &[(u64, u64)]) -> GatherQueue {
        let queue = GatherQueue::default();
        queue.state().ranges.extend(ranges);
        queue
    }

    fn pieces(queue: &GatherQueue, gathers: impl Fn(u64) -> bool) -> Vec<(u64, u64)> {
        let pieces = Mutex::new(Vec::new());
        queue.run(&|from, to| {
            pieces.lock().unwrap().push((from, to));
            gathers(from)
        });
        pieces.into_inner().unwrap()
    }

    #[test]
    fn chunks_are_collapsed_piece_by_piece() {
        let queue = queue(&[(4096, 2 * HUGE + 8192), (7 * HUGE, 8 * HUGE)]);
        let expected = [
            (4096, HUGE),
            (HUGE, 2 * HUGE),
            (2 * HUGE, 2 * HUGE + 8192),
            (7 * HUGE, 8 * HUGE),
        ];
        assert_eq!(pieces(&queue, |_| true), expected);
        assert!(!queue.state().is_over && !queue.state().is_running);
    }

    #[test]
    fn it_gives_up_where_the_medium_refuses() {
        let many = [(0, 100 * HUGE)];
        assert_eq!(pieces(&queue(&many), |_| false).len(), MAX_REFUSALS as usize);
        let mostly = |from: u64| (from / HUGE).is_multiple_of(4);
        assert_eq!(pieces(&queue(&many), mostly).len(), 100);
    }

    #[test]
    fn chunks_that_are_given_back_stay_as_they_are() {
        let gatherer = Gatherer::default();
        let queue = Arc::clone(&gatherer.queue);
        queue
            .state()
            .ranges
            .extend([(0, HUGE), (HUGE, 5 * HUGE), (5 * HUGE, 6 * HUGE)]);
        let found = pieces(&queue, |from| {
            if from == HUGE {
                gatherer.remove(HUGE, 4 * HUGE);
            }
            true
        });
        assert_eq!(found, [(0, HUGE), (HUGE, 2 * HUGE), (5 * HUGE, 6 * HUGE)]);
    }

    #[test]
    fn it_ends_with_the_slab() {
        let gatherer = Gatherer::default();
        let queue = Arc::clone(&gatherer.queue);
        queue.state().ranges.push_back((0, 100 * HUGE));
        drop(gatherer);
        assert!(pieces(&queue, |_| true).is_empty());
    }
}
