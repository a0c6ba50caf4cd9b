//! The same queries to several systems, in turn.

use std::time::Instant;

use super::{IndexMemory, IndexSystem, Queries};
use crate::{BenchError, Samples};

/// Times and counters of one system for one query type.
#[derive(Debug, Clone, Default)]
pub(in crate::experiments) struct QueryCost {
    /// Seconds a query.
    pub(in crate::experiments) time: Samples,
    /// Seconds a query that the emulation was late; they are not in `time`.
    pub(in crate::experiments) overrun: f64,
    /// Seconds a query for which the core waited for the device; they are part of `time`.
    pub(in crate::experiments) waited: f64,
    /// Lines that emulated DRAM served, a query.
    pub(in crate::experiments) dram_lines: f64,
    /// Lines that the slow tier served, a query.
    pub(in crate::experiments) lines: f64,
    /// Calls of the emulation, a query.
    pub(in crate::experiments) calls: f64,
    /// Units that the slow tier read, a query.
    pub(in crate::experiments) units: f64,
    /// Rows found, a query.
    pub(in crate::experiments) found: f64,
    /// Queries in each repetition.
    pub(in crate::experiments) queries: usize,
}

/// Asks every system the same queries: once to warm up, then `rounds` times in turn. As many of them as the
/// first system answers in `seconds`; when there are fewer, all of them several times.
///
/// # Errors
/// The systems answer differently.
pub(in crate::experiments) fn compare(
    systems: &[&IndexSystem],
    queries: &Queries,
    rounds: usize,
    seconds: f64,
) -> Result<Vec<QueryCost>, BenchError> {
    let Some(first) = systems.first() else {
        return Ok(vec![]);
    };
    let (mut count, mut took) = (1, 0.0);
    while took < seconds / 2.0 {
        took = real(first, queries, count)?;
        if count == queries.len() {
            break;
        }
        let wanted = (count as f64 * (seconds / took.max(1e-9)).clamp(1.2, 8.0)).ceil();
        count = (wanted as usize).min(queries.len());
    }
    let took = real(first, queries, count)?;
    let passes = ((seconds / took.max(1e-9)).round() as usize).clamp(1, 1000);

    let mut measured = vec![QueryCost::default(); systems.len()];
    let mut sums = vec![];
    for system in systems {
        sums.push(system.ask(queries, count, 1)?.checksum);
    }
    ensure_same(systems, queries, &sums)?;
    for _ in 0..rounds.max(1) {
        for (system, measured) in systems.iter().zip(&mut measured) {
            let asked = system.ask(queries, count, passes)?;
            let all = (count * passes) as f64;
            measured.time.push(asked.seconds / all);
            measured.overrun += asked.overrun / all / rounds.max(1) as f64;
            measured.waited += asked.waited / all / rounds.max(1) as f64;
            let lines = asked.counts.lines as f64 / all / rounds.max(1) as f64;
            match system.memory() {
                IndexMemory::EmulatedDram => measured.dram_lines += lines,
                IndexMemory::HostDram | IndexMemory::SlowTier => {
                    measured.lines += lines;
                    measured.units += asked.counts.units as f64 / all / rounds.max(1) as f64;
                }
            }
            measured.calls += asked.counts.calls as f64 / all / rounds.max(1) as f64;
            measured.found = asked.checksum.tids as f64 / count as f64;
            measured.queries = count * passes;
        }
    }
    Ok(measured)
}

/// Asks the queries once and returns the real seconds that this takes, even if the device has a virtual
/// clock.
fn real(system: &IndexSystem, queries: &Queries, count: usize) -> Result<f64, BenchError> {
    let start = Instant::now();
    system.ask(queries, count, 1)?;
    Ok(start.elapsed().as_secs_f64())
}

pub(super) fn ensure_same(
    systems: &[&IndexSystem],
    queries: &Queries,
    sums: &[super::index::Checksum],
) -> Result<(), BenchError> {
    let other = sums.iter().position(|sum| *sum != sums[0]);
    other.map_or(Ok(()), |other| {
        let name = |at: usize| format!("{} {}", systems[at].index.layout(), systems[at].name);
        Err(BenchError::Disagreement {
            what: queries.question().to_string(),
            left_system: name(0),
            left: format!("{:?}", sums[0]),
            right_system: name(other),
            right: format!("{:?}", sums[other]),
        })
    })
}
