//! Which caches a query uses: those with which queries of its kind are the fastest, as measured.
//!
//! Time is the medium's own where that is emulated: what the emulation computes is no time. Exact matches are timed many at
//! once, by each thread for itself: a look at the clock between two would keep them from overlapping.
//!
//! Exact matches, batches and selections are decided separately. A trial goes through the strategies there
//! are (neither cache, lists, tuples, both; those with tuples only once tuples answer a quarter of the
//! queries) for 48 Ki queries three times, of which the last third of each is timed. The strategy of the
//! least median is then used for 16 to 64 times as many queries; of two within a hundredth, the one with
//! fewer copies. One query in 17 at first, and one in 65 later, belongs to a trial. A placement whose copies
//! do not pay says so in `fallback`, and keeps its copies for the next trial.

use halocline_cache::{Trial, Turn};
use halocline_media::Bytes;
use std::cell::RefCell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a way uses: copies of lists, and tuples. Without either all is read from the slow tier.
pub(crate) const LISTS: u8 = 1;
pub(crate) const TUPLES: u8 = 2;

/// Exact matches that are timed at once.
const BLOCK: u64 = 128;
/// Indexes whose exact matches a thread times at once.
const BLOCKS: usize = 32;
/// Queries for each sample.
const SAMPLE: u64 = 64;

/// Queries that are answered alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Exact,
    Batch,
    Select,
}

/// Exact matches of one index that a thread is timing.
struct Block {
    id: u64,
    turn: Turn,
    queries: u64,
    start: Duration,
}

thread_local! {
    static TIMED: RefCell<Vec<Block>> = const { RefCell::new(vec![]) };
}

/// The ways of one placed index.
#[derive(Debug)]
pub(crate) struct Ways {
    id: u64,
    /// By kind.
    trials: [Trial; 3],
    /// What there is to be tried out, as [`Ways::has`] was told.
    there: AtomicU8,
    /// Lists are gone for a moment, to be replaced.
    between: AtomicBool,
}

/// What there may be of tuples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Have {
    /// None, or they answer hardly any query.
    Nothing,
    /// They have not had the time to fill.
    Filling,
    /// As many as there will be.
    Filled,
    /// The same, and so many queries are answered by them that they surely pay.
    Most,
}

impl Ways {
    /// All that there is, until something has been tried out.
    pub(crate) fn new() -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        Self {
            id: IDS.fetch_add(1, Relaxed),
            trials: [LISTS | TUPLES, LISTS, LISTS].map(Trial::new),
            there: AtomicU8::new(0),
            between: AtomicBool::new(false),
        }
    }

    /// Says what there is. The ways that this makes are tried out.
    #[inline]
    pub(crate) fn has(&self, lists: bool, tuples: Have) {
        let there = u8::from(lists) | (tuples as u8) << 1;
        if self.there.load(Relaxed) != there && !self.between.load(Relaxed) {
            self.has_changed(there, lists, tuples);
        }
    }

    #[cold]
    fn has_changed(&self, there: u8, lists: bool, tuples: Have) {
        let before = self.there.swap(there, Relaxed);
        let [exact, batch, select] = &self.trials;
        let ways: &[u8] = match (lists, tuples) {
            // They fill only by being asked.
            (_, Have::Filling) => &[LISTS | TUPLES],
            (false, Have::Nothing) => &[0],
            (false, Have::Filled) => &[0, TUPLES],
            (true, Have::Nothing) => &[0, LISTS],
            (true, Have::Filled) => &[0, LISTS, TUPLES, LISTS | TUPLES],
            (false, Have::Most) => &[TUPLES],
            (true, Have::Most) => &[TUPLES, LISTS | TUPLES],
        };
        // Tuples that are about worth trying out are so at one time and not at another.
        let filling = |there: u8| there >> 1 == Have::Filling as u8;
        if before & 1 == there & 1 && !filling(before) && !filling(there) {
            return exact.offer(ways);
        }
        exact.begin(ways);
        for trial in [batch, select] {
            trial.begin(if lists { &[0, LISTS] } else { &[0] });
        }
    }

    /// Whether lists are gone for a moment only: that changes no way, and tells nothing of any.
    pub(crate) fn set_between(&self, between: bool) {
        self.between.store(between, Relaxed);
    }

    /// Lists have been copied anew: what was found out may not hold any more.
    pub(crate) fn lists_changed(&self) {
        // As if there had been none; the next sample tells.
        self.there.fetch_and(!1, Relaxed);
    }

    fn trial(&self, kind: Kind) -> &Trial {
        &self.trials[kind as usize]
    }

    /// A query of that kind was a sample.
    pub(crate) fn sampled(&self, kind: Kind) {
        self.trial(kind).pass(SAMPLE);
    }

    /// Whether queries of that kind use nothing now, and are not timed.
    #[inline]
    pub(crate) fn go_round(&self, kind: Kind) -> bool {
        self.trial(kind).turn().is_just(0)
    }

    /// Whether queries of that kind use lists now.
    pub(crate) fn uses_lists(&self, kind: Kind) -> bool {
        self.trial(kind).turn().way() & LISTS != 0
    }

    /// The way of the exact match that begins.
    #[inline]
    pub(crate) fn exact<B: Bytes>(&self, bytes: &B) -> u8 {
        let turn = self.trials[0].turn();
        if turn.is_timed() {
            self.time_exact(turn, bytes);
        }
        turn.way()
    }

    #[cold]
    #[inline(never)]
    fn time_exact<B: Bytes>(&self, turn: Turn, bytes: &B) {
        TIMED.with_borrow_mut(|blocks| {
            let Some(block) = blocks.iter_mut().find(|block| block.id == self.id) else {
                if blocks.len() == BLOCKS {
                    blocks.remove(0);
                }
                return blocks.push(Block {
                    id: self.id,
                    turn,
                    queries: 0,
                    start: thread_time(bytes),
                });
            };
            block.queries += 1;
            let changed = block.turn != turn;
            if changed || block.queries == BLOCK {
                let now = thread_time(bytes);
                if !changed && !self.between.load(Relaxed) {
                    self.trials[0].note(turn, BLOCK, now.saturating_sub(block.start));
                }
                (block.turn, block.queries, block.start) = (turn, 0, now);
            }
        });
    }

    /// Answers `queries` queries that are not exact matches one at a time, given their way.
    pub(crate) fn answer<B: Bytes, R>(
        &self,
        kind: Kind,
        queries: u64,
        bytes: &B,
        answer: impl FnOnce(u8) -> R,
    ) -> R {
        let trial = self.trial(kind);
        let turn = trial.turn();
        if !turn.is_timed() {
            return answer(turn.way());
        }
        let start = thread_time(bytes);
        let answered = answer(turn.way());
        if !self.between.load(Relaxed) {
            trial.note(turn, queries.max(1), thread_time(bytes).saturating_sub(start));
        }
        answered
    }

    /// Whether it was found that no kind of query is faster with what there is.
    pub(crate) fn are_of_no_use(&self) -> bool {
        let mut found = self.trials.iter().filter_map(Trial::best).peekable();
        found.peek().is_some() && found.all(|way| way == 0)
    }
}

/// Returns the time of this thread on the clock of the bytes' medium: see
/// [`AccessObserver::thread_time`](halocline_media::AccessObserver::thread_time). Without an observer it is real time.
fn thread_time<B: Bytes>(bytes: &B) -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    match bytes.observer() {
        Some(observer) => observer.thread_time(),
        None => START.elapsed(),
    }
}
