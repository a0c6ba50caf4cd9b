//! Joins whose probe side is scanned with a dynamic filter, which the build side has set.

use super::choice::JoinChoice;
use super::model::choose;
use super::size::JoinSize;
use crate::machine::{CpuCosts, MediumCosts};

/// Share of the probe rows with partners below which a dynamic filter is taken to drop the others.
const FILTERED_SHARE: f64 = 0.5;

/// Seconds of one thread to test a row with a dynamic filter.
const TEST_SECONDS: f64 = 1.5e-9;

/// Estimates a join like [`choose`], of whose probe rows only those that pass a dynamic filter are joined, if
/// these are few.
pub fn choose_filtered(
    size: &JoinSize,
    memory: usize,
    threads: usize,
    medium: &MediumCosts,
    cpu: &CpuCosts,
) -> JoinChoice {
    if size.matching > FILTERED_SHARE {
        return choose(size, memory, threads, medium, cpu);
    }
    let passed = JoinSize {
        probe_rows: size.pairs,
        matching: 1.0,
        ..*size
    };
    let choice = choose(&passed, memory, threads, medium, cpu);
    let tested = size.probe_rows as f64 * TEST_SECONDS / threads as f64;
    let estimates = choice.estimates().to_vec().into_iter();
    estimates.fold(choice, |choice, mut estimate| {
        estimate.compute += tested;
        choice.with(estimate)
    })
}
