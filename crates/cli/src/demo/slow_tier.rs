//! Step 6: the index on an emulated slow tier, with all of it, 3 % and nothing of it in DRAM.
//!
//! Each budget has a database and a device of its own, so that none finds in the modelled cache of the CPU
//! what another one has read.

use std::io::{Stdout, Write};
use std::path::Path;

use halocline_bench::BenchError;
use halocline_cache::StaticLists;
use halocline_emulator::{Device, EmulatedError, EmulatedSpec};
use halocline_engine::{Database, DatabaseOptions, PlaceOptions, Placement};

use super::load::INDEX;
use super::selections::MeasuredSelection;
use super::systems::{ComparedSystem, RUNS, compare};
use super::{aligned_table, selectivity, times};
use crate::error::CliError;
use crate::size::display;
use crate::{opening, progress};

/// The medium: Optane persistent memory relative to this machine's DRAM, with real delays.
const MEDIUM: &str = "emulated:optane";

/// Names of the budgets, in the order in which they are measured.
const BUDGETS: [&str; 3] = ["all in DRAM", "3 % in DRAM", "nothing in DRAM"];

/// Median milliseconds of a selection with each budget.
pub(crate) struct MeasuredTier {
    pub(crate) all_ms: f64,
    pub(crate) three_percent_ms: f64,
    pub(crate) none_ms: f64,
}

/// Measures and prints the selections on the index alone: their rows are counted, not fetched.
pub(crate) fn run(
    pool: &Path,
    options: &DatabaseOptions,
    index_bytes: u64,
    selections: &[MeasuredSelection],
    out: &mut Stdout,
) -> Result<Vec<MeasuredTier>, CliError> {
    place(pool, options, Placement::Static(StaticLists::Probable))?;
    let spinner = progress::spinner("measuring the DRAM of this machine");
    let spec: EmulatedSpec = MEDIUM
        .parse()
        .map_err(|error: EmulatedError| CliError::failed(error.to_string()))?;
    let three_percent = index_bytes * 3 / 100;
    let mut databases = vec![];
    for budget in [2 * index_bytes, three_percent, 0] {
        let options = DatabaseOptions {
            read_only: true,
            dram_budget: Some(budget),
            ..options.clone()
        };
        let device = Device::new(&spec).map_err(BenchError::from)?;
        databases.push(Database::open_emulated(pool, &options, &device)?);
    }
    spinner.finish_and_clear();
    let systems = [
        ComparedSystem::pool(BUDGETS[0], &databases[0], "force")?,
        ComparedSystem::pool(BUDGETS[1], &databases[1], "force")?,
        ComparedSystem::pool(BUDGETS[2], &databases[2], "force")?,
    ];
    let bar = progress::steps(selections.len() as u64);
    bar.set_message("comparing DRAM budgets");
    let mut measured = vec![];
    for selection in selections {
        let text = format!("SELECT count(*) FROM lineitem WHERE {}", selection.condition);
        let [all_ms, three_percent_ms, none_ms] = compare(selection.condition, &text, &systems)?.milliseconds;
        measured.push(MeasuredTier {
            all_ms,
            three_percent_ms,
            none_ms,
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    let taken = |database: &Database| -> Result<u64, CliError> { Ok(database.info()?.placed_bytes) };
    writeln!(
        out,
        "\n6. EMULATED: the same selections, rows counted by the index alone, on a model of a slow tier \
         ({MEDIUM}, with delays in real time)\n   The index has {}. In DRAM of it: {}, {} and nothing. Medians \
         of {RUNS} runs in turns, equal answers.",
        display(index_bytes),
        display(taken(&databases[0])?),
        display(taken(&databases[1])?)
    )?;
    print(selections, &measured, out)?;
    drop((systems, databases));
    // The pool is left as it was; the placement is stored with the index.
    place(pool, options, Placement::SlowOnly)?;
    Ok(measured)
}

fn print(
    selections: &[MeasuredSelection],
    measured: &[MeasuredTier],
    out: &mut Stdout,
) -> Result<(), CliError> {
    let [all, three_percent, none] = BUDGETS.map(|budget| format!("{budget}, ms"));
    let mut table = aligned_table(&[
        "selectivity",
        &all,
        &three_percent,
        &none,
        "3 % : all",
        "nothing : all",
    ]);
    for (selection, tier) in selections.iter().zip(measured) {
        table.add_row([
            selectivity(selection.share),
            format!("{:.2}", tier.all_ms),
            format!("{:.2}", tier.three_percent_ms),
            format!("{:.2}", tier.none_ms),
            times(tier.three_percent_ms / tier.all_ms),
            times(tier.none_ms / tier.all_ms),
        ]);
    }
    Ok(writeln!(out, "{table}")?)
}

fn place(pool: &Path, options: &DatabaseOptions, placement: Placement) -> Result<(), CliError> {
    let database = opening::open(pool, options)?;
    let placed = PlaceOptions {
        placement,
        dram: None,
    };
    database.place_index(INDEX, &placed)?;
    Ok(())
}
