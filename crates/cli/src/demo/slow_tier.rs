//! Step 6: the index on an emulated slow tier, with all of it, a few percent and nothing of it in DRAM.
//!
//! Each budget has a database and a device of its own, so that none finds in the modelled cache of the CPU
//! what another one has read. A budget without room for the smallest useful copy copies nothing; the figures
//! printed are what was copied.

use std::io::{Stdout, Write};
use std::path::Path;

use halocline_cache::StaticLists;
use halocline_emulator::{Device, EmulatedError, EmulatedSpec};
use halocline_engine::{Database, DatabaseOptions, PlaceOptions, Placement};
use halocline_terminal::size::display;
use halocline_terminal::{CliError, progress};

use super::load::INDEX;
use super::selections::MeasuredSelection;
use super::systems::{ComparedSystem, RUNS, compare_varied};
use super::{aligned_table, selectivity, times};
use crate::opening;

/// The medium: Optane persistent memory relative to this machine's DRAM, with real delays.
const MEDIUM: &str = "emulated:optane";

/// The limited budget, in percent of the index: at scale factor 3, the smallest copy takes 3.3 % of it.
const PERCENT: u64 = 4;

/// Medians of all selections, and what they were measured with.
pub(crate) struct MeasuredTiers {
    /// Percentage of the index that the limited budget had room for.
    pub(crate) percent: f64,
    pub(crate) times: Vec<TierTimes>,
}

/// Median milliseconds of a selection with each budget.
pub(crate) struct TierTimes {
    pub(crate) all_ms: f64,
    pub(crate) limited_ms: f64,
    pub(crate) none_ms: f64,
}

/// Measures and prints the selections on the index alone: their rows are counted, not fetched.
pub(crate) fn run(
    pool: &Path,
    options: &DatabaseOptions,
    index_bytes: u64,
    selections: &[MeasuredSelection],
    out: &mut Stdout,
) -> Result<MeasuredTiers, CliError> {
    place(pool, options, Placement::Static(StaticLists::Probable))?;
    let spinner = progress::spinner("measuring the DRAM of this machine");
    let spec: EmulatedSpec = MEDIUM
        .parse()
        .map_err(|error: EmulatedError| CliError::failed(error.to_string()))?;
    let mut databases = vec![];
    for budget in [2 * index_bytes, index_bytes * PERCENT / 100, 0] {
        let options = options
            .clone()
            .with_read_only(true)
            .with_dram_budget(Some(budget));
        let device = Device::new(&spec).map_err(|error| CliError::failed(error.to_string()))?;
        databases.push(Database::open_emulated(pool, &options, &device)?);
    }
    spinner.finish_and_clear();
    let systems = [
        ComparedSystem::pool("all in DRAM", &databases[0], "force")?,
        ComparedSystem::pool("a limited budget", &databases[1], "force")?,
        ComparedSystem::pool("nothing in DRAM", &databases[2], "force")?,
    ];
    let bar = progress::steps(selections.len() as u64);
    bar.set_message("comparing DRAM budgets");
    let mut times = vec![];
    for measured in selections {
        let text = |run| {
            let condition = measured.selection.condition(1 + run);
            format!("SELECT count(*) FROM lineitem WHERE {condition}")
        };
        let [all_ms, limited_ms, none_ms] = compare_varied(&systems, text)?.milliseconds;
        times.push(TierTimes {
            all_ms,
            limited_ms,
            none_ms,
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    let limited = databases[1].info()?.placed_bytes;
    let measured = MeasuredTiers {
        percent: limited as f64 / index_bytes as f64 * 100.0,
        times,
    };
    writeln!(
        out,
        "\n6. EMULATED: selections of these sizes on a model of a slow tier ({MEDIUM}, with delays in real time);\n   \
         the index alone counts their rows. Copies of {} of the index (of {}), {} and nothing are in DRAM.\n   Equal \
         answers. Medians of {RUNS} turns, each with other constants.",
        display(databases[0].info()?.placed_bytes),
        display(index_bytes),
        display(limited)
    )?;
    print(selections, &measured, out)?;
    drop((systems, databases));
    // The pool is left as it was; the placement is stored with the index.
    place(pool, options, Placement::SlowOnly)?;
    Ok(measured)
}

fn print(
    selections: &[MeasuredSelection],
    measured: &MeasuredTiers,
    out: &mut Stdout,
) -> Result<(), CliError> {
    let percent = format!("{:.1} %", measured.percent);
    let mut table = aligned_table(&[
        "selectivity, about",
        "all in DRAM, ms",
        &format!("{percent} in DRAM, ms"),
        "nothing in DRAM, ms",
        &format!("{percent} : all"),
        "nothing : all",
    ]);
    for (selection, tier) in selections.iter().zip(&measured.times) {
        table.add_row([
            selectivity(selection.share),
            format!("{:.2}", tier.all_ms),
            format!("{:.2}", tier.limited_ms),
            format!("{:.2}", tier.none_ms),
            times(tier.limited_ms / tier.all_ms),
            times(tier.none_ms / tier.all_ms),
        ]);
    }
    Ok(writeln!(out, "{table}")?)
}

fn place(pool: &Path, options: &DatabaseOptions, placement: Placement) -> Result<(), CliError> {
    let database = opening::open(pool, options)?;
    let placed = PlaceOptions::default().with_placement(placement);
    database.place_index(INDEX, &placed)?;
    Ok(())
}
