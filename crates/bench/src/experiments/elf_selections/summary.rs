//! Summary of the times, by decade of selectivity.

use super::choose::{Chosen, DECADES};
use super::systems::System;
use crate::timing::geometric_mean;
use crate::{BenchError, Reporter, Samples, config};

/// Upper limits of the selectivity for which the ratios are summarized.
const LIMITS: [f64; 2] = [1e-3, 1e-5];

/// One selection and the median milliseconds of each system, in the order of [`System::ALL`].
pub(super) struct Measured {
    name: String,
    text: String,
    selectivity: f64,
    milliseconds: Vec<f64>,
}

impl Measured {
    pub(super) fn new(chosen: &Chosen, times: &[(System, Samples)]) -> Self {
        Self {
            name: chosen.selection.name.clone(),
            text: chosen.selection.where_clause(),
            selectivity: chosen.selectivity,
            milliseconds: times.iter().map(|(_, samples)| samples.median()).collect(),
        }
    }

    fn of(&self, system: System) -> f64 {
        let position = System::ALL.iter().position(|other| *other == system).unwrap_or(0);
        self.milliseconds[position]
    }

    fn ratio(&self, slow: System, fast: System) -> f64 {
        self.of(slow) / self.of(fast)
    }
}

pub(super) fn print(report: &mut Reporter<'_>, measured: &[Measured]) -> Result<(), BenchError> {
    let header = [
        "selection",
        "selectivity",
        "elf, ms",
        "elf-set, ms",
        "scan, ms",
        "sql, ms",
        "DataFusion, ms",
        "DataFusion / elf-set",
        "DataFusion / sql",
    ];
    let tpch = measured.iter().filter(|one| one.name.starts_with('Q'));
    report.table(&header, tpch.map(|one| line(&one.name, &[one])).collect())?;

    let mut decades = Vec::new();
    for decade in DECADES {
        let (low, high) = (10f64.powi(decade), 10f64.powi(decade + 1));
        let inside: Vec<&Measured> = measured
            .iter()
            .filter(|one| one.name.starts_with("random") && (low..high).contains(&one.selectivity))
            .collect();
        if !inside.is_empty() {
            decades.push(line(
                &format!("{} random, 1e{decade} to 1e{}", inside.len(), decade + 1),
                &inside,
            ));
        }
    }
    report.line("random conjunctions: geometric means, ratios with their minimum")?;
    report.table(&header, decades)?;
    ratios(report, measured)?;
    worst(report, measured)
}

/// Geometric means over some selections.
fn line(name: &str, of: &[&Measured]) -> Vec<String> {
    let mean = |system| geometric_mean(&of.iter().map(|one| one.of(system)).collect::<Vec<_>>());
    let ratio = |fast| {
        let ratios: Vec<f64> = of.iter().map(|one| one.ratio(System::DataFusion, fast)).collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        if of.len() == 1 {
            format!("{least:.1}x")
        } else {
            format!("{:.1}x (min {least:.1}x)", geometric_mean(&ratios))
        }
    };
    let selectivity = geometric_mean(&of.iter().map(|one| one.selectivity).collect::<Vec<_>>());
    let mut cells = vec![name.to_owned(), format!("{selectivity:.1e}")];
    for system in [
        System::Elf,
        System::ElfSet,
        System::Scan,
        System::Sql,
        System::DataFusion,
    ] {
        cells.push(format!("{:.3}", mean(system)));
    }
    cells.extend([ratio(System::ElfSet), ratio(System::Sql)]);
    cells
}

/// Summarizes the times of DataFusion over those of the index API and of SQL.
fn ratios(report: &mut Reporter<'_>, measured: &[Measured]) -> Result<(), BenchError> {
    for limit in LIMITS {
        for (system, slow) in [
            (System::Elf, System::DataFusion),
            (System::ElfSet, System::DataFusion),
            (System::Sql, System::DataFusion),
            (System::SqlSum, System::DataFusionSum),
        ] {
            let ratios: Vec<f64> = measured
                .iter()
                .filter(|one| one.selectivity <= limit)
                .map(|one| one.ratio(slow, system))
                .collect();
            if ratios.is_empty() {
                continue;
            }
            let mean = geometric_mean(&ratios);
            let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            let config =
                config! {"against": "datafusion", "selectivity_at_most": limit, "selections": ratios.len()};
            let metric = system.metric();
            report.value(
                system.name(),
                &config,
                &format!("{metric}.ratio.geomean"),
                mean,
                "x",
            )?;
            report.value(system.name(), &config, &format!("{metric}.ratio.min"), least, "x")?;
            report.line(&format!(
                "selectivity <= {limit:e}, {} {metric}: {mean:.1}x DataFusion (min {least:.1}x), {} selections",
                system.name(),
                ratios.len()
            ))?;
        }
    }
    Ok(())
}

/// The selections on which the indexes gain least: what to work on.
fn worst(report: &mut Reporter<'_>, measured: &[Measured]) -> Result<(), BenchError> {
    let mut order: Vec<&Measured> = measured
        .iter()
        .filter(|one| one.selectivity <= LIMITS[0])
        .collect();
    order.sort_by(|a, b| {
        a.ratio(System::DataFusion, System::ElfSet)
            .total_cmp(&b.ratio(System::DataFusion, System::ElfSet))
    });
    if order.is_empty() {
        return Ok(());
    }
    report.line(&format!("least gain at selectivity <= {:e}:", LIMITS[0]))?;
    for one in order.iter().take(5) {
        report.line(&format!(
            "  {:.1}x ({:.3} ms, {:.1e} of the rows): {}",
            one.ratio(System::DataFusion, System::ElfSet),
            one.of(System::ElfSet),
            one.selectivity,
            one.text
        ))?;
    }
    Ok(())
}
