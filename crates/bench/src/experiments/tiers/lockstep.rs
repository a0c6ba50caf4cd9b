//! Systems that change while they are asked: all get the same queries, each list of them once, in turn.

use super::compare::ensure_same;
use super::{IndexSystem, QuerySource, QueryType};
use crate::BenchError;

/// Returns the maximum number of queries that are drawn at once.
fn most(question: QueryType) -> usize {
    match question {
        QueryType::Exact | QueryType::ExactBatch => 500_000,
        QueryType::Range(percent) | QueryType::Partial(percent) if percent > 50.0 => 4,
        QueryType::Range(_) => 20_000,
        QueryType::Partial(_) | QueryType::OneAndTwo(_) => 500,
    }
}

/// Asks every system the next `count` queries; returns the seconds of each.
///
/// # Errors
/// The systems answer differently.
pub(in crate::experiments) fn lockstep(
    systems: &[&IndexSystem],
    source: &mut QuerySource<'_>,
    question: QueryType,
    count: usize,
) -> Result<Vec<f64>, BenchError> {
    let mut seconds = vec![0.0; systems.len()];
    let mut left = count;
    while left > 0 {
        let queries = source.draw(question, left.min(most(question)));
        let mut sums = vec![];
        for (system, seconds) in systems.iter().zip(&mut seconds) {
            let asked = system.ask(&queries, queries.len(), 1)?;
            *seconds += asked.seconds;
            sums.push(asked.checksum);
        }
        ensure_same(systems, &queries, &sums)?;
        left -= queries.len();
    }
    Ok(seconds)
}

/// Warms the systems up with the next `count` queries, and adds the DRAM that each has taken meanwhile to
/// what it took before.
///
/// # Errors
/// As [`lockstep`].
pub(in crate::experiments) fn warm_up(
    systems: &mut [IndexSystem],
    source: &mut QuerySource<'_>,
    question: QueryType,
    count: usize,
) -> Result<(), BenchError> {
    let mut left = count;
    while left > 0 {
        let queries = source.draw(question, left.min(most(question)));
        for system in systems.iter_mut() {
            system.warm_up(&queries)?;
        }
        left -= queries.len();
    }
    Ok(())
}
