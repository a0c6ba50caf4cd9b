//! Options and statistics of a [`HotIndex`](crate::HotIndex).

use std::fmt;
use std::str::FromStr;

use halocline_cache::{HotQueue, PairStats};

/// A mode of a [`HotIndex`](crate::HotIndex), displayed and parsed as its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HotMode {
    /// Any number of threads; keys are admitted by their history; lookups go round the cache while they do
    /// not pay.
    #[default]
    Adaptive,
    /// As in the publication (Liu, Luo and Jin, Computer Science, 2022): keys of two lookups within a period
    /// enter a queue of two layers. Operations on keys are serialized.
    Published,
}

impl HotMode {
    /// All modes.
    pub const ALL: &[HotMode] = &[HotMode::Adaptive, HotMode::Published];

    /// Returns the name of the mode.
    pub const fn name(self) -> &'static str {
        match self {
            HotMode::Adaptive => "adaptive",
            HotMode::Published => "published",
        }
    }
}

impl fmt::Display for HotMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for HotMode {
    type Err = String;

    fn from_str(text: &str) -> Result<HotMode, String> {
        let found = HotMode::ALL.iter().find(|mode| mode.name() == text);
        found
            .copied()
            .ok_or_else(|| format!("unknown mode `{text}`; use adaptive or published"))
    }
}

/// Options of a [`HotIndex`](crate::HotIndex).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HotIndexOptions {
    /// The mode.
    pub mode: HotMode,
    /// DRAM for the cache in bytes.
    pub bytes: u64,
    /// Keeps an adaptive cache in use even where it does not pay, for measurements.
    pub always_on: bool,
    /// Lookups after which a published cache begins to count anew.
    pub period: u64,
}

impl Default for HotIndexOptions {
    /// Returns the options of an adaptive cache of 64 MiB.
    fn default() -> Self {
        HotIndexOptions {
            mode: HotMode::Adaptive,
            bytes: 64 << 20,
            always_on: false,
            period: 1_000_000,
        }
    }
}

impl HotIndexOptions {
    /// Sets [`mode`](Self::mode).
    #[must_use]
    pub fn with_mode(mut self, mode: HotMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets [`bytes`](Self::bytes).
    #[must_use]
    pub fn with_bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets [`always_on`](Self::always_on).
    #[must_use]
    pub fn with_always_on(mut self, always_on: bool) -> Self {
        self.always_on = always_on;
        self
    }

    /// Sets [`period`](Self::period).
    #[must_use]
    pub fn with_period(mut self, period: u64) -> Self {
        self.period = period;
        self
    }
}

/// Statistics of the cache of a [`HotIndex`](crate::HotIndex).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct HotIndexStats {
    /// Cached pairs.
    pub pairs: u64,
    /// Most pairs that can be cached.
    pub capacity: u64,
    /// DRAM in bytes.
    pub bytes: u64,
    /// True if all lookups use the cache. If not, those of a sample of the keys do.
    pub is_on: bool,
    /// Recent share of lookups that hit, if measured.
    pub hit_rate: Option<f64>,
    /// Share of hits from which on the cache pays, if measured.
    pub break_even: Option<f64>,
}

impl HotIndexStats {
    pub(super) fn of_pairs(stats: PairStats) -> HotIndexStats {
        HotIndexStats {
            pairs: stats.pairs,
            capacity: stats.capacity,
            bytes: stats.bytes,
            is_on: stats.is_on,
            hit_rate: stats.hit_rate,
            break_even: Some(stats.break_even),
        }
    }

    pub(super) fn of_queue(queue: &HotQueue) -> HotIndexStats {
        HotIndexStats {
            pairs: queue.len(),
            capacity: queue.capacity(),
            bytes: queue.bytes(),
            is_on: true,
            hit_rate: queue.hit_rate(),
            break_even: None,
        }
    }
}
