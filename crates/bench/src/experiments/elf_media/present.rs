//! The measured values, and figure 3 of the paper.

use halocline_elf::Rows;
use serde_json::json;

use super::{Results, Table, Tier};
use crate::experiments::tiers::bytes;
use crate::plot::{self, Frame, GroupedColumns};
use crate::{BenchError, Config, Reporter, Samples, Settings, config};

pub(super) fn values(
    report: &mut Reporter<'_>,
    settings: &Settings,
    results: &Results,
) -> Result<(), BenchError> {
    build_values(report, settings, results)?;
    for ((question, measured), call) in results.answers.iter().zip(&results.calls) {
        for (system, measured) in results.systems.iter().zip(measured) {
            let mut config = system.config();
            config.insert("question".to_owned(), json!(question.to_string()));
            config.insert("threads".to_owned(), json!(1));
            config.insert("queries".to_owned(), json!(measured.queries));
            config.insert("charged_ns_per_call".to_owned(), json!(call.call_ns));
            config.insert("dram_emulated_over_dram".to_owned(), json!(call.off));
            let mut value = |metric: &str, value: f64, unit: &str| match value.is_finite() {
                true => report.value(&system.name, &config, metric, value, unit),
                false => Ok(()),
            };
            value("overrun", measured.overrun, "s/query")?;
            value("waited", measured.waited, "s/query")?;
            value("calls", measured.calls, "1/query")?;
            value("lines", measured.lines, "1/query")?;
            value("units", measured.units, "1/query")?;
            value("rows found", measured.found, "1/query")?;
            let ratio = results.ratio(*question, &system.name);
            value("over volatile", (ratio - 1.0) * 100.0, "%")?;
            if let Some(paper) = results.paper(*question, &system.name) {
                value("over volatile, paper", paper, "%")?;
            }
            let metric = if results.real {
                "time"
            } else {
                "time of the device"
            };
            report.samples(&system.name, &config, metric, &measured.time, "s/query")?;
        }
    }
    if let Some(published) = &results.published_exact {
        let config = config! {
            "layout": "published", "placement": "volatile", "question": "exact", "threads": 1,
            "queries": published.queries,
        };
        report.samples("published in DRAM", &config, "time", &published.time, "s/query")?;
    }
    for system in &results.systems {
        let config = system.config();
        if let Some(counted) = system.counted {
            report.value(&system.name, &config, "DRAM taken", counted, "bytes")?;
        }
        report.value(
            &system.name,
            &config,
            "DRAM of copies",
            system.placed().dram_bytes as f64,
            "bytes",
        )?;
    }
    Ok(())
}

fn build_values(report: &mut Reporter<'_>, settings: &Settings, results: &Results) -> Result<(), BenchError> {
    let config = config! {"layout": results.layout, "threads": settings.threads()};
    let mut samples = |system: &str, metric: &str, samples: &Samples| match samples.is_empty() {
        true => Ok(()),
        false => report.samples(system, &config, metric, samples, "s"),
    };
    samples("volatile", "build", &results.built.volatile)?;
    samples("slow-only", "build", &results.built.slow)?;
    if let Some(reopened) = &results.reopened {
        samples("hybrid", "reopen", &reopened.hybrid)?;
        samples("slow-only", "reopen", &reopened.slow_only)?;
    }
    report.value(
        "volatile",
        &Config::new(),
        "size",
        results.built.bytes.len() as f64,
        "bytes",
    )
}

/// Figure 3: times in proportion to that of the index in DRAM; lines of the device where there is no real
/// time.
pub(super) fn figure(
    report: &mut Reporter<'_>,
    settings: &Settings,
    table: &Table,
    tier: &Tier,
    results: &Results,
    theta: f64,
) -> Result<(), BenchError> {
    let Some(directory) = &settings.tiers.plots else {
        return Ok(());
    };
    let (layout, kind) = (results.layout, table.kind());
    let build = results.built.slow.median() / results.built.volatile.median();
    let groups = results.answers.iter().map(|(question, _)| question.to_string());
    let mut groups: Vec<String> = groups.collect();
    let mut series: Vec<(String, Vec<f64>)> = vec![];
    for (at, system) in results.systems.iter().enumerate() {
        let values = results.answers.iter().map(|(question, measured)| {
            if results.real {
                results.ratio(*question, &system.name)
            } else {
                measured[at].lines
            }
        });
        series.push((system.name.clone(), values.collect()));
    }
    if results.real {
        groups.insert(0, "build".to_owned());
        for (at, (_, values)) in series.iter_mut().enumerate() {
            values.insert(0, [1.0, build].get(at).copied().unwrap_or(f64::NAN));
        }
    }
    let y = if results.real {
        "time, volatile = 1"
    } else {
        "lines of the device a query"
    };
    let rounds = settings.repetitions(5);
    let columns = GroupedColumns {
        frame: Frame {
            title: format!("Placements of an Elf, layout {layout}, on {kind} data"),
            x: "query type".to_owned(),
            y: y.to_owned(),
            foot: format!(
                "{} rows x {} dimensions, index {}, slow tier {}, queries with Zipf {theta}, seed {}, one thread, \
                 median of {rounds} rounds in turn",
                table.rows(),
                table.dims(),
                bytes(results.built.bytes.len() as f64),
                tier.name(),
                settings.seed
            ),
        },
        groups,
        series,
    };
    let path = plot::write(directory, &format!("elf-media-{kind}-{layout}"), &columns)?;
    report.line(&format!("figure: {}", path.display()))
}
