//! `elf-selections`: selections over TPC-H lineitem, answered by the Elf, by our own scan, and by plain
//! DataFusion over the same columns in memory.
//!
//! The selections are those of Q1, Q6, Q10, Q14 and Q19 and random conjunctions of one to five predicates,
//! spread evenly over the decades of selectivity from 1e-6 to 0.1. Each is asked for the number of its rows
//! (`count`), by all systems, and for a sum over another column (`sum`), which needs the rows themselves, by
//! the two that speak SQL. All counts must agree. Times are medians of interleaved repetitions.
//!
//! An Elf is quick when its first dimensions are restricted. So two ways to have it are measured: `elf` is
//! one index over all columns, few values first, as the papers build it; `elf-set` is that one and seven
//! more, each with another column of many values first, from which the best for a selection is taken. SQL has
//! all of them to choose from.
//!
//! At the end selections on a clustered table are compared with the same on one that is not (`clustering`).

mod choose;
mod clustering;
mod prepare;
mod summary;
mod systems;
mod translate;

use halocline_elf::Estimate;

use crate::medium::announce;
use crate::{BenchError, Reporter, Samples, Settings, TableView, config};

use choose::SampledSelection;
use summary::SelectionTimes;
use systems::{SelectionSystem, SelectionSystems};

pub(super) const VIEWS: &[TableView] = &[
    TableView {
        title: "random conjunctions: geometric mean of the time of a count, by selectivity",
        metrics: &["count.geomean"],
        split: &["scale_factor"],
        rows: &["decade"],
        columns: "system",
        base: Some("datafusion"),
    },
    TableView {
        title: "random conjunctions: geometric mean of the time of a sum, by selectivity",
        metrics: &["sum.geomean"],
        split: &["scale_factor"],
        rows: &["decade"],
        columns: "system",
        base: Some("datafusion"),
    },
    TableView {
        title: "selections of TPC-H: time of a count",
        metrics: &["count"],
        split: &["clustering"],
        rows: &["selection", "selectivity"],
        columns: "system",
        base: None,
    },
    TableView {
        title: "selections of TPC-H: time of a sum over the rows",
        metrics: &["sum", "sum_text"],
        split: &["clustering"],
        rows: &["selection", "metric"],
        columns: "system",
        base: None,
    },
];

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let scale_factor = settings
        .scale_factor
        .unwrap_or(if settings.quick { 0.01 } else { 1.0 });
    let random = if settings.quick { 10 } else { 100 };
    let repetitions = settings.repetitions(3);
    let directory = settings.temporary_directory()?;
    report.set("scale_factor", scale_factor);
    report.set("seed", settings.seed);
    report.set("threads", settings.threads());
    let prepared = prepare::prepare(directory.path(), scale_factor, settings, report)?;
    let medium = settings.pool_medium()?;
    let systems = SelectionSystems::open(&prepared, settings.threads(), medium.as_ref())?;
    announce(systems.device(), report)?;
    report.set("medium", systems.medium()?);
    report.set("rows", systems.rows());
    let chosen = choose::choose(&systems, scale_factor, settings.seed, random)?;
    report.line(&format!(
        "{} selections over {} rows",
        chosen.len(),
        systems.rows()
    ))?;

    let mut measured = Vec::new();
    for selection in &chosen {
        let mut times = Vec::new();
        for system in SelectionSystem::ALL {
            times.push((system, Samples::default()));
        }
        measure(&systems, selection, repetitions, &mut times)?;
        record(report, selection, systems.estimate(&selection.selection)?, &times)?;
        measured.extend(SelectionTimes::new(selection, &times));
    }
    summary::report(report, &measured)?;
    drop(systems);
    let clustered = directory.path().join("clustering.pool");
    clustering::run(&clustered, &prepared.parquet, settings, repetitions, report)
}

/// Asks all systems in turn; the first round warms up and compares the counts.
fn measure(
    systems: &SelectionSystems,
    selection: &SampledSelection,
    repetitions: usize,
    times: &mut [(SelectionSystem, Samples)],
) -> Result<(), BenchError> {
    for round in 0..=repetitions {
        for (system, samples) in times.iter_mut() {
            let answer = systems.ask(*system, &selection.selection)?;
            if answer.rows != selection.rows {
                return Err(BenchError::Disagreement {
                    what: selection.selection.where_clause(),
                    left_system: SelectionSystem::Scan.name().to_owned(),
                    left: selection.rows.to_string(),
                    right_system: system.name().to_owned(),
                    right: answer.rows.to_string(),
                });
            }
            if round > 0 {
                samples.push(answer.milliseconds);
            }
        }
    }
    Ok(())
}

/// Reports the times, and what the one index was estimated to find and to visit.
fn record(
    report: &mut Reporter<'_>,
    selection: &SampledSelection,
    estimate: Estimate,
    times: &[(SelectionSystem, Samples)],
) -> Result<(), BenchError> {
    let config = config! {
        "selection": selection.selection.name,
        "where": selection.selection.where_clause(),
        "predicates": selection.selection.predicates.len(),
        "selected_rows": selection.rows,
        "selectivity": selection.selectivity,
    };
    for (system, samples) in times {
        let mut config = config.clone();
        if system.is_in_memory() {
            config.insert("medium".to_owned(), "DRAM".into());
        }
        report.samples(system.name(), &config, system.metric(), samples, "ms")?;
    }
    let elf = SelectionSystem::Elf.name();
    report.value(elf, &config, "estimated_rows", estimate.rows, "rows")?;
    report.value(elf, &config, "estimated_lists", estimate.lists, "lists")
}
