//! A choice and its reasons.

use std::fmt;

use super::algorithm::JoinAlgorithm;
use super::cpu::JoinWork;

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
        self.estimates
            .first()
            .map_or(JoinAlgorithm::Hybrid, |estimate| estimate.algorithm)
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
