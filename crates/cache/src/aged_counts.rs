//! Access probabilities of items, estimated from counts that age. They are the input of LLA and follow the
//! workload.
//!
//! One query in 64 is a sample, whose accesses are all counted. At the end of a period of samples all
//! counts are halved, so the influence of past workloads decays at that rate. The halving happens
//! within one query, and a period is never shorter than the number of items. All atomics are relaxed:
//! threads may see each other's counts late, which an estimate tolerates.

use crate::draw;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// One query in this many is a sample.
const SAMPLE: u64 = 64;

/// Access counts of items `0..items`.
#[derive(Debug)]
pub struct AgedCounts {
    counts: Box<[AtomicU32]>,
    samples: AtomicU64,
    period: u64,
    prior_weight: f32,
}

impl AgedCounts {
    /// Creates counts of 0. A prior probability has the weight of `prior_weight` samples. All counts are
    /// halved every `period` samples, or every `items` samples if that is more.
    #[must_use]
    pub fn new(items: usize, prior_weight: f32, period: u64) -> Self {
        Self {
            counts: (0..items).map(|_| AtomicU32::new(0)).collect(),
            samples: AtomicU64::new(0),
            period: period.max(items as u64).max(1),
            prior_weight: prior_weight.max(f32::MIN_POSITIVE),
        }
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Returns true if there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Begins a query. Returns true if it is a sample, whose accesses must be passed to [`Self::count`].
    #[inline]
    pub fn sample(&self) -> bool {
        let sampled = draw::next().is_multiple_of(SAMPLE);
        if sampled {
            self.count_sample();
        }
        sampled
    }

    /// Begins a query that is a sample in any case.
    pub fn count_sample(&self) {
        // Only one thread obtains the number that ends the period.
        if self.samples.fetch_add(1, Relaxed) + 1 == 2 * self.period {
            for count in &self.counts {
                // Subtraction preserves counts that other threads add concurrently.
                count.fetch_sub(count.load(Relaxed).div_ceil(2), Relaxed);
            }
            self.samples.fetch_sub(self.period, Relaxed);
        }
    }

    /// Counts the access of a sampled query to an item, once per query and item. Unknown items are ignored.
    #[inline]
    pub fn count(&self, item: u32) {
        if let Some(count) = self.counts.get(item as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Returns the probability that a query accesses `item`. It is `prior` while nothing has been counted;
    /// the weight of the counts grows with the number of samples.
    #[must_use]
    pub fn probability(&self, item: u32, prior: f32) -> f32 {
        let count = self
            .counts
            .get(item as usize)
            .map_or(0, |count| count.load(Relaxed));
        let samples = self.samples.load(Relaxed) as f32;
        // While another thread halves, a count may exceed the number of samples.
        ((self.prior_weight * prior + count as f32) / (self.prior_weight + samples)).clamp(0.0, 1.0)
    }

    /// Returns the effective number of samples: those since the last halving, plus half of the effective
    /// number before.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples.load(Relaxed)
    }

    /// Returns a copy that no longer changes, for callers that need the same answer more than once.
    #[must_use]
    pub fn frozen(&self) -> Self {
        let frozen = |count: &AtomicU32| AtomicU32::new(count.load(Relaxed));
        Self {
            counts: self.counts.iter().map(frozen).collect(),
            samples: AtomicU64::new(self.samples()),
            ..*self
        }
    }

    /// Returns the size in bytes of DRAM.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Runs queries that all access item 0, one in `rarity` of which also accesses `item`.
    fn run(counts: &AgedCounts, queries: u32, item: u32, rarity: u32) {
        for query in 0..queries {
            if counts.sample() {
                counts.count(0);
                if query % rarity == 0 {
                    counts.count(item);
                }
            }
        }
    }

    #[test]
    fn the_prior_holds_until_the_workload_speaks() {
        let counts = AgedCounts::new(3, 100.0, 1000);
        assert!((counts.probability(1, 0.25) - 0.25).abs() < 1e-6);
        run(&counts, 100_000, 1, 3);
        assert!((counts.probability(0, 1.0) - 1.0).abs() < 0.01);
        let (used, unused) = (counts.probability(1, 0.01), counts.probability(2, 0.9));
        assert!((0.25..0.4).contains(&used), "{used}");
        assert!(unused < 0.1, "{unused}");
        assert!(
            counts.probability(7, 0.5) < 0.1,
            "an item there is not has its prior alone"
        );
        assert!((1000..2000).contains(&counts.samples()));
    }

    #[test]
    fn a_past_workload_is_forgotten() {
        let counts = AgedCounts::new(3, 10.0, 500);
        run(&counts, 50_000, 1, 1);
        assert!(counts.probability(1, 0.0) > 0.9);
        // About 7,800 samples, in which old counts are halved a dozen times.
        run(&counts, 500_000, 2, 1);
        let (past, now) = (counts.probability(1, 0.0), counts.probability(2, 0.0));
        assert!(past < 0.05 && now > 0.9, "{past} {now}");
    }

    #[test]
    fn halving_loses_no_counts_of_other_threads() {
        let counts = AgedCounts::new(1, 1.0, 100);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| run(&counts, 100_000, 0, 1_000_000));
            }
        });
        assert!(counts.samples() < 300);
        assert!(counts.probability(0, 1.0) > 0.5);
    }
}
