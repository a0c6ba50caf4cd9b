//! Reopening a hybrid index: its bytes are copied from the slow tier, nothing is rebuilt.

use std::sync::Arc;
use std::time::Instant;

use halocline_cache::Placement;
use halocline_elf::PlaceOptions;
use halocline_media::HugeVec;

use super::{IndexSystem, Tier};
use crate::timing::Run;
use crate::{BenchError, Samples, interleaved};

/// Seconds from the bytes on their tier to the first query.
pub(super) struct ReopenTimes {
    pub(super) hybrid: Samples,
    pub(super) slow_only: Samples,
}

/// Opens and copies `rounds` times; nothing on a medium without real time.
pub(super) fn measure(
    tier: &Tier,
    bytes: &Arc<HugeVec<u8>>,
    rounds: usize,
) -> Result<Option<ReopenTimes>, BenchError> {
    if !tier.is_real() {
        return Ok(None);
    }
    let timed = |placement| -> Result<f64, BenchError> {
        // The device is hardware that is there before the index is opened.
        let opened: IndexSystem = tier.open(bytes)?;
        let start = Instant::now();
        let placed = opened.reopen(&PlaceOptions::default().with_placement(placement))?;
        let seconds = start.elapsed().as_secs_f64();
        drop(placed);
        Ok(seconds)
    };
    let mut runs: [Run<'_>; 2] = [
        Box::new(|| timed(Placement::Hybrid)),
        Box::new(|| timed(Placement::SlowOnly)),
    ];
    let mut samples = interleaved(rounds, &mut runs)?;
    let slow_only = samples.pop().unwrap_or_default();
    let hybrid = samples.pop().unwrap_or_default();
    Ok(Some(ReopenTimes { hybrid, slow_only }))
}
