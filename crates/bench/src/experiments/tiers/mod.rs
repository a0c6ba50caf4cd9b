//! Shared parts of the experiments on an index over two tiers: tables, queries, the slow tier, placements
//! side by side.

mod build;
mod calibrate;
mod compare;
mod index;
mod lockstep;
mod mode;
mod queries;
mod system;
mod table;
mod tier;

use crate::{BenchError, DataKind, Reporter, Settings};
use halocline_cache::Placement;
use halocline_elf::{Layout, Rows};
use halocline_media::HugeVec;
use std::sync::Arc;

pub(super) use build::{Built, build};
pub(super) use calibrate::{Calibration, calibrate, calibrate_for};
pub(super) use compare::{QueryCost, compare};
pub(super) use index::Index;
pub(super) use lockstep::{lockstep, warm_up};
pub(super) use mode::SelectionMode;
pub(super) use queries::{Queries, QuerySource, QueryType};
pub(super) use system::{IndexMemory, IndexSystem};
pub(super) use table::{CARDINALITY, CodeTable, DIMS};
pub(super) use tier::{IN_EMULATED_DRAM, IN_HOST_DRAM, Tier};

/// Skew of the queries unless told otherwise, the paper's.
pub(super) const THETA: f64 = 0.5;

/// Returns the requested kind of table, or all kinds.
pub(super) fn kinds(settings: &Settings) -> Vec<DataKind> {
    settings
        .tiers
        .data
        .map_or(DataKind::ALL.to_vec(), |kind| vec![kind])
}

/// Returns the requested layout, or both. `published` comes first, so that `packed` can be compared with it.
pub(super) fn layouts(settings: &Settings) -> Vec<Layout> {
    settings
        .tiers
        .layout
        .map_or(vec![Layout::Published, Layout::Packed], |layout| vec![layout])
}

/// Returns the requested skews, or `default`.
pub(super) fn thetas(settings: &Settings, default: &[f64]) -> Vec<f64> {
    let asked = &settings.tiers.thetas;
    if asked.is_empty() { default } else { asked }.to_vec()
}

/// Returns the placements, without the baselines, that an index of this layout supports. Reports for each of
/// the others why it is left out.
pub(super) fn possible(
    placements: &[Placement],
    tier: &Tier,
    bytes: &Arc<HugeVec<u8>>,
    report: &mut Reporter<'_>,
) -> Result<Vec<Placement>, BenchError> {
    let mut possible = vec![];
    let baseline = |placement: &Placement| matches!(placement, Placement::Volatile | Placement::SlowOnly);
    for &placement in placements.iter().filter(|placement| !baseline(placement)) {
        match tier.why_not(bytes, placement)? {
            None => possible.push(placement),
            Some(reason) => report.line(&format!("left out: {reason}"))?,
        }
    }
    Ok(possible)
}

/// Says what is run, for people and for every value that follows.
pub(super) fn announce(
    settings: &Settings,
    table: &CodeTable,
    tier: &Tier,
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    report.set("data", table.kind().to_string());
    report.set("rows", table.rows());
    report.set("dims", table.dims());
    report.set("cardinalities", table.cardinalities());
    report.set("seed", settings.seed);
    report.set("medium", tier.name());
    for (name, value) in tier.config() {
        report.set(&name, value);
    }
    report.line(&format!(
        "{}, {} rows x {} dimensions, seed {}; slow tier: {}",
        table.kind(),
        table.rows(),
        table.dims(),
        settings.seed,
        tier.name()
    ))
}

/// Formats a number of bytes with a decimal unit, such as `12.34 MB`.
pub(super) fn bytes(count: f64) -> String {
    match count.abs() {
        c if c >= 1e9 => format!("{:.2} GB", count / 1e9),
        c if c >= 1e6 => format!("{:.2} MB", count / 1e6),
        c if c >= 1e3 => format!("{:.1} kB", count / 1e3),
        _ => format!("{count:.0} B"),
    }
}
