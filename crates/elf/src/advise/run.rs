//! Trial of one placement: copies are made within the budget, a part of the sample warms up, and the rest is
//! measured on the clocks of the devices.

use super::sample::MeasuredQuery;
use super::watched::{Meter, Reading, Watched};
use super::{AdviseOptions, IndexShare};
use crate::elf::Elf;
use crate::{ElfError, PlaceOptions, Result};
use halocline_cache::Placement;
use std::time::Duration;

/// Result of a trial; times and counts are totals over the measured queries.
#[derive(Debug, Default)]
pub(super) struct PlacementResult {
    pub(super) dram_bytes: u64,
    pub(super) fallback: Option<String>,
    pub(super) queries: u32,
    /// CPU time.
    pub(super) work: Duration,
    pub(super) slow: Duration,
    pub(super) dram: Duration,
    pub(super) lines: u64,
    pub(super) units: u64,
}

/// Runs a trial of a placement. The inner error is the reason if the index cannot have the placement or there
/// is no room for it.
pub(super) fn run(
    parts: &[IndexShare<'_>],
    asked: &[MeasuredQuery],
    placement: Placement,
    options: &AdviseOptions,
) -> Result<std::result::Result<PlacementResult, String>> {
    let meter = Meter::new(&options.medium)?;
    let mut tried = PlacementResult::default();
    let mut elves = vec![];
    for part in parts {
        let place = PlaceOptions {
            placement,
            dram: Some(part.dram),
        };
        let placed = match part.elf.place(&place) {
            Ok(placed) => placed,
            Err(ElfError::Placement { reason, .. }) => return Ok(Err(reason)),
            Err(error) => return Err(error),
        };
        let now = placed.placed();
        let follows = placement.policy().is_some() && now.fallback.is_none();
        // Caches that follow the queries grow to their whole share.
        tried.dram_bytes += if follows { part.dram } else { now.dram_bytes };
        tried.fallback = tried.fallback.or(now.fallback);
        // The clocks do not account for the work of another thread.
        placed.copy_alone();
        let watched = Elf::open(part.elf.bytes().with_meter(&meter))?;
        elves.push(watched.with_copies_of(&placed.copies()));
    }
    if let (Some(reason), 0) = (&tried.fallback, tried.dram_bytes) {
        return Ok(Err(reason.clone()));
    }
    let trial = PlacementTrial {
        parts,
        elves,
        meter: &meter,
    };
    let (warm, measured) = halves(asked);
    meter.fill(trial.elves.iter().map(Elf::bytes));
    if placement.policy().is_some() {
        trial.learn(&warm)?;
    }
    trial.ask(&warm)?;
    let before = meter.read();
    trial.ask(&measured)?;
    let Reading { slow, dram, counts } = meter.read();
    let counts = counts - before.counts;
    Ok(Ok(PlacementResult {
        queries: measured.len() as u32,
        work: measured
            .iter()
            .map(|asked| Duration::from_nanos(asked.work / 1000))
            .sum(),
        slow: slow - before.slow,
        dram: dram - before.dram,
        lines: counts.lines,
        units: counts.units,
        ..tried
    }))
}

/// Splits the queries alternately, so that both halves have queries of every kind. A single query is in the
/// measured half.
fn halves(asked: &[MeasuredQuery]) -> (Vec<MeasuredQuery>, Vec<MeasuredQuery>) {
    let every_other = |from: usize| asked.iter().copied().skip(from).step_by(2).collect();
    (every_other(1), every_other(0))
}

struct PlacementTrial<'a> {
    parts: &'a [IndexShare<'a>],
    elves: Vec<Elf<Watched>>,
    meter: &'a Meter,
}

impl PlacementTrial<'_> {
    fn ask(&self, queries: &[MeasuredQuery]) -> Result<()> {
        let mut tids = vec![];
        for asked in queries {
            self.meter.begin(asked.work_of_touch);
            for (part, elf) in self.parts.iter().zip(&self.elves) {
                part.queries[asked.at].run(elf, &mut tids)?;
            }
            self.meter.end(asked.work);
        }
        Ok(())
    }

    /// Trains copies that follow the queries: first with as many as it takes to create the caches, then with
    /// all.
    fn learn(&self, queries: &[MeasuredQuery]) -> Result<()> {
        self.ask(&queries[..queries.len().min(2)])?;
        for elf in &self.elves {
            elf.renew_now()?;
        }
        for asked in queries {
            for (part, elf) in self.parts.iter().zip(&self.elves) {
                part.queries[asked.at].learn(elf)?;
            }
        }
        self.ask(queries)?;
        for elf in &self.elves {
            elf.renew_now()?;
        }
        Ok(())
    }
}
