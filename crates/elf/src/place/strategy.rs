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

/// Bits of a strategy.
const LISTS: u8 = 1;
const TUPLES: u8 = 2;

/// Exact matches that are timed at once.
const BLOCK: u64 = 128;
/// Indexes whose exact matches a thread times at once.
const BLOCKS: usize = 32;
/// Queries for each sample.
const SAMPLE: u64 = 64;

/// The caches that a query uses: copies of lists, cached tuples, both or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheStrategy(u8);

impl CacheStrategy {
    /// No cache: everything is read from the slow tier.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn uses_lists(self) -> bool {
        self.0 & LISTS != 0
    }

    pub(crate) fn uses_tuples(self) -> bool {
        self.0 & TUPLES != 0
    }
}

/// Kinds of queries, for each of which a strategy is selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueryKind {
    Exact,
    Batch,
    Select,
}

/// Exact matches of one index that a thread is timing.
struct TimedBlock {
    id: u64,
    turn: Turn,
    queries: u64,
    start: Duration,
}

thread_local! {
    static TIMED: RefCell<Vec<TimedBlock>> = const { RefCell::new(vec![]) };
}

/// The ways of one placed index.
#[derive(Debug)]
pub(crate) struct StrategySelector {
    id: u64,
    /// By kind.
    trials: [Trial; 3],
    /// What there is to be tried out, as [`set_available`](Self::set_available) was told.
    available: AtomicU8,
    /// Lists are gone for a moment, to be replaced.
    replacing: AtomicBool,
}

/// What there may be of tuples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TupleState {
    /// None, or they answer hardly any query.
    Useless,
    /// They have not had the time to fill.
    Filling,
    /// As many as there will be.
    Filled,
    /// The same, and so many queries are answered by them that they surely pay.
    Dominant,
}

impl StrategySelector {
    /// All that there is, until something has been tried out.
    pub(crate) fn new() -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        Self {
            id: IDS.fetch_add(1, Relaxed),
            trials: [LISTS | TUPLES, LISTS, LISTS].map(Trial::new),
            available: AtomicU8::new(0),
            replacing: AtomicBool::new(false),
        }
    }

    /// Says what there is. The ways that this makes are tried out.
    #[inline]
    pub(crate) fn set_available(&self, lists: bool, tuples: TupleState) {
        let there = u8::from(lists) | (tuples as u8) << 1;
        if self.available.load(Relaxed) != there && !self.replacing.load(Relaxed) {
            self.availability_changed(there, lists, tuples);
        }
    }

    #[cold]
    fn availability_changed(&self, there: u8, lists: bool, tuples: TupleState) {
        let before = self.available.swap(there, Relaxed);
        let [exact, batch, select] = &self.trials;
        let strategies: &[u8] = match (lists, tuples) {
            // They fill only by being asked.
            (_, TupleState::Filling) => &[LISTS | TUPLES],
            (false, TupleState::Useless) => &[0],
            (false, TupleState::Filled) => &[0, TUPLES],
            (true, TupleState::Useless) => &[0, LISTS],
            (true, TupleState::Filled) => &[0, LISTS, TUPLES, LISTS | TUPLES],
            (false, TupleState::Dominant) => &[TUPLES],
            (true, TupleState::Dominant) => &[TUPLES, LISTS | TUPLES],
        };
        // Tuples that are about worth trying out are so at one time and not at another.
        let filling = |there: u8| there >> 1 == TupleState::Filling as u8;
        if before & 1 == there & 1 && !filling(before) && !filling(there) {
            return exact.offer(strategies);
        }
        exact.begin(strategies);
        for trial in [batch, select] {
            trial.begin(if lists { &[0, LISTS] } else { &[0] });
        }
    }

    /// Whether lists are gone for a moment only: that changes no way, and tells nothing of any.
    pub(crate) fn set_replacing(&self, replacing: bool) {
        self.replacing.store(replacing, Relaxed);
    }

    /// Lists have been copied anew: what was found out may not hold any more.
    pub(crate) fn lists_changed(&self) {
        // As if there had been none; the next sample tells.
        self.available.fetch_and(!1, Relaxed);
    }

    fn trial(&self, kind: QueryKind) -> &Trial {
        &self.trials[kind as usize]
    }

    /// A query of that kind was a sample.
    pub(crate) fn sampled(&self, kind: QueryKind) {
        self.trial(kind).pass(SAMPLE);
    }

    /// Whether queries of that kind use nothing now, and are not timed.
    #[inline]
    pub(crate) fn bypasses_caches(&self, kind: QueryKind) -> bool {
        self.trial(kind).turn().is_just(0)
    }

    /// Whether queries of that kind use lists now.
    pub(crate) fn uses_lists(&self, kind: QueryKind) -> bool {
        CacheStrategy(self.trial(kind).turn().way()).uses_lists()
    }

    /// The way of the exact match that begins.
    #[inline]
    pub(crate) fn exact<B: Bytes>(&self, bytes: &B) -> CacheStrategy {
        let turn = self.trials[0].turn();
        if turn.is_timed() {
            self.time_exact(turn, bytes);
        }
        CacheStrategy(turn.way())
    }

    #[cold]
    #[inline(never)]
    fn time_exact<B: Bytes>(&self, turn: Turn, bytes: &B) {
        TIMED.with_borrow_mut(|blocks| {
            let Some(block) = blocks.iter_mut().find(|block| block.id == self.id) else {
                if blocks.len() == BLOCKS {
                    blocks.remove(0);
                }
                return blocks.push(TimedBlock {
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
                if !changed && !self.replacing.load(Relaxed) {
                    self.trials[0].note(turn, BLOCK, now.saturating_sub(block.start));
                }
                (block.turn, block.queries, block.start) = (turn, 0, now);
            }
        });
    }

    /// Answers `queries` queries that are not exact matches one at a time, given their way.
    pub(crate) fn answer<B: Bytes, R>(
        &self,
        kind: QueryKind,
        queries: u64,
        bytes: &B,
        answer: impl FnOnce(CacheStrategy) -> R,
    ) -> R {
        let trial = self.trial(kind);
        let turn = trial.turn();
        if !turn.is_timed() {
            return answer(CacheStrategy(turn.way()));
        }
        let start = thread_time(bytes);
        let answered = answer(CacheStrategy(turn.way()));
        if !self.replacing.load(Relaxed) {
            trial.note(turn, queries.max(1), thread_time(bytes).saturating_sub(start));
        }
        answered
    }

    /// Whether it was found that no kind of query is faster with what there is.
    pub(crate) fn are_useless(&self) -> bool {
        let mut found = self.trials.iter().filter_map(Trial::best).peekable();
        found.peek().is_some() && found.all(|strategy| strategy == 0)
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
