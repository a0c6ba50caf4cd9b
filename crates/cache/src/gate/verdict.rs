//! The verdict of a [gate](super::gate) on a window of lookups.

/// Factor by which the hit rate must exceed the break-even rate to open a closed gate.
const TO_OPEN: f64 = 1.1;
/// Part of the time with a closed gate that lookups may take with an open one.
const TO_STAY: f64 = 0.92;
/// Part of the break-even rate below which an open gate closes whatever was measured.
const HOPELESS: f64 = 0.5;
/// Limits of the break-even rate, against times that were measured badly.
const BREAK_EVEN: (f64, f64) = (0.02, 0.9);
/// The break-even rate before lookups were timed with an open gate.
const INITIAL: f64 = 0.12;
/// Number of times of single lookups that a moving average is about, and of the first of which it is the
/// least: these find nothing in the CPU's caches.
const AVERAGED: u32 = 64;
const FIRST: u32 = 8;
/// Weight of a window in the moving averages.
const WINDOW_WEIGHT: f64 = 1.0 / 3.0;
/// Factor of the average time above which a lookup was interrupted.
const INTERRUPTED: f64 = 8.0;
/// Maximum number of windows after an opening that are not judged because the cache is being filled.
const MAX_FILLING_WINDOWS: u64 = 8;
/// Windows that are averaged before an open gate is judged.
const JUDGED: u64 = 3;
/// Windows from a failed attempt to the next: the first time and the most.
const WAIT: (u64, u64) = (8, 512);
/// Part of the time until the next attempt that a failed one may have lost.
const LOSS: f64 = 0.02;
/// Windows between measurements with a closed gate: the first time and the most.
const RENEWAL: (u64, u64) = (64, 512);
/// Increase of the hit rate after which an attempt does not wait.
const MIN_RATE_INCREASE: f64 = 0.1;

/// The measurements of a gate. Times are in nanoseconds.
#[derive(Debug)]
pub(super) struct GateState {
    /// Times of lookups in the cache with an open gate (those of the sample find less in the CPU's caches),
    /// and of searches after a miss.
    lookup: Average,
    search: Average,
    window: Window,
    /// Hit rate of the last window.
    hit_rate: Option<f64>,
    /// Time of a lookup with a closed and with an open gate.
    closed: Option<f64>,
    opened: Option<f64>,
    /// Windows that are not judged, since the cache is being filled: now, and after an opening.
    filling: u64,
    to_fill: u64,
    /// Windows that were judged since the gate was opened.
    judged: u64,
    /// Windows to the next attempt to open, or to the next measurement with a closed gate.
    left: u64,
    wait: u64,
    renewal: u64,
    /// The gate is closed for a measurement.
    renews: bool,
    /// The hit rate with which lookups took too long.
    failed: Option<f64>,
}

#[derive(Debug, Default)]
struct Window {
    timed: u64,
    time: f64,
    lookups: u64,
    hits: u64,
}

impl GateState {
    /// Returns the state of a closed gate whose cache takes a number of windows to be filled.
    pub(super) fn new(to_fill: u64) -> Self {
        let to_fill = to_fill.min(MAX_FILLING_WINDOWS);
        Self {
            lookup: Average::default(),
            search: Average::default(),
            window: Window::default(),
            hit_rate: None,
            closed: None,
            opened: None,
            filling: to_fill,
            to_fill,
            judged: 0,
            left: 0,
            wait: WAIT.0,
            renewal: RENEWAL.0,
            renews: false,
            failed: None,
        }
    }

    /// Counts lookups and how many of them hit.
    pub(super) fn count(&mut self, lookups: u64, hits: u64) {
        self.window.lookups += lookups;
        self.window.hits += hits;
    }

    /// Adds the times of a lookup in the cache and of a search after a miss to their averages.
    pub(super) fn time(&mut self, is_open: bool, lookup: f64, search: Option<f64>) {
        if is_open {
            self.lookup.add(lookup);
        }
        if let Some(search) = search {
            self.search.add(search);
        }
    }

