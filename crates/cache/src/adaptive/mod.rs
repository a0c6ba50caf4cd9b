//! Selection of the fastest of several equivalent strategies, by measuring all of them from time to time.
//!
//! A trial consists of rounds. In each round every strategy runs for a number of queries. Most of these are a
//! warm-up and are not timed: they find the CPU caches as the previous strategy has left them, and what one
//! strategy reads from DRAM another may still have in the caches. The result of a strategy is the median of
//! its rounds; a strategy that is far slower than the fastest in a round leaves the trial. The first strategy
//! within a hundredth of the fastest is then used for a multiple of the queries that the trial took, and for
//! twice as many as before whenever the next trial has the same result. The current strategy is one word,
//! which queries read without a lock.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

/// Number of rounds in a trial.
const ROUNDS: usize = 3;
/// Limits of the warm-up and of the timed part of a run: number of queries and duration, whichever is reached
/// first. The warm-up queries, at a few lines each, read about as many lines as a cache of a dozen MiB holds.
const WARMUP: (u64, Duration) = (32 << 10, Duration::from_millis(150));
const COUNTED: (u64, Duration) = (16 << 10, Duration::from_millis(80));
/// Factors by which the queries of a trial are multiplied to obtain the validity of its result: the
/// initial one and the maximum.
const VALIDITY: u64 = 16;
const MAX_VALIDITY: u64 = 64;
/// A strategy slower than the fastest by this factor leaves the trial.
const DROP_RATIO: f64 = 1.25;
/// Fraction of time that a strategy must save to be preferred to one listed before it.
const TOLERANCE: f64 = 0.01;

/// The strategy to use for a query, and whether the query is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StrategyChoice(u64);

impl StrategyChoice {
    const TIMED: u64 = 1 << 8;
    /// Increment of the run counter, which makes choices of different runs distinct.
    const RUN_INCREMENT: u64 = 1 << 9;

    /// Returns the strategy.
    #[inline]
    #[must_use]
    pub fn strategy(self) -> u8 {
        self.0 as u8
    }

    /// Returns true if the strategy is `strategy` and the query is not timed.
    #[inline]
    #[must_use]
    pub fn is_untimed(self, strategy: u8) -> bool {
        self.0 & (Self::RUN_INCREMENT - 1) == u64::from(strategy)
    }

    /// Returns true if the duration should be passed to [`AdaptiveSelector::record`].
    #[inline]
    #[must_use]
    pub fn is_timed(self) -> bool {
        self.0 & Self::TIMED != 0
    }

    fn next(self, strategy: u8, timed: bool) -> Self {
        let state = (self.0 & !(Self::RUN_INCREMENT - 1)).wrapping_add(Self::RUN_INCREMENT);
        Self(state | u64::from(strategy) | if timed { Self::TIMED } else { 0 })
    }
}

/// A selector of the fastest strategy; see the module documentation.
#[derive(Debug)]
pub struct AdaptiveSelector {
    choice: AtomicU64,
    /// Number of queries until the next trial.
    left: AtomicU64,
    state: Mutex<TrialState>,
}

/// A strategy in a trial.
#[derive(Debug)]
struct StrategyCandidate {
    strategy: u8,
    /// Nanoseconds per query in each completed round.
    rounds: Vec<f64>,
}

/// The state of a trial.
#[derive(Debug)]
struct TrialState {
    /// The strategies that remain in this trial.
    strategies: Vec<StrategyCandidate>,
    /// The strategies of the next trial.
    next: Vec<u8>,
    counting: bool,
    queries: u64,
    time: Duration,
    /// Number of queries of this trial, or of the last one.
    total: u64,
    /// The result of the last trial and the factor of its validity.
    best: Option<u8>,
    validity: u64,
}

impl AdaptiveSelector {
    /// Creates a selector that uses one strategy until [`begin`](Self::begin) adds others.
    #[must_use]
    pub fn new(strategy: u8) -> Self {
        Self {
            choice: AtomicU64::new(u64::from(strategy)),
            left: AtomicU64::new(0),
            state: Mutex::new(TrialState {
                strategies: vec![],
                next: vec![strategy],
                counting: false,
                queries: 0,
                time: Duration::ZERO,
                total: 0,
                best: None,
                validity: VALIDITY,
            }),
        }
    }

    /// Returns the current choice.
    #[inline]
    #[must_use]
    pub fn choice(&self) -> StrategyChoice {
        StrategyChoice(self.choice.load(Relaxed))
    }

    /// Sets the available strategies, in the order of preference among those that are about equally fast. A
    /// trial begins at once, or soon if the strategies are the same and only their speed may have changed.
    pub fn begin(&self, strategies: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.next == strategies && (self.choice().is_timed() || state.total > 0) {
            self.left.fetch_min(state.total * VALIDITY, Relaxed);
            return;
        }
        state.next = strategies.to_vec();
        state.best = None;
        self.start(&mut state);
    }

