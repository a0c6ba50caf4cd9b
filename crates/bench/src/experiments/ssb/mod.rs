//! `ssb`: the Star Schema Benchmark (O'Neil et al.), its 13 queries as SQL through a session, planning
//! included and the result fetched, on media, encodings and orders side by side (figure 4 of Shanbhag et al.,
//! DaMoN 2020).
//!
//! Every list of the settings is crossed with the others; what comes of it are the *variants*, which are
//! asked each query in turn, after one run each to warm up and to compare the answers. Tables are generated
//! and imported once for each scale factor, encoding and order; with `--dir` they stay there, and a later run
//! imports nothing.

mod data;
mod dram;
mod measure;
mod system;
mod variant;

use crate::{BenchError, Chart, Reporter, Settings, TableView, config};

use data::Data;
use measure::MeasuredQuery;
use system::{OpenPools, SsbSession};
use variant::Variant;

pub(super) const VIEWS: &[TableView] = &[
    TableView {
        title: "time of a query by variant",
        metrics: &["time", "geomean"],
        split: &["scale_factor"],
        rows: &["query"],
        columns: "variant",
        base: Some("halocline"),
    },
    TableView {
        title: "size, import and DRAM of a process with all queries",
        metrics: &["size*", "import", "dram_peak", "dram_opened"],
        split: &[],
        rows: &["stored"],
        columns: "metric",
        base: None,
    },
];

pub(super) const CHARTS: &[Chart] = &[Chart {
    title: "time by query",
    metrics: &["time", "geomean"],
    split: &["scale_factor"],
    x: "query",
    series: "variant",
    x_label: "query",
    y_label: "time, ms",
    ..Chart::COLUMNS
}];

/// Rounds unless told otherwise.
const ROUNDS: usize = 5;

/// All that one run gave.
struct SsbResults {
    variants: Vec<Variant>,
    /// By query, then by variant.
    measured: Vec<MeasuredQuery>,
    stored: Vec<data::Sizes>,
    /// Of each that is stored at the largest scale factor.
    dram: Vec<dram::Peak>,
}

impl SsbResults {
    /// Returns the geometric mean of the median times of a variant, in milliseconds.
    fn mean(&self, variant: usize) -> f64 {
        let medians = self
            .measured
            .iter()
            .map(|query| query.asked.times[variant].median());
        crate::timing::geometric_mean(&medians.collect::<Vec<_>>())
    }
}

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let variants = variant::all(settings);
    let data = Data::new(settings)?;
    let mut stored: Vec<data::Sizes> = vec![];
    for variant in &variants {
        if !stored.iter().any(|sizes| sizes.stored == variant.stored) {
            stored.push(data.prepare(&variant.stored, settings, report)?);
        }
    }
    let mut places = OpenPools::default();
    let mut systems = vec![];
    for variant in &variants {
        systems.push(places.system(variant, &data, settings, report)?);
    }
    let measured = measure::all(&systems, settings.repetitions(ROUNDS))?;
    let dram = dram::peaks(&stored, settings, report)?;
    let results = SsbResults {
        variants,
        measured,
        stored,
        dram,
    };
    values(report, &systems, &results)
}

fn values(report: &mut Reporter<'_>, systems: &[SsbSession], results: &SsbResults) -> Result<(), BenchError> {
    let labels = labels(results);
    for query in &results.measured {
        for (at, system) in systems.iter().enumerate() {
            let config = config! {
                ..system.config(), "variant": labels[at].as_str(), "query": query.query.name,
                "result_rows": query.asked.rows[at], "planned_as_star_join": query.star[at],
                "rows": rows(results, at),
            };
            report.samples(
                system.variant.system(),
                &config,
                "time",
                &query.asked.times[at],
                "ms",
            )?;
        }
    }
    for (at, system) in systems.iter().enumerate() {
        let config = config! {
            ..system.config(), "variant": labels[at].as_str(), "query": "geomean",
            "rows": rows(results, at),
        };
        report.value(
            system.variant.system(),
            &config,
            "geomean",
            results.mean(at),
            "ms",
        )?;
    }
    for sizes in &results.stored {
        let config =
            config! {..sizes.stored.config(), "stored": sizes.stored.to_string(), "rows": sizes.rows};
        for (metric, bytes) in [
            ("size.lineorder", sizes.lineorder),
            ("size", sizes.tables),
            ("size.parquet.lineorder", sizes.parquet_lineorder),
            ("size.parquet", sizes.parquet),
        ] {
            report.value("halocline", &config, metric, bytes as f64, "bytes")?;
        }
        if let Some(seconds) = sizes.import {
            let rate = sizes.rows as f64 / seconds;
            report.value("halocline", &config, "import", rate, "rows/s")?;
        }
    }
    for peak in &results.dram {
        let config =
            config! {..peak.stored.config(), "stored": peak.stored.to_string(), "threads": peak.threads};
        report.value("halocline", &config, "dram_peak", peak.all as f64, "bytes")?;
        report.value("halocline", &config, "dram_opened", peak.opened as f64, "bytes")?;
    }
    Ok(())
}

/// Returns the number of lineorder rows of a variant.
fn rows(results: &SsbResults, variant: usize) -> u64 {
    let stored = &results.variants[variant].stored;
    let sizes = results.stored.iter().find(|sizes| sizes.stored == *stored);
    sizes.map_or(0, |sizes| sizes.rows)
}

fn labels(results: &SsbResults) -> Vec<String> {
    let label = |variant: &Variant| variant.label(&results.variants);
    results.variants.iter().map(label).collect()
}
