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
const BEFORE: (u64, Duration) = (32 << 10, Duration::from_millis(150));
const COUNTED: (u64, Duration) = (16 << 10, Duration::from_millis(80));
/// How many times the queries of a trial its result lasts, at first and at most.
const LASTS: u64 = 16;
const LASTS_MOST: u64 = 64;
/// How many times the time of the fastest a way takes that is not gone again.
const FAR: f64 = 1.25;
/// What a way must win over one before it, as a share of the time.
const CLOSE: f64 = 0.01;

/// The way to go, and whether it is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn(u64);

impl Turn {
    const TIMED: u64 = 1 << 8;
    /// One more stretch.
    const STRETCH: u64 = 1 << 9;

    /// The way to go.
    #[inline]
    #[must_use]
    pub fn way(self) -> u8 {
        self.0 as u8
    }

    /// Whether it is that way, and not timed.
    #[inline]
    #[must_use]
    pub fn is_just(self, way: u8) -> bool {
        self.0 & (Self::STRETCH - 1) == u64::from(way)
    }

    /// Whether [`Trial::note`] is to be told how long it takes.
    #[inline]
    #[must_use]
    pub fn is_timed(self) -> bool {
        self.0 & Self::TIMED != 0
    }

    fn next(self, way: u8, timed: bool) -> Self {
        let stretch = (self.0 & !(Self::STRETCH - 1)).wrapping_add(Self::STRETCH);
        Self(stretch | u64::from(way) | if timed { Self::TIMED } else { 0 })
    }
}

/// See the module.
#[derive(Debug)]
pub struct Trial {
    turn: AtomicU64,
    /// Queries to the next trial.
    left: AtomicU64,
    stretch: Mutex<Stretch>,
}

/// A way in a trial.
#[derive(Debug)]
struct Tried {
    way: u8,
    /// Nanoseconds a query, in each round so far.
    rounds: Vec<f64>,
}

/// Where a trial stands.
#[derive(Debug)]
struct Stretch {
    /// The ways that are in it.
    ways: Vec<Tried>,
    /// Those of the next trial.
    next: Vec<u8>,
    counts: bool,
    queries: u64,
    time: Duration,
    /// Queries of this trial, or of the last one.
    all: u64,
    /// What the last one found, and how many times its queries that lasts.
    best: Option<u8>,
    lasts: u64,
}

impl Trial {
    /// Goes one way until [`begin`](Self::begin) says which others there are.
    #[must_use]
    pub fn new(way: u8) -> Self {
        Self {
            turn: AtomicU64::new(u64::from(way)),
            left: AtomicU64::new(0),
            stretch: Mutex::new(Stretch {
                ways: vec![],
                next: vec![way],
                counts: false,
                queries: 0,
                time: Duration::ZERO,
                all: 0,
                best: None,
                lasts: LASTS,
            }),
        }
    }

    /// The way to go.
    #[inline]
    #[must_use]
    pub fn turn(&self) -> Turn {
        Turn(self.turn.load(Relaxed))
    }

    /// These are the ways there are now, those first that are to be gone if they are about as fast. They are tried out at
    /// once; soon, if they are those that there were but may have become faster or slower.
    pub fn begin(&self, ways: &[u8]) {
        let mut stretch = self.stretch.lock().unwrap_or_else(PoisonError::into_inner);
        if stretch.next == ways && (self.turn().is_timed() || stretch.all > 0) {
            self.left.fetch_min(stretch.all * LASTS, Relaxed);
            return;
        }
        stretch.next = ways.to_vec();
        stretch.best = None;
        self.start(&mut stretch);
    }

    /// These are the ways of the next trial, which comes soon: for what changes to and fro.
    pub fn offer(&self, ways: &[u8]) {
        let mut stretch = self.stretch.lock().unwrap_or_else(PoisonError::into_inner);
        stretch.next = ways.to_vec();
        self.left.fetch_min(stretch.all * LASTS, Relaxed);
    }

    fn start(&self, stretch: &mut Stretch) {
        let tried = |&way: &u8| Tried { way, rounds: vec![] };
        stretch.ways = stretch.next.iter().map(tried).collect();
        stretch.all = 0;
        if let [only] = stretch.next[..] {
            stretch.best = None;
            self.go(only, false);
        } else {
            self.go_on(stretch);
        }
    }