    /// Sets the strategies of the next trial, which begins soon. It is meant for sets that change back and
    /// forth.
    pub fn offer(&self, strategies: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.next = strategies.to_vec();
        self.left.fetch_min(state.total * VALIDITY, Relaxed);
    }

    fn start(&self, state: &mut TrialState) {
        let candidate = |&strategy: &u8| StrategyCandidate {
            strategy,
            rounds: vec![],
        };
        state.strategies = state.next.iter().map(candidate).collect();
        state.total = 0;
        if let [only] = state.next[..] {
            state.best = None;
            self.switch_to(only, false);
        } else {
            self.next_candidate(state);
        }
    }

    fn switch_to(&self, strategy: u8, timed: bool) {
        self.choice.store(self.choice().next(strategy, timed).0, Relaxed);
    }

    /// Begins the run of the next strategy.
    fn next_candidate(&self, state: &mut TrialState) {
        (state.counting, state.queries, state.time) = (false, 0, Duration::ZERO);
        if let Some(next) = state.choice() {
            self.switch_to(next.strategy, true);
        }
    }

    /// Records that a number of queries with this choice took a duration.
    pub fn record(&self, choice: StrategyChoice, queries: u64, time: Duration) {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            // One of many measurements; losing it does no harm.
            Err(TryLockError::WouldBlock) => return,
        };
        if choice != self.choice() || !choice.is_timed() {
            return;
        }
        state.total += queries;
        state.queries += queries;
        state.time += time;
        let (most, longest) = if state.counting { COUNTED } else { WARMUP };
        if state.queries < most && state.time < longest {
            return;
        }
        if !state.counting {
            (state.counting, state.queries, state.time) = (true, 0, Duration::ZERO);
            return;
        }
        let each = state.time.as_nanos() as f64 / state.queries as f64;
        if let Some(gone) = state.choice() {
            gone.rounds.push(each);
        }
        if state.is_over() {
            self.decide(&mut state);
        } else {
            self.next_candidate(&mut state);
        }
    }

    fn decide(&self, state: &mut TrialState) {
        let medians: Vec<(u8, f64)> = state.strategies.iter().map(StrategyCandidate::median).collect();
        let best = medians
            .iter()
            .fold(f64::INFINITY, |best, (_, time)| best.min(*time));
        let close = medians.iter().find(|(_, time)| time * (1.0 - TOLERANCE) <= best);
        let Some(&(strategy, _)) = close else { return };
        state.validity = if state.best == Some(strategy) {
            (2 * state.validity).min(MAX_VALIDITY)
        } else {
            VALIDITY
        };
        state.best = Some(strategy);
        self.left.store(state.total * state.validity, Relaxed);
        self.switch_to(strategy, false);
    }

    /// Returns the result of the last trial, or `None` if the strategies have changed since.
    #[must_use]
    pub fn best(&self) -> Option<u8> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).best
    }

    /// Counts queries that have passed. Begins the next trial when it is due.
    pub fn pass(&self, queries: u64) {
        if self.choice().is_timed() {
            return;
        }
        // Concurrent updates may be lost, which only delays the next trial.
        let left = self.left.load(Relaxed);
        self.left.store(left.saturating_sub(queries), Relaxed);
        if left <= queries
            && let Ok(mut state) = self.state.try_lock()
            && !self.choice().is_timed()
            && (state.next.len() > 1 || state.best.is_some())
        {
            self.start(&mut state);
        }
    }
}

impl StrategyCandidate {
    fn median(&self) -> (u8, f64) {
        let mut rounds = self.rounds.clone();
        rounds.sort_by(f64::total_cmp);
        let median = rounds.get(rounds.len() / 2);
        (self.strategy, median.copied().unwrap_or(f64::INFINITY))
    }
}

impl TrialState {
    /// Returns the strategy whose run is in progress: the first with the fewest rounds.
    fn choice(&mut self) -> Option<&mut StrategyCandidate> {
        self.strategies
            .iter_mut()
            .min_by_key(|candidate| candidate.rounds.len())
    }

    /// Returns true if the trial is over. At the end of a round, strategies that are far slower than the
    /// fastest leave the trial.
    fn is_over(&mut self) -> bool {
        let rounds = self.strategies.first().map_or(0, |first| first.rounds.len());
        if self
            .strategies
            .iter()
            .any(|candidate| candidate.rounds.len() < rounds)
        {
            return false;
        }
        let last = |candidate: &StrategyCandidate| candidate.rounds.last().copied().unwrap_or_default();
        let best = self.strategies.iter().map(last).fold(f64::INFINITY, f64::min);
        self.strategies
            .retain(|candidate| last(candidate) <= DROP_RATIO * best);
        rounds == ROUNDS || self.strategies.len() == 1
    }
}

#[cfg(test)]
mod tests;
