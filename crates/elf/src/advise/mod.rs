//! Choice of a placement: every candidate is run on a model of the medium with a sample of the queries.
//!
//! # The prediction
//! The time of a query is the sum of the CPU's work, measured with everything in its caches; the waits for
//! the slow tier, on the virtual clock of an emulated device below a model of the CPU's cache; and the waits
//! for the DRAM of the copies, taken from the same reads on an emulated DRAM. The work is spread between the
//! reads, so that it overlaps with the waits as it would in reality. Half of the sample warms up the caches
//! and the other half is measured, since a cache does not speed up the query that fills it.
//!
//! Nothing of the index changes, and its own medium is not charged.
//!
//! The modelled cache and the device's buffer begin filled as other queries would leave them. The fastest
//! placement is picked; of those within 2 % of it, the one that takes the least DRAM.

mod run;
mod sample;
mod watched;

use crate::elf::Elf;
use crate::{ElfError, PlaceOptions, Result};
use halocline_cache::{Links, Placement, PolicyKind, StaticLists};
use halocline_emulator::EmulatedSpec;
use halocline_media::{Bytes, PAGE};
use std::time::Duration;

use run::PlacementResult;
pub use sample::Query;
use watched::Watched;

/// Minimum relative gain for which a placement that takes more DRAM is picked.
const MIN_GAIN: f64 = 0.02;
/// Divisor: amounts of DRAM that differ by less than this part count as equal.
const EQUAL_DRAM_DIVISOR: u64 = 10;

/// Options of [`Elf::advise`].
#[derive(Debug, Clone)]
pub struct AdviseOptions {
    /// Bytes of DRAM at most.
    pub dram: u64,
    /// The slow tier, the cache above it and whether its times are relative to this host's; its clock does
    /// not matter.
    pub medium: EmulatedSpec,
    /// Average CPU time of a query; measured if `None`.
    pub cpu: Option<Duration>,
    /// Approximate time limit. Of a longer sample, only as many queries as fit are used, evenly spread.
    pub most: Duration,
}

impl AdviseOptions {
    /// Creates options with this budget of DRAM, this medium and a time limit of a few seconds.
    #[must_use]
    pub fn new(dram: u64, medium: EmulatedSpec) -> Self {
        Self {
            dram,
            medium,
            cpu: None,
            most: Duration::from_secs(4),
        }
    }
}

/// The prediction for a placement, per query.
#[derive(Debug, Clone, PartialEq)]
pub struct Advised {
    /// The placement.
    pub placement: Placement,
    /// Bytes of DRAM that it takes, or may take while queries run; if it is not possible, the bytes that it
    /// would take.
    pub dram_bytes: u64,
    /// Lines that the slow tier serves.
    pub lines: f64,
    /// Units that it reads for them.
    pub units: f64,
    /// Seconds of waiting for it.
    pub stall: f64,
    /// Seconds altogether; `None` if the placement is not possible.
    pub time: Option<f64>,
    /// The reason if it is not possible or covers only a part of the index, or a remark.
    pub note: Option<String>,
}

/// The recommended placement and the predictions it is based on.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// All candidates; the first is `slow-only`.
    pub rows: Vec<Advised>,
    /// Position of the recommended one in `rows`.
    pub pick: usize,
    /// Reason for the recommendation.
    pub reason: String,
    /// Queries of the sample that were run.
    pub queries: usize,
    /// Bytes of DRAM that were available.
    pub dram: u64,
}

impl Advice {
    /// Returns the recommended placement.
    ///
    /// # Panics
    /// Never for advice that this crate gave.
    #[must_use]
    pub fn picked(&self) -> &Advised {
        &self.rows[self.pick]
    }

    /// Returns the options that place the index as recommended.
    #[must_use]
    pub fn options(&self) -> PlaceOptions {
        let placement = self.picked().placement;
        PlaceOptions {
            placement,
            dram: (placement != Placement::SlowOnly).then_some(self.dram),
        }
    }
}

/// An index (or one of several that each query searches) with its share of the DRAM.
pub(crate) struct IndexShare<'a> {
    elf: Elf<Watched>,
    queries: &'a [Query],
    dram: u64,
}

