//! Selection of the caches that a query uses: those with which queries of its kind were measured to be
//! fastest.
//!
//! On an emulated medium, time is that of the medium's clock. Exact matches are timed in blocks, by each
//! thread for itself: reading the clock between two of them would keep their cache misses from overlapping.
//!
//! Exact matches, batches and selections are decided separately. A trial runs each available strategy
//! (neither cache, lists, tuples, both) for 48 Ki queries, three times; the last third of each run is timed.
//! The strategy of the least median is then used for 16 to 64 times as many queries; of two within a
//! hundredth, the one with fewer copies. One query in 17 at first, and one in 65 later, belongs to a trial. A
//! placement whose copies do not pay says so in `fallback`, and keeps its copies for the next trial.

use halocline_cache::{AdaptiveSelector, StrategyChoice};
use halocline_media::Bytes;
use std::cell::RefCell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Bits of a strategy.
const LISTS: u8 = 1;
const TUPLES: u8 = 2;

/// Exact matches of a timed block.
const BLOCK: u64 = 128;
/// Most indexes whose exact matches a thread times at the same time.
const BLOCKS: usize = 32;
/// Queries per sample.
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

/// A block of exact matches of one index that a thread is timing.
struct TimedBlock {
    id: u64,
    turn: StrategyChoice,
    queries: u64,
    start: Duration,
}

thread_local! {
    static TIMED: RefCell<Vec<TimedBlock>> = const { RefCell::new(vec![]) };
}

/// The selector of one placed index.
#[derive(Debug)]
pub(crate) struct StrategySelector {
    id: u64,
    /// One per [`QueryKind`].
    trials: [AdaptiveSelector; 3],
    /// The available caches, as last passed to [`set_available`](Self::set_available).
    available: AtomicU8,
    /// True while lists are being replaced.
    replacing: AtomicBool,
}

/// State of the tuple cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TupleState {
    /// There is none, or its hit rate is too low to pay.
    Useless,
    /// It is not full yet.
    Filling,
    /// It is full.
    Filled,
    /// It is full, and its hit rate is so high that it is used without a measurement.
    Dominant,
}

impl StrategySelector {
    /// Creates a selector that uses all caches until a trial has ended.
    pub(crate) fn new() -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        Self {
            id: IDS.fetch_add(1, Relaxed),
            trials: [LISTS | TUPLES, LISTS, LISTS].map(AdaptiveSelector::new),
            available: AtomicU8::new(0),
            replacing: AtomicBool::new(false),
        }
    }

    /// Sets the available caches. A change starts trials of the strategies that they allow.
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
            // The cache fills only if queries use it.
            (_, TupleState::Filling) => &[LISTS | TUPLES],
            (false, TupleState::Useless) => &[0],
            (false, TupleState::Filled) => &[0, TUPLES],
            (true, TupleState::Useless) => &[0, LISTS],
            (true, TupleState::Filled) => &[0, LISTS, TUPLES, LISTS | TUPLES],
            (false, TupleState::Dominant) => &[TUPLES],
            (true, TupleState::Dominant) => &[TUPLES, LISTS | TUPLES],
        };
        // The hit rate may move back and forth across the limit: that extends a trial instead of starting a
        // new one.
        let filling = |there: u8| there >> 1 == TupleState::Filling as u8;
        if before & 1 == there & 1 && !filling(before) && !filling(there) {
            return exact.offer(strategies);
        }
        exact.begin(strategies);
        for trial in [batch, select] {
            trial.begin(if lists { &[0, LISTS] } else { &[0] });
        }
    }

    /// Marks lists as being replaced: until then no trial is started and no time is recorded.
    pub(crate) fn set_replacing(&self, replacing: bool) {
        self.replacing.store(replacing, Relaxed);
    }

    /// Makes the next sample start a trial; called after a renewal, as earlier measurements may not hold for
    /// the new copies.
    pub(crate) fn lists_changed(&self) {
        // The next sample sees new lists and starts a trial.
        self.available.fetch_and(!1, Relaxed);
    }

    fn trial(&self, kind: QueryKind) -> &AdaptiveSelector {
        &self.trials[kind as usize]
    }

    /// Accounts for the queries that a sample of this kind stands for.
    pub(crate) fn sampled(&self, kind: QueryKind) {
        self.trial(kind).pass(SAMPLE);
    }

    /// Returns true if queries of this kind use no cache now and are not timed.
    #[inline]
    pub(crate) fn bypasses_caches(&self, kind: QueryKind) -> bool {
        self.trial(kind).choice().is_untimed(0)
    }

    /// Returns true if queries of this kind use lists now.
    pub(crate) fn uses_lists(&self, kind: QueryKind) -> bool {
        CacheStrategy(self.trial(kind).choice().strategy()).uses_lists()
    }

    /// Returns the strategy of the exact match that begins.
    #[inline]
    pub(crate) fn exact<B: Bytes>(&self, bytes: &B) -> CacheStrategy {
        let turn = self.trials[0].choice();
        if turn.is_timed() {
            self.time_exact(turn, bytes);
        }
        CacheStrategy(turn.strategy())
    }

    #[cold]
    #[inline(never)]
    fn time_exact<B: Bytes>(&self, turn: StrategyChoice, bytes: &B) {
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
                    self.trials[0].record(turn, BLOCK, now.saturating_sub(block.start));
                }
                (block.turn, block.queries, block.start) = (turn, 0, now);
            }
        });
    }

    /// Calls `answer` with the strategy of `queries` queries, and times it if a trial asks for that. Not for
    /// single exact matches, which are timed in blocks.
    pub(crate) fn answer<B: Bytes, R>(
        &self,
        kind: QueryKind,
        queries: u64,
        bytes: &B,
        answer: impl FnOnce(CacheStrategy) -> R,
    ) -> R {
        let trial = self.trial(kind);
        let turn = trial.choice();
        if !turn.is_timed() {
            return answer(CacheStrategy(turn.strategy()));
        }
        let start = thread_time(bytes);
        let answered = answer(CacheStrategy(turn.strategy()));
        if !self.replacing.load(Relaxed) {
            trial.record(turn, queries.max(1), thread_time(bytes).saturating_sub(start));
        }
        answered
    }

    /// Returns true if trials found that no kind of query is faster with the caches.
    pub(crate) fn are_useless(&self) -> bool {
        let mut found = self.trials.iter().filter_map(AdaptiveSelector::best).peekable();
        found.peek().is_some() && found.all(|strategy| strategy == 0)
    }
}

/// Returns the time of this thread on the clock of the bytes' medium: see
/// [`AccessObserver::thread_time`](halocline_media::AccessObserver::thread_time). Without an observer it is
/// real time.
fn thread_time<B: Bytes>(bytes: &B) -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    match bytes.observer() {
        Some(observer) => observer.thread_time(),
        None => START.elapsed(),
    }
}
