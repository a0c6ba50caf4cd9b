//! Which of a few ways to answer the same is the fastest: all are gone in turn from time to time, and timed.
//!
//! A trial is some rounds. In each of them every way has a stretch of queries, most of which do not count: they find the
//! CPU's caches as the way before has left them, and what one way reads in DRAM another may have there. Of a way the
//! median of its rounds counts. The first way that is within a hundredth of the fastest is then gone for many times as many
//! queries as the trial had, and for twice as many as before whenever the next trial finds the same. Which way to go is one
//! word, read by every query without a lock.

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

/// Where a trial stands.
#[derive(Debug)]
struct Stretch {
    ways: Vec<u8>,
    /// Those of the next trial.
    next: Vec<u8>,
    /// Nanoseconds a query, of each way in each round so far.
    times: Vec<f64>,
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
                ways: vec![way],
                next: vec![way],
                times: vec![],
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
        stretch.ways = stretch.next.clone();
        stretch.times.clear();
        stretch.all = 0;
        if let [only] = stretch.ways[..] {
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
        if let Some(&way) = stretch.ways.get(stretch.times.len() % stretch.ways.len().max(1)) {
            self.go(way, true);
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
        stretch.times.push(each);
        if stretch.times.len() < ROUNDS * stretch.ways.len() {
            self.go_on(&mut stretch);
        } else {
            self.decide(&mut stretch);
        }
    }

    fn decide(&self, stretch: &mut Stretch) {
        let medians = (0..stretch.ways.len()).map(|way| {
            let rounds = stretch.times.iter().skip(way).step_by(stretch.ways.len());
            let mut rounds: Vec<f64> = rounds.copied().collect();
            rounds.sort_by(f64::total_cmp);
            rounds[rounds.len() / 2]
        });
        let medians: Vec<f64> = medians.collect();
        let best = medians.iter().copied().fold(f64::INFINITY, f64::min);
        let close = medians.iter().position(|&time| time * (1.0 - CLOSE) <= best);
        let way = stretch.ways[close.unwrap_or(0)];
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
            && (stretch.next.len() > 1 || stretch.ways.len() > 1)
        {
            self.start(&mut stretch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks so many queries, of which those of way `way` take `nanos(way)`; counts those of each way.
    fn ask(trial: &Trial, queries: u64, nanos: impl Fn(u8) -> f64) -> [u64; 4] {
        let mut gone = [0; 4];
        for query in 0..queries / 64 {
            let turn = trial.turn();
            gone[usize::from(turn.way())] += 64;
            // Times that differ by a third from block to block.
            let noise = 1.0 + (query * 7 % 11) as f64 / 30.0;
            let time = nanos(turn.way()) * noise * 64.0;
            trial.note(turn, 64, Duration::from_nanos(time as u64));
            trial.pass(64);
        }
        gone
    }

    #[test]
    fn the_fastest_way_is_gone_and_others_are_tried_rarely() {
        let trial = Trial::new(3);
        assert_eq!(ask(&trial, 100_000, |_| 500.0)[3], 99_968);
        trial.begin(&[0, 1, 3]);
        ask(&trial, 700_000, |way| {
            [500.0, 400.0, 0.0, 450.0][usize::from(way)]
        });
        assert_eq!((trial.best(), trial.turn().way()), (Some(1), 1));
        let gone = ask(&trial, 50_000_000, |way| {
            [500.0, 400.0, 0.0, 450.0][usize::from(way)]
        });
        assert!(gone[0] + gone[3] < 2_000_000, "{gone:?}");
        // What was the fastest becomes slow: that is noticed in time.
        let gone = ask(&trial, 150_000_000, |way| {
            [500.0, 900.0, 0.0, 950.0][usize::from(way)]
        });
        assert_eq!(trial.best(), Some(0));
        assert!(gone[0] > 50_000_000, "{gone:?}");
    }

    #[test]
    fn of_ways_about_as_fast_the_first_is_gone() {
        let trial = Trial::new(1);
        trial.begin(&[0, 1]);
        ask(&trial, 500_000, |way| [500.0, 497.0][usize::from(way)]);
        assert_eq!(trial.best(), Some(0));
        // Soon, not at once.
        trial.begin(&[0, 1]);
        assert!(!trial.turn().is_timed());
        let gone = ask(&trial, 8_000_000, |way| [500.0, 480.0][usize::from(way)]);
        assert_eq!(trial.best(), Some(1), "{gone:?}");
        // What changes to and fro does not begin trials.
        for _ in 0..100 {
            trial.offer(&[0]);
            trial.offer(&[0, 1, 3]);
        }
        assert!(!trial.turn().is_timed());
        ask(&trial, 8_000_000, |way| {
            [500.0, 480.0, 0.0, 300.0][usize::from(way)]
        });
        assert_eq!(trial.best(), Some(3));
        trial.begin(&[0]);
        assert_eq!((trial.turn().way(), trial.turn().is_timed()), (0, false));
        assert_eq!(ask(&trial, 10_000_000, |_| 1.0)[1..], [0; 3]);
    }

    #[test]
    fn long_queries_make_short_stretches_and_late_notes_do_not_count() {
        let trial = Trial::new(1);
        trial.begin(&[0, 1]);
        let second = Duration::from_secs(1);
        let first = trial.turn();
        trial.note(first, 1, second);
        trial.note(first, 1, second);
        assert_ne!(trial.turn(), first);
        trial.note(first, 1, second);
        for _ in 0..2 * 5 {
            assert_eq!(trial.best(), None);
            let time = if trial.turn().way() == 1 {
                second
            } else {
                2 * second
            };
            trial.note(trial.turn(), 1, time);
        }
        assert_eq!(trial.best(), Some(1));
    }
}