impl<'a> IndexShare<'a> {
    pub(crate) fn new<B: Bytes>(elf: &Elf<B>, queries: &'a [Query], dram: u64) -> Result<Self> {
        Ok(Self {
            elf: Elf::open(Watched::new(elf.bytes().clone()))?,
            queries,
            dram,
        })
    }
}

impl<B: Bytes> Elf<B> {
    /// Predicts the cost of each placement for queries like these, and picks one.
    ///
    /// # Errors
    /// [`ElfError::NoQueries`] for an empty sample; [`ElfError::WrongDimensions`] for a query of another
    /// index; [`ElfError::Memory`], [`ElfError::Damaged`].
    pub fn advise(&self, sample: &[Query], options: &AdviseOptions) -> Result<Advice> {
        advise(vec![IndexShare::new(self, sample, options.dram)?], 0, options)
    }
}

/// The placements to try beside slow-only, hybrid and volatile, in the order in which equally good ones are
/// preferred. Hash tables of lists are left out, as their probes read DRAM that the model does not see.
const CANDIDATES: [Placement; 4] = [
    Placement::Static(StaticLists::Probable),
    Placement::DualAccess,
    Placement::Dynamic(PolicyKind::Lla, Links::Swizzled),
    Placement::StaticDynamic(PolicyKind::Lla, Links::Swizzled),
];

/// Implements [`Elf::advise`] for several parts, each of which every query searches. `beside` is the size in
/// bytes of the data that is stored next to the trees and would be in DRAM together with them.
pub(crate) fn advise(mut parts: Vec<IndexShare<'_>>, beside: u64, options: &AdviseOptions) -> Result<Advice> {
    parts.retain(|part| part.elf.rows() > 0);
    if parts.is_empty() {
        return Ok(nothing_to_gain(options));
    }
    let parts = &*parts;
    let chosen = sample::choose(parts, options.most)?;
    if chosen.is_empty() {
        return Err(ElfError::NoQueries);
    }
    let asked = sample::work(parts, &chosen, options.cpu)?;
    let slow_only = match run::run(parts, &asked, Placement::SlowOnly, options)? {
        Ok(tried) => tried,
        Err(reason) => {
            let placement = Placement::SlowOnly;
            return Err(ElfError::Placement { placement, reason });
        }
    };
    let mut rows = vec![row(Placement::SlowOnly, &slow_only, &slow_only)];
    rows.push(hybrid(parts, &slow_only));
    rows.push(volatile(parts, beside, options.dram, &slow_only));
    for placement in CANDIDATES {
        rows.push(match run::run(parts, &asked, placement, options)? {
            Ok(tried) => row(placement, &tried, &slow_only),
            Err(reason) => impossible(placement, 0, reason),
        });
    }
    let pick = pick(&rows);
    Ok(Advice {
        reason: reason(&rows, pick),
        rows,
        pick,
        queries: asked.len(),
        dram: options.dram,
    })
}

/// Returns the advice for an index without rows.
fn nothing_to_gain(options: &AdviseOptions) -> Advice {
    Advice {
        rows: vec![Advised {
            time: Some(0.0),
            ..impossible(Placement::SlowOnly, 0, "the index has no rows".into())
        }],
        pick: 0,
        reason: "the index has no rows, so nothing of it can be in DRAM".into(),
        queries: 0,
        dram: options.dram,
    }
}

fn row(placement: Placement, tried: &PlacementResult, slow_only: &PlacementResult) -> Advised {
    let queries = f64::from(tried.queries.max(1));
    let seconds = |time: Duration| time.as_secs_f64() / queries;
    // Reads of copies wait for DRAM as long as the same reads of slow-only do on the emulated DRAM.
    let of_copies = seconds(slow_only.dram) - seconds(tried.dram);
    Advised {
        placement,
        dram_bytes: tried.dram_bytes,
        lines: tried.lines as f64 / queries,
        units: tried.units as f64 / queries,
        stall: (seconds(tried.slow) - seconds(tried.work)).max(0.0),
        time: Some(seconds(tried.slow) + of_copies.max(0.0)),
        note: tried.fallback.clone(),
    }
}

