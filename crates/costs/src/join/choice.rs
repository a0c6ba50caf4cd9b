//! A choice and its reasons.

use std::fmt;

use super::algorithm::{Algorithm, JoinAlgorithm};
use crate::machine::JoinWork;

/// The share of the time of the next best algorithm that an array join must be estimated to take at most:
/// estimates are rough.
const MAX_TIME_SHARE: f64 = 0.9;

/// Seconds that it takes to start the threads of a join of its own.
const START_SECONDS: f64 = 1e-4;

/// The estimated time of an algorithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JoinEstimate {
    /// The algorithm.
    pub algorithm: JoinAlgorithm,
    /// Seconds for which threads wait for transfers from and to the slow tier.
    pub transfer: f64,
    /// Seconds for computation and access to DRAM.
    pub compute: f64,
    /// Times that the probe side is read.
    pub passes: usize,
    /// Bytes that are spilled.
    pub spilled: f64,
    /// Rows of each step of the computation.
    pub work: JoinWork,
}

impl JoinEstimate {
    /// Returns the seconds in all.
    pub fn seconds(&self) -> f64 {
        self.transfer + self.compute
    }
}

/// The estimates of all algorithms that can run a join, the cheapest first. `Display` is a table.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinChoice {
    estimates: Vec<JoinEstimate>,
}

impl JoinChoice {
    /// Creates a choice. The hybrid join, which can always run, is among the estimates.
    pub(super) fn new(mut estimates: Vec<JoinEstimate>) -> JoinChoice {
        estimates.sort_by(|one, other| one.seconds().total_cmp(&other.seconds()));
        JoinChoice { estimates }
    }

    /// Adds an estimate, in the place of that of the same algorithm: of a join with its sides exchanged, for
    /// example.
    #[must_use]
    pub fn with(mut self, estimate: JoinEstimate) -> JoinChoice {
        self.estimates
            .retain(|other| other.algorithm != estimate.algorithm);
        self.estimates.push(estimate);
        JoinChoice::new(self.estimates)
    }

    /// Returns the cheapest algorithm.
    pub fn algorithm(&self) -> JoinAlgorithm {
        let cheapest = self.estimates.first();
        cheapest.map_or(JoinAlgorithm::Hashed(Algorithm::Hybrid), |estimate| {
            estimate.algorithm
        })
    }

    /// Returns all estimates, the cheapest first.
    pub fn estimates(&self) -> &[JoinEstimate] {
        &self.estimates
    }

    /// Returns the estimate of an algorithm; `None` if that cannot run the join.
    pub fn estimate(&self, algorithm: JoinAlgorithm) -> Option<&JoinEstimate> {
        self.estimates
            .iter()
            .find(|estimate| estimate.algorithm == algorithm)
    }

    /// Returns true if an array join is clearly the cheapest.
    pub fn prefers_array(&self) -> bool {
        let array = self.estimate(JoinAlgorithm::Array);
        let others = self.estimates.iter();
        let others = others.filter(|estimate| estimate.algorithm != JoinAlgorithm::Array);
        let best = others
            .map(|estimate| estimate.seconds())
            .fold(f64::INFINITY, f64::min);
        array.is_some_and(|array| array.seconds() + START_SECONDS <= best * MAX_TIME_SHARE)
    }
}

impl fmt::Display for JoinChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<18} {:>10} {:>10} {:>10} {:>7} {:>12}",
            "join", "ms", "transfer", "compute", "passes", "spilled MiB"
        )?;
        for (number, estimate) in self.estimates.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(
                f,
                "{:<18} {:>10.1} {:>10.1} {:>10.1} {:>7} {:>12.1}",
                estimate.algorithm.to_string(),
                estimate.seconds() * 1e3,
                estimate.transfer * 1e3,
                estimate.compute * 1e3,
                estimate.passes,
                estimate.spilled / f64::from(1 << 20)
            )?;
        }
        Ok(())
    }
}
