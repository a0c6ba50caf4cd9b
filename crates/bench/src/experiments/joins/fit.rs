//! Costs per row of each step of a join, fitted to measured times.

use halocline_costs::join::JoinEstimate;
use halocline_costs::machine::{CpuCosts, JOIN_STEPS};

/// Steps of the computation.
const STEPS: usize = JOIN_STEPS.len();

/// Sweeps over all costs. Each costs little, and further ones hardly change predictions.
const SWEEPS: usize = 2_000;

/// Weight of the costs so far, relative to one measured time: it decides where measurements do not tell two
/// steps apart.
const PRIOR: f64 = 0.01;

/// A measured time, less what is not computation per row.
#[derive(Debug, Clone, Copy)]
struct Equation {
    /// Share of the measured time that a step takes at a cost of one second per row.
    shares: [f64; STEPS],
    /// Share that all steps take.
    rest: f64,
}

/// Finds the costs with the least sum of squared relative errors.
#[derive(Debug, Clone, Default)]
pub(super) struct CostFit {
    equations: Vec<Equation>,
}

impl CostFit {
    /// Adds a measured time of a join and its estimate by the [default](CpuCosts::default) costs.
    pub(super) fn add(&mut self, estimate: &JoinEstimate, threads: usize, seconds: f64) {
        if seconds <= 0.0 {
            return;
        }
        let (work, threads) = (&estimate.work, threads as f64);
        let steps = work.seconds(&CpuCosts::default()) / threads;
        let other = estimate.seconds() - steps;
        self.equations.push(Equation {
            shares: work.steps().map(|rows| rows / threads / seconds),
            rest: 1.0 - other / seconds,
        });
    }

    /// Returns the fitted costs, none of which is negative; `None` without measurements.
    pub(super) fn costs(&self) -> Option<CpuCosts> {
        if self.equations.is_empty() {
            return None;
        }
        let before = CpuCosts::default().steps();
        let mut costs = before;
        for _ in 0..SWEEPS {
            for step in 0..STEPS {
                // The prior says that a cost is as it was, up to its own size.
                let prior = PRIOR / (before[step] * before[step]);
                let (mut numerator, mut denominator) = (prior * before[step], prior);
                for equation in &self.equations {
                    let others: f64 = (0..STEPS)
                        .filter(|other| *other != step)
                        .map(|other| equation.shares[other] * costs[other])
                        .sum();
                    numerator += equation.shares[step] * (equation.rest - others);
                    denominator += equation.shares[step] * equation.shares[step];
                }
                costs[step] = (numerator / denominator).max(0.0);
            }
        }
        Some(CpuCosts::of_steps(costs))
    }
}

/// Returns the costs in nanoseconds as text.
pub(super) fn text(costs: &CpuCosts) -> String {
    let parts = JOIN_STEPS
        .iter()
        .zip(costs.steps())
        .map(|(name, cost)| format!("{name} {:.1}", cost * 1e9));
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use halocline_costs::join::{JoinSize, choose};
    use halocline_costs::machine::MediumCosts;

    /// Estimates are taken for measurements on a machine with other costs.
    #[test]
    fn the_costs_of_a_machine_are_found() {
        let before = CpuCosts::default();
        let machine = CpuCosts {
            read: before.read * 2.0,
            fill: before.fill / 2.0,
            spill: before.spill * 3.0,
            gather: before.gather * 4.0,
            ..before
        };
        let medium = MediumCosts::new(
            &[(1, 5e9)],
            &[(1, 2e9)],
            64,
            &[(1 << 20, 5e-9)],
            &[(1 << 20, 9e-9)],
        );
        let (mut fit, mut works) = (CostFit::default(), Vec::new());
        for build_rows in [1 << 20, 4 << 20, 16 << 20, 64 << 20] {
            for probe_rows in [1 << 20, 64 << 20] {
                let size = JoinSize {
                    build_rows,
                    probe_rows,
                    build_stored: 16.0,
                    probe_stored: 16.0,
                    build_row: 25.0,
                    probe_row: 16.0,
                    pairs: probe_rows,
                    matching: 1.0,
                    dense_columns: Some(1),
                    rereadable: true,
                };
                let measured = choose(&size, 64 << 20, 2, &medium, &machine);
                let estimated = choose(&size, 64 << 20, 2, &medium, &before);
                for estimate in estimated.estimates() {
                    let seconds = measured
                        .estimate(estimate.algorithm)
                        .map_or(0.0, |of| of.seconds());
                    fit.add(estimate, 2, seconds);
                    works.push(estimate.work);
                }
            }
        }
        // Steps that always come together cannot be told apart, but what they take together can: about, as
        // reads that computation hides depend on the costs.
        let fitted = fit.costs().unwrap();
        for work in &works {
            let (found, real) = (work.seconds(&fitted), work.seconds(&machine));
            assert!(
                (found / real - 1.0).abs() < 0.2,
                "{found} {real}: {}",
                text(&fitted)
            );
        }
        assert!(CostFit::default().costs().is_none());
    }
}
