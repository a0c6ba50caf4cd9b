//! Which of a few ways to answer the same is the fastest: all are gone in turn from time to time, and timed.
//!
//! A trial is some rounds. In each of them every way has a stretch of queries, most of which do not count: they find the
//! CPU's caches as the way before has left them, and what one way reads in DRAM another may have there. Of a way the
//! median of its rounds counts; one that is far slower than another in a round has no more of them. The first way that
//! is within a hundredth of the fastest is then gone for many times as many queries as the trial had, and for twice as many
//! as before whenever the next trial finds the same. Which way to go is one word, read by every query without a lock.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

/// Of each way in a trial.
const ROUNDS: usize = 3;
/// Queries at the beginning of a stretch that do not count, and those that do; fewer if they take so long. Some of the
/// first kind with a few lines each bring in as many lines as a cache of a dozen MiB holds.
const WARMUP: (u64, Duration) = (32 << 10, Duration::from_millis(150));
const COUNTED: (u64, Duration) = (16 << 10, Duration::from_millis(80));
/// How many times the queries of a trial its result lasts, at first and at most.
const VALIDITY: u64 = 16;
const MAX_VALIDITY: u64 = 64;
/// How many times the time of the fastest a way takes that is not gone again.
const DROP_RATIO: f64 = 1.25;
/// What a way must win over one before it, as a share of the time.
const TOLERANCE: f64 = 0.01;

/// The way to go, and whether it is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StrategyChoice(u64);

impl StrategyChoice {
    const TIMED: u64 = 1 << 8;
    /// One more stretch.
    const STEP: u64 = 1 << 9;

    /// The way to go.
    #[inline]
    #[must_use]
    pub fn strategy(self) -> u8 {
        self.0 as u8
    }

    /// Whether it is that way, and not timed.
    #[inline]
    #[must_use]
    pub fn is_untimed(self, strategy: u8) -> bool {
        self.0 & (Self::STEP - 1) == u64::from(strategy)
    }

    /// Whether [`AdaptiveSelector::record`] is to be told how long it takes.
    #[inline]
    #[must_use]
    pub fn is_timed(self) -> bool {
        self.0 & Self::TIMED != 0
    }

    fn next(self, strategy: u8, timed: bool) -> Self {
        let state = (self.0 & !(Self::STEP - 1)).wrapping_add(Self::STEP);
        Self(state | u64::from(strategy) | if timed { Self::TIMED } else { 0 })
    }
}

/// See the module.
#[derive(Debug)]
pub struct AdaptiveSelector {
    choice: AtomicU64,
    /// Queries to the next trial.
    left: AtomicU64,
    state: Mutex<TrialState>,
}

/// A way in a trial.
#[derive(Debug)]
struct Candidate {
    strategy: u8,
    /// Nanoseconds a query, in each round so far.
    rounds: Vec<f64>,
}

/// Where a trial stands.
#[derive(Debug)]
struct TrialState {
    /// The ways that are in it.
    strategies: Vec<Candidate>,
    /// Those of the next trial.
    next: Vec<u8>,
    counting: bool,
    queries: u64,
    time: Duration,
    /// Queries of this trial, or of the last one.
    total: u64,
    /// What the last one found, and how many times its queries that lasts.
    best: Option<u8>,
    validity: u64,
}

impl AdaptiveSelector {
    /// Goes one way until [`begin`](Self::begin) says which others there are.
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

    /// The way to go.
    #[inline]
    #[must_use]
    pub fn choice(&self) -> StrategyChoice {
        StrategyChoice(self.choice.load(Relaxed))
    }

    /// These are the ways there are now, those first that are to be gone if they are about as fast. They are tried out at
    /// once; soon, if they are those that there were but may have become faster or slower.
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

    /// These are the ways of the next trial, which comes soon: for what changes to and fro.
    pub fn offer(&self, strategies: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.next = strategies.to_vec();
        self.left.fetch_min(state.total * VALIDITY, Relaxed);
    }

    fn start(&self, state: &mut TrialState) {
        let candidate = |&strategy: &u8| Candidate {
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

    /// Begins the next way's stretch.
    fn next_candidate(&self, state: &mut TrialState) {
        (state.counting, state.queries, state.time) = (false, 0, Duration::ZERO);
        if let Some(next) = state.choice() {
            self.switch_to(next.strategy, true);
        }
    }

    /// So many queries took that long at this turn.
    pub fn record(&self, choice: StrategyChoice, queries: u64, time: Duration) {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            // One of many: it is not missed.
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
        let medians: Vec<(u8, f64)> = state.strategies.iter().map(Candidate::median).collect();
        let best = medians
            .iter()
            .fold(f64::INFINITY, |best, (_, time)| best.min(*time));
        let close = medians.iter().find(|(_, time)| time * (1.0 - TOLERANCE) <= best);
        let Some(&(strategy, _)) = close else { return };
        state.validity = match state.best == Some(strategy) {
            true => (2 * state.validity).min(MAX_VALIDITY),
            false => VALIDITY,
        };
        state.best = Some(strategy);
        self.left.store(state.total * state.validity, Relaxed);
        self.switch_to(strategy, false);
    }

    /// What the last trial found, unless there are other ways now.
    #[must_use]
    pub fn best(&self) -> Option<u8> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).best
    }

    /// So many queries have gone by: it may be time for the next trial.
    pub fn pass(&self, queries: u64) {
        if self.choice().is_timed() {
            return;
        }
        // Threads that pass at the same time lose some.
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

impl Candidate {
    fn median(&self) -> (u8, f64) {
        let mut rounds = self.rounds.clone();
        rounds.sort_by(f64::total_cmp);
        let median = rounds.get(rounds.len() / 2);
        (self.strategy, median.copied().unwrap_or(f64::INFINITY))
    }
}

impl TrialState {
    /// The way whose turn it is: the first of those with the fewest rounds.
    fn choice(&mut self) -> Option<&mut Candidate> {
        self.strategies
            .iter_mut()
            .min_by_key(|candidate| candidate.rounds.len())
    }

    /// Whether a round is the last one; ways that are far slower than the fastest leave with it.
    fn is_over(&mut self) -> bool {
        let rounds = self.strategies.first().map_or(0, |first| first.rounds.len());
        if self
            .strategies
            .iter()
            .any(|candidate| candidate.rounds.len() < rounds)
        {
            return false;
        }
        let last = |candidate: &Candidate| candidate.rounds.last().copied().unwrap_or_default();
        let best = self.strategies.iter().map(last).fold(f64::INFINITY, f64::min);
        self.strategies
            .retain(|candidate| last(candidate) <= DROP_RATIO * best);
        rounds == ROUNDS || self.strategies.len() == 1
    }
}

#[cfg(test)]
mod tests;
