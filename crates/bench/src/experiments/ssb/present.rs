//! The measured values, and their figure.

use super::Results;
use super::system::System;
use crate::plot::{self, Frame, GroupedColumns};
use crate::{BenchError, Reporter, Settings};

pub(super) fn values(
    report: &mut Reporter<'_>,
    systems: &[System],
    results: &Results,
) -> Result<(), BenchError> {
    let labels = labels(results);
    for query in &results.measured {
        for (at, system) in systems.iter().enumerate() {
            let mut config = system.config();
            config.insert("variant".to_owned(), labels[at].as_str().into());
            config.insert("query".to_owned(), query.query.name.into());
            config.insert("result_rows".to_owned(), query.rows[at].into());
            config.insert("planned_as_star_join".to_owned(), query.star[at].into());
            config.insert("rows".to_owned(), rows(results, at).into());
            report.samples(system.variant.system(), &config, "time", &query.times[at], "ms")?;
        }
    }
    for (at, system) in systems.iter().enumerate() {
        let mut config = system.config();
        config.insert("variant".to_owned(), labels[at].as_str().into());
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
        config.insert("stored".to_owned(), sizes.stored.to_string().into());
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
        config.insert("stored".to_owned(), peak.stored.to_string().into());
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