    fn go(&self, way: u8, timed: bool) {
        self.turn.store(self.turn().next(way, timed).0, Relaxed);
    }

    /// Begins the next way's stretch.
    fn go_on(&self, stretch: &mut Stretch) {
        (stretch.counts, stretch.queries, stretch.time) = (false, 0, Duration::ZERO);
        if let Some(next) = stretch.turn() {
            self.go(next.way, true);
        }
    }

    /// So many queries took that long at this turn.
    pub fn note(&self, turn: Turn, queries: u64, time: Duration) {
        let mut stretch = match self.stretch.try_lock() {
            Ok(stretch) => stretch,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            // One of many: it is not missed.
            Err(TryLockError::WouldBlock) => return,
        };
        if turn != self.turn() || !turn.is_timed() {
            return;
        }
        stretch.all += queries;
        stretch.queries += queries;
        stretch.time += time;
        let (most, longest) = if stretch.counts { COUNTED } else { BEFORE };
        if stretch.queries < most && stretch.time < longest {
            return;
        }
        if !stretch.counts {
            (stretch.counts, stretch.queries, stretch.time) = (true, 0, Duration::ZERO);
            return;
        }
        let each = stretch.time.as_nanos() as f64 / stretch.queries as f64;
        if let Some(gone) = stretch.turn() {
            gone.rounds.push(each);
        }
        if stretch.is_over() {
            self.decide(&mut stretch);
        } else {
            self.go_on(&mut stretch);
        }
    }

    fn decide(&self, stretch: &mut Stretch) {
        let medians: Vec<(u8, f64)> = stretch.ways.iter().map(Tried::median).collect();
        let best = medians
            .iter()
            .fold(f64::INFINITY, |best, (_, time)| best.min(*time));
        let close = medians.iter().find(|(_, time)| time * (1.0 - CLOSE) <= best);
        let Some(&(way, _)) = close else { return };
        stretch.lasts = match stretch.best == Some(way) {
            true => (2 * stretch.lasts).min(LASTS_MOST),
            false => LASTS,
        };
        stretch.best = Some(way);
        self.left.store(stretch.all * stretch.lasts, Relaxed);
        self.go(way, false);
    }

    /// What the last trial found, unless there are other ways now.
    #[must_use]
    pub fn best(&self) -> Option<u8> {
        self.stretch.lock().unwrap_or_else(PoisonError::into_inner).best
    }

    /// So many queries have gone by: it may be time for the next trial.
    pub fn pass(&self, queries: u64) {
        if self.turn().is_timed() {
            return;
        }
        // Threads that pass at the same time lose some.
        let left = self.left.load(Relaxed);
        self.left.store(left.saturating_sub(queries), Relaxed);
        if left <= queries
            && let Ok(mut stretch) = self.stretch.try_lock()
            && !self.turn().is_timed()
            && (stretch.next.len() > 1 || stretch.best.is_some())
        {
            self.start(&mut stretch);
        }
    }
}

impl Tried {
    fn median(&self) -> (u8, f64) {
        let mut rounds = self.rounds.clone();
        rounds.sort_by(f64::total_cmp);
        let median = rounds.get(rounds.len() / 2);
        (self.way, median.copied().unwrap_or(f64::INFINITY))
    }
}

impl Stretch {
    /// The way whose turn it is: the first of those with the fewest rounds.
    fn turn(&mut self) -> Option<&mut Tried> {
        self.ways.iter_mut().min_by_key(|tried| tried.rounds.len())
    }

    /// Whether a round is the last one; ways that are far slower than the fastest leave with it.
    fn is_over(&mut self) -> bool {
        let rounds = self.ways.first().map_or(0, |first| first.rounds.len());
        if self.ways.iter().any(|tried| tried.rounds.len() < rounds) {
            return false;
        }
        let last = |tried: &Tried| tried.rounds.last().copied().unwrap_or_default();
        let best = self.ways.iter().map(last).fold(f64::INFINITY, f64::min);
        self.ways.retain(|tried| last(tried) <= FAR * best);
        rounds == ROUNDS || self.ways.len() == 1
    }
}

#[cfg(test)]
mod tests;
