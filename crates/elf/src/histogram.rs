//! Distribution of a dimension's codes, for estimates: an equi-depth histogram of 64 buckets and the number
//! of distinct codes.

use crate::plan::Test;

/// Buckets of a histogram.
pub(crate) const BUCKETS: usize = 64;

/// Rows that histograms are made from, taken at even steps through the sorted rows.
pub(crate) const SAMPLE: usize = 4096;

/// Equi-depth histogram of one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Histogram {
    /// Estimated distinct codes, at least 1 unless the index is empty.
    pub(crate) distinct: u64,
    /// `quantiles[i]` is the code at rank `i / BUCKETS`.
    pub(crate) quantiles: [u64; BUCKETS + 1],
}

impl Histogram {
    /// Builds the histogram from a sample of the codes of `rows` rows. Sorts the sample.
    pub(crate) fn new(sample: &mut [u64], rows: u64, max_code: u64) -> Self {
        sample.sort_unstable();
        let Some(last) = sample.len().checked_sub(1) else {
            return Self {
                distinct: 0,
                quantiles: [0; BUCKETS + 1],
            };
        };
        let runs: Vec<usize> = sample.chunk_by(|a, b| a == b).map(<[u64]>::len).collect();
        let mut distinct = runs.len() as f64;
        if rows > sample.len() as u64 {
            // Codes seen once stand for sqrt(rows / sample) codes each (the GEE estimator of Charikar et al.,
            // 2000).
            let once = runs.iter().filter(|&&run| run == 1).count() as f64;
            distinct += once * ((rows as f64 / sample.len() as f64).sqrt() - 1.0);
        }
        Self {
            distinct: (distinct as u64).min(max_code.saturating_add(1)).min(rows),
            quantiles: std::array::from_fn(|i| sample[i * last / BUCKETS]),
        }
    }

    /// Returns the histogram of the codes without their lowest `shift` bits.
    pub(crate) fn upper(&self, shift: u32) -> Self {
        let quantiles = self.quantiles.map(|code| code >> shift);
        let spread = quantiles[BUCKETS] - quantiles[0].min(quantiles[BUCKETS]);
        Self {
            distinct: self.distinct.min(spread.saturating_add(1)),
            quantiles,
        }
    }

    /// Returns the estimated fraction of rows that pass, 0 to 1.
    pub(crate) fn selectivity(&self, test: &Test) -> f64 {
        match test {
            Test::Any => 1.0,
            Test::Range(between) if between.span == 0 => self.equal(between.lo),
            Test::Range(between) => {
                let below = self.rank(between.lo);
                let upto = between
                    .hi()
                    .checked_add(1)
                    .map_or(1.0, |beyond| self.rank(beyond));
                (upto - below).max(self.equal(between.lo)).min(1.0)
            }
            Test::Set(set) => set
                .codes
                .iter()
                .map(|&code| self.equal(code))
                .sum::<f64>()
                .min(1.0),
        }
    }

    /// Returns the estimated fraction of rows with a code below `code`.
    fn rank(&self, code: u64) -> f64 {
        let upper = self.quantiles.partition_point(|&quantile| quantile < code);
        if upper == 0 {
            return 0.0;
        }
        if upper > BUCKETS {
            return 1.0;
        }
        let (lo, hi) = (self.quantiles[upper - 1], self.quantiles[upper]);
        let within = (code - lo) as f64 / ((hi - lo) as f64).max(1.0);
        (upper as f64 - 1.0 + within) / BUCKETS as f64
    }

    /// Returns the estimated fraction of rows with this code.
    fn equal(&self, code: u64) -> f64 {
        let first = self.quantiles.partition_point(|&quantile| quantile < code);
        let last = self.quantiles.partition_point(|&quantile| quantile <= code);
        if (last == 0 && code < self.quantiles[0]) || first > BUCKETS {
            return 0.0;
        }
        // A code that is several quantiles in a row is at least that frequent.
        let repeated = (last - first).saturating_sub(1) as f64 / BUCKETS as f64;
        repeated.max(1.0 / self.distinct.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::CodeRange;

    #[test]
    fn uniform_codes_are_estimated_by_their_share() {
        let mut sample: Vec<u64> = (0..4096).map(|i| i % 100).collect();
        let histogram = Histogram::new(&mut sample, 1_000_000, 99);
        assert_eq!(histogram.distinct, 100);
        for (lo, span) in [(0, 9), (50, 19), (97, 2), (7, 0)] {
            let found = histogram.selectivity(&Test::Range(CodeRange { lo, span }));
            let expected = (span + 1) as f64 / 100.0;
            assert!((found - expected).abs() < 0.02, "{lo} {span}: {found}");
        }
    }

    #[test]
    fn heavy_codes_are_seen() {
        let mut sample: Vec<u64> = (0..4096).map(|i| if i % 4 == 0 { i } else { 77 }).collect();
        let histogram = Histogram::new(&mut sample, 4096, 5000);
        assert!(histogram.selectivity(&Test::Range(CodeRange { lo: 77, span: 0 })) > 0.7);
        assert!(histogram.selectivity(&Test::Range(CodeRange { lo: 76, span: 0 })) < 0.01);
    }
}
