//! Cost of the emulation to its callers, so that it is not taken for work of the modelled core.
//!
//! A look at the clock has to wait for what came before, so a call of the model costs its caller more than
//! the model computes. How much depends on what the caller does. So the same queries are asked of the index
//! in DRAM and of one on a device of the host's own figures, its cache among them, which adds nothing else;
//! the difference, by calls, is charged to the devices. With the charge the second must take what the first
//! does: how far it is off is a result too. With the modelled cache of the slow tier instead of the host's,
//! reads that the host's cache serves would be taken for a cost of the emulation.

use std::sync::Arc;
use std::time::Duration;

use halocline_media::HugeVec;

use super::{IndexSystem, Queries, QuerySource, QueryType, Tier, compare};
use crate::BenchError;

/// Rounds and seconds of each that are enough where the times themselves are of no interest.
const ROUNDS: usize = 3;
const SECONDS: f64 = 0.1;
/// Tries to get the charge right, and how far off is right.
const TRIES: usize = 4;
const CLOSE: f64 = 0.02;

/// Result of a calibration.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::experiments) struct Calibration {
    /// Nanoseconds that a call is charged.
    pub(in crate::experiments) call_ns: f64,
    /// How much longer an emulation of this host's DRAM and cache, with the charge, takes than the DRAM
    /// itself: a share of its time.
    pub(in crate::experiments) off: f64,
}

/// Draws queries of a kind and runs [`calibrate`] with them.
///
/// # Errors
/// As [`calibrate`].
pub(in crate::experiments) fn calibrate_for(
    question: QueryType,
    source: &mut QuerySource<'_>,
    (tier, bytes): (&Tier, &Arc<HugeVec<u8>>),
    systems: &[&IndexSystem],
    quick: bool,
) -> Result<Calibration, BenchError> {
    let queries = source.draw(question, question.supply(quick));
    let seconds = if quick { SECONDS / 20.0 } else { SECONDS };
    calibrate(tier, bytes, systems, &queries, ROUNDS, seconds)
}

/// Calibrates the devices of `systems` for these queries. Nothing where there are no real delays.
///
/// # Errors
/// The systems answer differently.
pub(in crate::experiments) fn calibrate(
    tier: &Tier,
    bytes: &Arc<HugeVec<u8>>,
    systems: &[&IndexSystem],
    queries: &Queries,
    rounds: usize,
    seconds: f64,
) -> Result<Calibration, BenchError> {
    let Some(twin) = tier.twin(bytes)? else {
        return Ok(Calibration::default());
    };
    let volatile = IndexSystem::volatile(bytes)?;
    let mut found = Calibration::default();
    for left in (0..TRIES).rev() {
        twin.charge(Duration::from_secs_f64(found.call_ns / 1e9));
        let measured = compare(&[&volatile, &twin], queries, rounds, seconds)?;
        let [plain, emulated] = &measured[..] else { break };
        let more = emulated.time.median() - plain.time.median();
        found.off = more / plain.time.median();
        if found.off.abs() <= CLOSE || left == 0 {
            break;
        }
        found.call_ns = (found.call_ns + more * 1e9 / emulated.calls.max(1.0)).max(0.0);
    }
    for system in systems {
        system.charge(Duration::from_secs_f64(found.call_ns / 1e9));
    }
    Ok(found)
}