    /// Adds the time of lookups to the window. Returns the number of those that it has.
    pub(super) fn add(&mut self, is_open: bool, time: f64, lookups: u64) -> u64 {
        let average = if is_open { self.opened } else { None };
        let most = average
            .or(self.closed)
            .map_or(f64::MAX, |average| INTERRUPTED * average);
        self.window.time += time.min(most * lookups as f64);
        self.window.timed += lookups;
        self.window.timed
    }

    /// Returns the hit rate of the last window.
    pub(super) fn hit_rate(&self) -> Option<f64> {
        self.hit_rate
    }

    /// Returns the hit rate from which on lookups are expected to pay.
    pub(super) fn break_even(&self) -> f64 {
        match self.lookup.times.min(self.search.times) {
            0 => INITIAL,
            _ => (self.lookup.time / self.search.time).clamp(BREAK_EVEN.0, BREAK_EVEN.1),
        }
    }

    /// Ends a window. Returns true if the gate is to be open.
    pub(super) fn judge(&mut self, is_open: bool) -> bool {
        let window = std::mem::take(&mut self.window);
        let time = window.time / window.timed as f64;
        if window.lookups > 0 {
            self.hit_rate = Some(window.hits as f64 / window.lookups as f64);
        }
        self.left = self.left.saturating_sub(1);
        if is_open {
            self.opened = Some(
                self.opened
                    .map_or(time, |opened| moved(opened, time, WINDOW_WEIGHT)),
            );
            self.judge_open()
        } else {
            self.closed = Some(
                self.closed
                    .map_or(time, |closed| moved(closed, time, WINDOW_WEIGHT)),
            );
            self.judge_closed()
        }
    }

    fn judge_closed(&mut self) -> bool {
        if std::mem::take(&mut self.renews) {
            self.left = self.renewal;
            return true;
        }
        self.filling = self.filling.saturating_sub(1);
        let rate = self.hit_rate.unwrap_or(0.0);
        let has_risen = self.failed.is_none_or(|failed| rate > failed + MIN_RATE_INCREASE);
        let opens = self.filling == 0 && rate > TO_OPEN * self.break_even() && (self.left == 0 || has_risen);
        if opens {
            (self.filling, self.judged, self.opened) = (self.to_fill, 0, None);
            self.left = self.renewal;
        }
        opens
    }

    fn judge_open(&mut self) -> bool {
        if self.filling > 0 {
            self.filling -= 1;
            self.opened = None;
            return true;
        }
        self.judged += 1;
        if self.judged < JUDGED {
            return true;
        }
        let rate = self.hit_rate.unwrap_or(0.0);
        let takes_less = match (self.opened, self.closed) {
            (Some(opened), Some(closed)) => opened < TO_STAY * closed,
            _ => true,
        };
        if rate < HOPELESS * self.break_even() || !takes_less {
            self.failed = Some(rate);
            self.left = self.wait.max(self.lost_windows()).min(WAIT.1);
            self.wait = (2 * self.left).min(WAIT.1);
            self.renewal = RENEWAL.0;
            return false;
        }
        (self.wait, self.failed) = (WAIT.0, None);
        if self.left == 0 {
            self.renews = true;
            self.renewal = (2 * self.renewal).min(RENEWAL.1);
        }
        !self.renews
    }

    /// Returns after how many windows the loss of the attempt that ends now is small.
    fn lost_windows(&self) -> u64 {
        let slower = self
            .opened
            .zip(self.closed)
            .map_or(0.0, |(opened, closed)| opened / closed - 1.0);
        let windows = (self.to_fill + self.judged.min(JUDGED)) as f64;
        (windows * slower.max(0.0) / LOSS) as u64
    }
}

/// The moving average of the times of single lookups.
#[derive(Debug, Default)]
struct Average {
    time: f64,
    times: u32,
}

impl Average {
    fn add(&mut self, time: f64) {
        self.times = (self.times + 1).min(AVERAGED);
        self.time = match self.times {
            1 => time,
            2..=FIRST => time.min(self.time),
            times => moved(self.time, time, 1.0 / f64::from(times)),
        };
    }
}

/// Returns the moving average after another time.
fn moved(average: f64, time: f64, weight: f64) -> f64 {
    average + (time.min(INTERRUPTED * average) - average) * weight
}
