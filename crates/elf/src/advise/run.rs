//! One placement tried out: copies made within the budget, a part of the sample to warm up, the rest of it measured on the
//! clocks of the devices.

use super::sample::MeasuredQuery;
use super::watched::{Meter, Reading, Watched};
use super::{AdviseOptions, IndexShare};
use crate::elf::Elf;
use crate::{ElfError, PlaceOptions, Result};
use halocline_cache::Placement;
use std::time::Duration;

/// What trying it out gave; times and counts are of all measured queries together.
#[derive(Debug, Default)]
pub(super) struct PlacementResult {
    pub(super) dram_bytes: u64,
    pub(super) fallback: Option<String>,
    pub(super) queries: u32,
    /// What the CPU works.
    pub(super) work: Duration,
    pub(super) slow: Duration,
    pub(super) dram: Duration,
    pub(super) lines: u64,
    pub(super) units: u64,
}

/// Tries a placement; an error in words where there is no such placement, or it has no room anywhere.
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
        // What follows the queries fills up with them.
        tried.dram_bytes += if follows { part.dram } else { now.dram_bytes };
        tried.fallback = tried.fallback.or(now.fallback);
        // The clocks know nothing of another thread.
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

/// Every other query, so that both have some of every kind; a single one is measured.
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

    /// Shows the queries to copies that follow them: as many as it takes for caches to be made at all, then all.
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
