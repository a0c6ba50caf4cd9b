//! `joins`: equi-joins whose build side grows beyond the memory limit M, by algorithm and medium, beside the
//! times that the cost model predicts (figure 6 of Shanbhag, Tatbul, Cohen and Madden, DaMoN 2020).
//!
//! Two stored tables of a key and a payload of 8 bytes each are joined, and both payloads summed. The build
//! side T has half of M up to 16 M, the probe side V 16 M; every probe row has one partner. The keys of the
//! probe side are uniform or skewed, and those of the build side dense and sorted, as an array join takes
//! them, or not. Tables and spilled rows are on the same medium.
//!
//! Every algorithm must return the sum that the generator of the tables has computed.

mod fit;
mod grid;
mod measure;
mod medium;
mod tables;

use halocline_costs::join::{Algorithm, JoinAlgorithm, JoinChoice};

use crate::{BenchError, Chart, Reporter, Settings, TableView, config};

use fit::CostFit;
use grid::GridCell;
use measure::{CellJoins, MeasuredJoin};
use medium::JoinMedium;
use tables::StoredTables;

/// Options of the experiment.
pub(super) const OPTIONS: &[&str] = &[
    "--memory",
    "--rows",
    "--theta",
    "--on",
    "--threads",
    "--repeat",
    "--dir",
    "--medium",
    "--cache-model",
    "--plot",
];

const SPLIT: &[&str] = &["on", "keys", "theta"];

const fn view(title: &'static str, metric: &'static [&'static str]) -> TableView {
    TableView {
        title,
        metrics: metric,
        split: SPLIT,
        rows: &["build_over_memory"],
        columns: "system",
        base: None,
    }
}

pub(super) const VIEWS: &[TableView] = &[
    view("time of a join, by size of the build side", &["time"]),
    view("predicted time, by size of the build side", &["estimate"]),
    TableView {
        title: "time of the predicted algorithm above that of the fastest one",
        metrics: &["regret"],
        split: SPLIT,
        rows: &["build_over_memory", "pick", "fastest"],
        columns: "metric",
        base: None,
    },
];

pub(super) const CHARTS: &[Chart] = &[Chart {
    title: "time of a join",
    metrics: &["time"],
    split: SPLIT,
    x: "build_over_memory",
    x_label: "size of the build side / memory limit",
    y_label: "s",
    ..Chart::LINES
}];

/// Rounds of a measurement, of which the fastest counts.
const ROUNDS: usize = 2;

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let media = JoinMedium::all(settings, report)?;
    report.set("seed", settings.seed);
    report.set("verify", "off");
    let rounds = settings.repetitions.unwrap_or(ROUNDS);
    let mut fit = CostFit::default();
    for cell in GridCell::all(settings) {
        let tables = StoredTables::make(&cell, settings.seed)?;
        for medium in &media {
            let pool = medium.open(&tables.medium, settings)?;
            let joins = CellJoins::new(&cell, medium, pool, settings.threads())?;
            let choice = joins.choice()?;
            let mut algorithms: Vec<JoinAlgorithm> = choice
                .estimates()
                .iter()
                .map(|estimate| estimate.algorithm)
                .collect();
            algorithms.sort_by_key(|algorithm| system(*algorithm));
            let measured = joins.measure(&algorithms, tables.expected, rounds)?;
            values(&joins, &choice, &algorithms, &measured, report)?;
            for (algorithm, measured) in algorithms.iter().zip(&measured) {
                if let Some(estimate) = choice.estimate(*algorithm) {
                    fit.add(estimate, settings.threads(), measured.times.min());
                }
            }
        }
    }
    match fit.costs() {
        Some(costs) => report.line(&format!(
            "costs fitted to these times, ns per row: {}",
            fit::text(&costs)
        )),
        None => Ok(()),
    }
}

/// Returns the name of an algorithm without its parameters.
fn system(algorithm: JoinAlgorithm) -> String {
    match algorithm {
        JoinAlgorithm::Hashed(Algorithm::Segmented { .. }) => "segmented".to_owned(),
        other => other.to_string(),
    }
}

/// Reports the values of a cell on a medium.
fn values(
    joins: &CellJoins<'_>,
    choice: &JoinChoice,
    algorithms: &[JoinAlgorithm],
    measured: &[MeasuredJoin],
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    let mut base = joins.medium.config(joins.threads);
    base.extend(joins.cell.config());
    let (mut fastest, mut picked) = ((f64::INFINITY, String::new()), f64::NAN);
    let pick = system(choice.algorithm());
    let mut line = format!("{}, {}:", joins.medium.label.name, joins.cell);
    for (algorithm, measured) in algorithms.iter().zip(measured) {
        let (name, seconds) = (system(*algorithm), measured.times.min());
        let estimate = choice.estimate(*algorithm);
        let config = config! {
            ..base.clone(),
            "algorithm": algorithm.to_string(),
            "repetitions": measured.times.len(),
            "work": estimate.map(|estimate| estimate.work.steps()),
        };
        report.value(&name, &config, "time", seconds, "s")?;
        report.value(&name, &config, "spilled", measured.spilled as f64, "bytes")?;
        report.value(&name, &config, "passes", measured.passes, "")?;
        if let Some(estimate) = estimate {
            report.value(&name, &config, "estimate", estimate.seconds(), "s")?;
            report.value(&name, &config, "estimated transfer", estimate.transfer, "s")?;
            report.value(&name, &config, "estimated spill", estimate.spilled, "bytes")?;
            line += &format!(" {name} {seconds:.2} ({:.2})", estimate.seconds());
        }
        if name == pick {
            picked = seconds;
        }
        if seconds < fastest.0 {
            fastest = (seconds, name);
        }
    }
    let regret = (picked / fastest.0 - 1.0) * 100.0;
    line += &format!(" s (predicted); {pick} takes {regret:+.0} %");
    report.line(&line)?;
    let config = config! {..base, "pick": pick.clone(), "fastest": fastest.1};
    report.value(&pick, &config, "regret", regret, "%")
}
