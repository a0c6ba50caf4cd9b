//! `tpch-tiers`: the 22 queries of TPC-H as SQL through a session, planning included and the result fetched,
//! with all tables on a slow tier and with all of them in DRAM.
//!
//! Three copies of one pool are asked each query in turn, and must answer alike: in this host's DRAM, on DRAM
//! that is emulated, and on the emulated slow tier. The last two have the same modelled cache and clock and
//! differ in the figures of the device alone, so their ratio is what the slow tier costs; the first one has
//! the caches of the host, and shows what the emulation itself changes. No byte of a table is copied to DRAM
//! ahead of the queries. What a query allocates (hash tables, groups, batches of values), and what the open
//! database holds (headers, dictionaries), is in this host's DRAM on all three, and charged to no medium.

mod data;
mod medium;

use halocline_media::LINE;
use halocline_workloads::tpch_queries;

use super::sql::{NamedSession, QueryTimes, ask_in_turn};
use crate::timing::geometric_mean;
use crate::{BenchError, Chart, Reporter, Settings, TableView, config};

use data::TpchPool;
use medium::{EMULATED_DRAM, HOST_DRAM, TpchMedium};

/// Options of the experiment.
pub(super) const OPTIONS: &[&str] = &[
    "--sf",
    "--threads",
    "--repeat",
    "--dir",
    "--medium",
    "--cache-model",
    "--plot",
];

pub(super) const VIEWS: &[TableView] = &[
    TableView {
        title: "time of a query by medium of the tables",
        metrics: &["time", "geomean"],
        split: &["scale_factor"],
        rows: &["query"],
        columns: "system",
        base: Some(EMULATED_DRAM),
    },
    TableView {
        title: "times over DRAM, geometric mean of all queries; bytes of the tables, the part of them in DRAM, bytes that the database holds in DRAM for them, and bytes of the lines read of the medium",
        metrics: &[
            "over emulated DRAM",
            "over host DRAM",
            "tables",
            "tables in DRAM",
            "held in DRAM",
            "read of the medium",
        ],
        split: &["scale_factor"],
        rows: &["system"],
        columns: "metric",
        base: None,
    },
    TableView {
        title: "import, and DRAM of a process with all queries on the page cache",
        metrics: &["import", "dram_peak", "dram_opened"],
        split: &["scale_factor"],
        rows: &["system"],
        columns: "metric",
        base: None,
    },
];

pub(super) const CHARTS: &[Chart] = &[Chart {
    title: "time by query",
    metrics: &["time", "geomean"],
    split: &["scale_factor"],
    x: "query",
    x_label: "query",
    y_label: "time, ms",
    ..Chart::COLUMNS
}];

/// Rounds unless told otherwise.
const ROUNDS: usize = 3;

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let scale_factor = settings
        .scale_factor
        .unwrap_or(if settings.quick { 0.01 } else { 1.0 });
    report.set("scale_factor", scale_factor);
    report.set("threads", settings.threads());
    // Before anything is generated: the medium may be refused.
    let specs = medium::specs(settings)?;
    let pool = TpchPool::prepare(scale_factor, settings, report)?;
    let mut media = vec![];
    for spec in specs {
        media.push(TpchMedium::open(&pool, spec, settings, report)?);
    }
    let sessions: Vec<NamedSession<'_>> = media
        .iter()
        .map(|medium| NamedSession {
            name: medium.name.clone(),
            session: &medium.session,
            scale_factor,
        })
        .collect();
    let rounds = settings.repetitions(ROUNDS);
    let mut measured = vec![];
    for query in tpch_queries(scale_factor) {
        let name = query.number.to_string();
        let asked = ask_in_turn(&name, &query.sql, &sessions, rounds)?;
        measured.push((name, asked));
    }
    query_values(&media, &measured, report)?;
    medium_values(&media, &measured, report)?;
    pool.values(scale_factor, settings, report)
}

/// Reports the times of the queries.
fn query_values(
    media: &[TpchMedium],
    measured: &[(String, QueryTimes)],
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    for (query, asked) in measured {
        for (at, medium) in media.iter().enumerate() {
            let config = config! {
                ..medium.config(), "query": query.as_str(), "result_rows": asked.rows[at],
            };
            report.samples(&medium.name, &config, "time", &asked.times[at], "ms")?;
            if medium.is_emulated() {
                let bytes = asked.lines[at] * LINE as f64;
                report.value(&medium.name, &config, "read", bytes, "bytes")?;
            }
        }
    }
    for (at, medium) in media.iter().enumerate() {
        let medians: Vec<f64> = measured
            .iter()
            .map(|(_, asked)| asked.times[at].median())
            .collect();
        let config = config! {..medium.config(), "query": "geomean"};
        report.value(&medium.name, &config, "geomean", geometric_mean(&medians), "ms")?;
    }
    Ok(())
}

/// Reports the geometric means of the ratios, and where the tables are.
fn medium_values(
    media: &[TpchMedium],
    measured: &[(String, QueryTimes)],
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    for (at, medium) in media.iter().enumerate() {
        let config = medium.config();
        for (metric, base) in [
            ("over emulated DRAM", EMULATED_DRAM),
            ("over host DRAM", HOST_DRAM),
        ] {
            let comparable = media
                .iter()
                .position(|other| other.name == base && other.is_comparable(medium));
            if let Some(base) = comparable {
                report.value(&medium.name, &config, metric, ratio(measured, at, base), "x")?;
            }
        }
        let share = medium.in_dram as f64 / (medium.tables as f64).max(1.0) * 100.0;
        report.value(&medium.name, &config, "tables", medium.tables as f64, "bytes")?;
        report.value(&medium.name, &config, "tables in DRAM", share, "percent")?;
        let held = medium.held()? as f64;
        report.value(&medium.name, &config, "held in DRAM", held, "bytes")?;
        if medium.is_emulated() {
            let lines: f64 = measured.iter().map(|(_, asked)| asked.lines[at]).sum();
            report.value(
                &medium.name,
                &config,
                "read of the medium",
                lines * LINE as f64,
                "bytes",
            )?;
        }
    }
    Ok(())
}

/// Returns the geometric mean of the ratios of a medium's median times to those of a base. Queries that take
/// no time on a virtual clock have none.
fn ratio(measured: &[(String, QueryTimes)], at: usize, base: usize) -> f64 {
    let ratios: Vec<f64> = measured
        .iter()
        .map(|(_, asked)| asked.times[at].median() / asked.times[base].median())
        .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        .collect();
    geometric_mean(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Samples;

    #[test]
    fn ratios_are_those_of_the_queries_that_take_time() {
        let asked = |slow: f64, dram: f64| {
            let times = [slow, dram].map(|time| Samples::new(vec![time])).to_vec();
            let query = QueryTimes {
                times,
                rows: vec![1; 2],
                lines: vec![0.0; 2],
            };
            (String::new(), query)
        };
        let measured = [asked(4.0, 1.0), asked(9.0, 9.0), asked(0.0, 0.0), asked(1.0, 0.0)];
        assert_eq!(ratio(&measured, 0, 1), 2.0);
        assert_eq!(ratio(&measured, 1, 1), 1.0);
        assert!(ratio(&measured[2..], 0, 1).is_nan());
    }
}
