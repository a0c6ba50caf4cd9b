//! The measured values, and figure 4 of the paper.

use halocline_elf::Rows;
use serde_json::json;

use super::{Results, Table, Tier};
use crate::experiments::tiers::bytes;
use crate::plot::{self, Frame, GroupedColumns};
use crate::{BenchError, Reporter, Settings};

pub(super) fn values(report: &mut Reporter<'_>, results: &Results) -> Result<(), BenchError> {
    for cell in &results.cells {
        let mut config = cell.system.config();
        config.insert("question".to_owned(), json!(results.question.to_string()));
        config.insert("threads".to_owned(), json!(1));
        if let Some(budget) = cell.budget {
            config.insert("budget_percent".to_owned(), json!(results.percent(budget)));
        }
        if cell.rate.median().is_finite() {
            report.samples(&cell.placement, &config, "throughput", &cell.rate, "1/s")?;
        }
        if let (Some(budget), Some(counted)) = (cell.budget, cell.system.counted) {
            report.value(&cell.placement, &config, "DRAM taken", counted, "bytes")?;
            let part = counted / budget as f64 * 100.0;
            report.value(&cell.placement, &config, "DRAM taken of the budget", part, "%")?;
            let gain = results.gain(&cell.placement, budget);
            if gain.is_finite() {
                report.value(
                    &cell.placement,
                    &config,
                    "over slow-only",
                    (gain - 1.0) * 100.0,
                    "%",
                )?;
            }
        }
    }
    Ok(())
}

/// The capacities as people read them: as parts of the index, and in bytes.
fn capacities(results: &Results) -> Vec<String> {
    let capacities = results.capacities.iter();
    capacities
        .map(|(_, of)| format!("{} %, {}", results.percent(*of), bytes(*of as f64)))
        .collect()
}

/// Figure 4: throughput by capacity and policy, with the baselines beside it.
pub(super) fn figure(
    report: &mut Reporter<'_>,
    settings: &Settings,
    table: &Table,
    tier: &Tier,
    results: &Results,
) -> Result<(), BenchError> {
    let Some(directory) = &settings.tiers.plots else {
        return Ok(());
    };
    let (kind, layout, question, theta) = (table.kind(), results.layout, results.question, results.theta);
    let mut series = vec![];
    for baseline in ["slow-only", "volatile"] {
        let rate = results.rate(baseline, None);
        series.push((baseline.to_owned(), vec![rate; results.capacities.len()]));
    }
    for placement in results.placements() {
        let rates = results.capacities.iter();
        let rates = rates.map(|(_, budget)| results.rate(placement, Some(*budget)));
        series.push((placement.to_owned(), rates.collect()));
    }
    let columns = GroupedColumns {
        frame: Frame {
            title: format!("Policies of a dynamic cache, {question}, layout {layout}, {kind} data"),
            x: "DRAM, part of the index".to_owned(),
            y: "queries/s".to_owned(),
            foot: format!(
                "{} rows x {} dimensions, slow tier {}, queries with Zipf {theta}, seed {}, one thread, warmed up, median \
                 of {} rounds in turn",
                table.rows(),
                table.dims(),
                tier.name(),
                settings.seed,
                settings.repetitions(5)
            ),
        },
        groups: capacities(results),
        series,
    };
    let name = format!("elf-policies-{kind}-{layout}-{}-{theta}", question.word());
    let path = plot::write(directory, &name, &columns)?;
    report.line(&format!("figure: {}", path.display()))
}
