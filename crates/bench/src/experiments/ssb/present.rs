//! Values, tables and figure of the measurements.

use super::Results;
use super::system::System;
use crate::plot::{self, Frame, GroupedColumns};
use crate::{BenchError, Reporter, Settings};

const MIB: f64 = (1 << 20) as f64;

pub(super) fn values(
    report: &mut Reporter<'_>,
    systems: &[System],
    results: &Results,
) -> Result<(), BenchError> {
    for query in &results.measured {
        for (at, system) in systems.iter().enumerate() {
            let mut config = system.config();
            config.insert("query".to_owned(), query.query.name.into());
            config.insert("result_rows".to_owned(), query.rows[at].into());
            config.insert("planned_as_star_join".to_owned(), query.star[at].into());
            config.insert("rows".to_owned(), rows(results, at).into());
            report.samples(system.variant.system(), &config, "time", &query.times[at], "ms")?;
        }
    }
    for (at, system) in systems.iter().enumerate() {
        let mut config = system.config();
        config.insert("rows".to_owned(), rows(results, at).into());
        report.value(
            system.variant.system(),
            &config,
            "geomean",
            results.mean(at),
            "ms",
        )?;
    }
    for sizes in &results.stored {
        let mut config = sizes.stored.config();
        config.insert("rows".to_owned(), sizes.rows.into());
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
        let mut config = peak.stored.config();
        config.insert("threads".to_owned(), peak.threads.into());
        report.value("halocline", &config, "dram_peak", peak.all as f64, "bytes")?;
        report.value("halocline", &config, "dram_opened", peak.opened as f64, "bytes")?;
    }
    Ok(())
}

/// Rows of lineorder of a variant.
fn rows(results: &Results, variant: usize) -> u64 {
    let stored = &results.variants[variant].stored;
    let sizes = results.stored.iter().find(|sizes| sizes.stored == *stored);
    sizes.map_or(0, |sizes| sizes.rows)
}

pub(super) fn tables(report: &mut Reporter<'_>, results: &Results) -> Result<(), BenchError> {
    let labels = labels(results);
    let mut header = vec!["query, ms"];
    header.extend(labels.iter().map(String::as_str));
    let mut lines = vec![];
    for query in &results.measured {
        let mut cells = vec![query.query.name.to_owned()];
        cells.extend(query.times.iter().zip(&query.star).zip(&results.variants).map(
            |((times, star), variant)| {
                // A star query that was planned as none is worth a look.
                let mark = if *star == variant.star {
                    ""
                } else {
                    " (no star join)"
                };
                format!("{:.2}{mark}", times.median())
            },
        ));
        lines.push(cells);
    }
    let mut means = vec!["geomean".to_owned()];
    means.extend((0..results.variants.len()).map(|at| format!("{:.2}", results.mean(at))));
    lines.push(means);
    report.table(&header, lines)?;
    let mut lines = vec![];
    for sizes in &results.stored {
        let ratio = sizes.lineorder as f64 / sizes.parquet_lineorder as f64;
        let rate = sizes.import.map(|seconds| sizes.rows as f64 / seconds / 1e6);
        let peak = results.dram.iter().find(|peak| peak.stored == sizes.stored);
        lines.push(vec![
            sizes.stored.to_string(),
            sizes.rows.to_string(),
            format!("{:.1}", sizes.lineorder as f64 / 1e6),
            format!("{:.1}", sizes.parquet_lineorder as f64 / 1e6),
            format!("{ratio:.2}"),
            rate.map_or_else(String::new, |rate| format!("{rate:.2}")),
            peak.map_or_else(String::new, |peak| {
                format!("{:.1} ({:.1})", peak.all as f64 / MIB, peak.opened as f64 / MIB)
            }),
        ]);
    }
    report.table(
        &[
            "pool",
            "rows",
            "lineorder, MB",
            "zstd Parquet, MB",
            "ratio",
            "import, M rows/s",
            "DRAM at its peak (opened), MiB",
        ],
        lines,
    )
}

fn labels(results: &Results) -> Vec<String> {
    let label = |variant: &super::Variant| variant.label(&results.variants);
    results.variants.iter().map(label).collect()
}

pub(super) fn figure(
    report: &mut Reporter<'_>,
    settings: &Settings,
    systems: &[System],
    results: &Results,
) -> Result<(), BenchError> {
    let Some(directory) = &settings.tiers.plots else {
        return Ok(());
    };
    let queries = results.measured.iter().map(|query| query.query.name.to_owned());
    let series = labels(results).into_iter().enumerate().map(|(at, label)| {
        let medians = results.measured.iter().map(|query| query.times[at].median());
        (label, medians.chain([results.mean(at)]).collect())
    });
    let media: Vec<String> = systems.iter().fold(vec![], |mut media, system| {
        let medium = format!("{}: {}", system.variant.backing, system.medium());
        if !media.contains(&medium) {
            media.push(medium);
        }
        media
    });
    let columns = GroupedColumns {
        frame: Frame {
            title: "Star Schema Benchmark".into(),
            x: "query".into(),
            y: "time, ms".into(),
            foot: format!(
                "SF {}, {} rows of lineorder, {} threads, warm, median of {}, planning included; {}",
                results.variants[0].stored.scale_factor,
                rows(results, 0),
                settings.threads(),
                results.measured[0].times[0].len(),
                media.join("; "),
            ),
        },
        groups: queries.chain(["geomean".to_owned()]).collect(),
        series: series.collect(),
    };
    let path = plot::write(directory, "ssb", &columns)?;
    report.line(&format!("figure: {}", path.display()))
}
