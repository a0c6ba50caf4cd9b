//! How probable the use of each item is, by counts that age: what LLA asks for, following the workload.
//!
//! One query in 64 is a sample, of which all uses are counted. When a period of samples is over, all counts are halved, so
//! that a workload of the past is forgotten at that pace; it is done within one query, and a period is never
//! shorter than there are items. Relaxed atomics: threads may see each other's counts late, which an estimate forgives.

use crate::draw;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Of how many queries one is a sample.
const SAMPLE: u64 = 64;

/// Counts of uses of items `0..items`.
#[derive(Debug)]
pub struct AgedCounts {
    counts: Box<[AtomicU32]>,
    samples: AtomicU64,
    period: u64,
    prior_weight: f32,
}

impl AgedCounts {
    /// Counts that begin at 0. A prior probability weighs as much as `prior_weight` samples; all counts are halved every
    /// `period` samples, or every `items` if there are more of these.
    #[must_use]
    pub fn new(items: usize, prior_weight: f32, period: u64) -> Self {
        Self {
            counts: (0..items).map(|_| AtomicU32::new(0)).collect(),
            samples: AtomicU64::new(0),
            period: period.max(items as u64).max(1),
            prior_weight: prior_weight.max(f32::MIN_POSITIVE),
        }
    }

    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there is nothing to count.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// A query begins. Answers whether it is a sample, whose uses are to be counted by [`Self::count`].
    #[inline]
    pub fn sample(&self) -> bool {
        let sampled = draw::next().is_multiple_of(SAMPLE);
        if sampled {
            self.count_sample();
        }
        sampled
    }

    /// A query begins that is a sample, whatever chance says.
    pub fn count_sample(&self) {
        // Only one thread gets the number at which the period is over.
        if self.samples.fetch_add(1, Relaxed) + 1 == 2 * self.period {
            for count in &self.counts {
                // Subtracted, so that what others count meanwhile is kept.
                count.fetch_sub(count.load(Relaxed).div_ceil(2), Relaxed);
            }
            self.samples.fetch_sub(self.period, Relaxed);
        }
    }

    /// A sampled query uses an item; each item once a query. Items there are not are passed over.
    #[inline]
    pub fn count(&self, item: u32) {
        if let Some(count) = self.counts.get(item as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// How probable it is that a query uses `item`: `prior` as long as nothing was counted, and what was counted the more,
    /// the more samples there are.
    #[must_use]
    pub fn probability(&self, item: u32, prior: f32) -> f32 {
        let count = self
            .counts
            .get(item as usize)
            .map_or(0, |count| count.load(Relaxed));
        let samples = self.samples.load(Relaxed) as f32;
        // A count may be ahead of its samples while another thread halves.
        ((self.prior_weight * prior + count as f32) / (self.prior_weight + samples)).clamp(0.0, 1.0)
    }

    /// The samples that count, which are those since the last halving and half of those before.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples.load(Relaxed)
    }

    /// A copy that stays as it is now, for those who ask more than once and need the same answer.
    #[must_use]
    pub fn frozen(&self) -> Self {
        let frozen = |count: &AtomicU32| AtomicU32::new(count.load(Relaxed));
        Self {
            counts: self.counts.iter().map(frozen).collect(),
            samples: AtomicU64::new(self.samples()),
            ..*self
        }
    }

    /// The DRAM it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Queries of which each uses item 0, and one in `rarity` uses `item` too.
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
        // About 7,800 samples: the past is halved a dozen times.
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