fn impossible(placement: Placement, dram_bytes: u64, reason: String) -> Advised {
    Advised {
        placement,
        dram_bytes,
        lines: 0.0,
        units: 0.0,
        stall: 0.0,
        time: None,
        note: Some(reason),
    }
}

/// Predicts a whole copy.
fn hybrid(parts: &[IndexShare<'_>], slow_only: &PlacementResult) -> Advised {
    let all = trees(parts);
    if parts.iter().any(|part| part.elf.size() > part.dram / PAGE * PAGE) {
        return impossible(
            Placement::Hybrid,
            all,
            format!("a whole copy takes {all} bytes of DRAM"),
        );
    }
    in_dram(Placement::Hybrid, all, slow_only)
}

/// Predicts trees that are themselves in DRAM: as fast as a whole copy.
fn volatile(parts: &[IndexShare<'_>], beside: u64, dram: u64, slow_only: &PlacementResult) -> Advised {
    let all = trees(parts) + beside;
    if all > dram {
        return impossible(
            Placement::Volatile,
            all,
            format!("out of reach: its trees take {all} bytes of DRAM"),
        );
    }
    Advised {
        note: Some("nothing is stored: built anew after the pool was opened".into()),
        ..in_dram(Placement::Volatile, all, slow_only)
    }
}

/// Returns the bytes of the trees, each on pages of its own.
fn trees(parts: &[IndexShare<'_>]) -> u64 {
    let pages = |part: &IndexShare<'_>| part.elf.size().next_multiple_of(PAGE);
    parts.iter().map(pages).sum()
}

/// Predicts an index that is completely in DRAM, which needs no trial.
fn in_dram(placement: Placement, dram_bytes: u64, slow_only: &PlacementResult) -> Advised {
    let tried = PlacementResult {
        dram_bytes,
        queries: slow_only.queries,
        work: slow_only.work,
        slow: slow_only.work,
        dram: slow_only.work,
        ..PlacementResult::default()
    };
    row(placement, &tried, slow_only)
}

/// Returns the placement with the least DRAM among those about as fast as the fastest; of several with about
/// the same DRAM, the first. Never volatile, as only the user knows if an index may end with the process.
fn pick(rows: &[Advised]) -> usize {
    let time = |row: &Advised| row.time.filter(|_| row.placement != Placement::Volatile);
    let fastest = rows.iter().filter_map(time).fold(f64::INFINITY, f64::min);
    let good = |row: &&Advised| time(row).is_some_and(|time| time <= fastest * (1.0 + MIN_GAIN));
    let least = rows
        .iter()
        .filter(good)
        .map(|row| row.dram_bytes)
        .min()
        .unwrap_or(0);
    let frugal = |row: &Advised| good(&row) && row.dram_bytes <= least + least / EQUAL_DRAM_DIVISOR;
    rows.iter().position(frugal).unwrap_or(0)
}

fn reason(rows: &[Advised], pick: usize) -> String {
    let time = |row: &Advised| row.time.unwrap_or(f64::INFINITY);
    let less = |of: &Advised, than: &Advised| (1.0 - time(of) / time(than)) * 100.0;
    let (picked, slow_only) = (&rows[pick], &rows[0]);
    let possible = |row: &&Advised| row.time.is_some() && row.placement != Placement::Volatile;
    let possible: Vec<&Advised> = rows[1..].iter().filter(possible).collect();
    let fastest = possible
        .iter()
        .copied()
        .min_by(|a, b| time(a).total_cmp(&time(b)));
    let worth = MIN_GAIN * 100.0;
    match fastest {
        None => "the DRAM has no room for any copies".into(),
        Some(_) if pick == 0 && slow_only.lines == 0.0 => {
            "queries like these do not wait for the slow tier: what they read stays in the CPU's cache".into()
        }
        Some(_) if pick == 0 => {
            format!("no placement is more than {worth:.0} % faster than reading the slow tier alone")
        }
        Some(fastest) => {
            let mut reason = format!("takes {:.0} % less time than slow-only", less(picked, slow_only));
            if fastest.placement != picked.placement {
                reason += &format!(
                    "; {} is as good within {worth:.0} % but takes more DRAM",
                    fastest.placement
                );
            }
            reason
        }
    }
}
