//! Values, tables and figure of the measurements.

use halocline_elf::Rows;
use serde_json::json;

use super::{Question, Results, Table, Tier, paper};
use crate::experiments::tiers::{bytes, over, time};
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

pub(super) fn tables(report: &mut Reporter<'_>, results: &Results) -> Result<(), BenchError> {
    let (volatile, slow) = (&results.built.volatile, &results.built.slow);
    report.line(&format!("layout {}", results.layout))?;
    let mut lines = vec![vec![
        "build".to_owned(),
        "volatile".to_owned(),
        time(volatile.median()),
    ]];
    lines[0].extend(["", "", "", "", "", ""].map(str::to_owned));
    if !slow.is_empty() {
        lines.push(vec![
            String::new(),
            "slow-only".to_owned(),
            time(slow.median()),
            over(slow.median() / volatile.median()),
            format!("{:+.0} %", paper::BUILD),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
        ]);
    }
    for (question, measured) in &results.answers {
        for (at, (system, measured)) in results.systems.iter().zip(measured).enumerate() {
            let title = if at == 0 {
                question.to_string()
            } else {
                String::new()
            };
            lines.push(vec![
                title,
                system.name.clone(),
                time(measured.time.median()),
                over(results.ratio(*question, &system.name)),
                results
                    .paper(*question, &system.name)
                    .map_or(String::new(), |paper| format!("{paper:+.0} %")),
                plot::short(measured.lines),
                plot::short(measured.units),
                time(measured.waited),
                time(measured.overrun),
            ]);
        }
        if let (Question::Exact, Some(published)) = (question, &results.published_exact) {
            let ratio = published.time.median() / results.seconds(*question, "volatile");
            lines.push(vec![
                String::new(),
                "published in DRAM".to_owned(),
                time(published.time.median()),
                over(ratio),
                String::new(),
                "0".to_owned(),
                "0".to_owned(),
                time(published.waited),
                time(published.overrun),
            ]);
        }
    }
    report.table(
        &[
            "",
            "placement",
            "time",
            "over volatile",
            "paper",
            "lines",
            "units",
            "waited",
            "overrun",
        ],
        lines,
    )?;
    report.line(
        "lines and units of the device a query; waited: for the device, part of the time; overrun: what the emulation took itself, not in the time",
    )?;
    let calls = results.answers.iter().zip(&results.calls);
    let calls = calls
        .map(|((question, _), call)| format!("{question} {:.1} ({:+.1} %)", call.call_ns, call.off * 100.0));
    report.line(&format!(
        "of it, what a call costs its caller, in ns, and how far a device like this host's DRAM is then off: {}",
        calls.collect::<Vec<_>>().join(", ")
    ))?;
    memory(report, results)?;
    if let Some(reopened) = &results.reopened {
        report.line(&format!(
            "reopened: hybrid in {}, slow-only in {}; rebuilt in {}",
            time(reopened.hybrid.median()),
            time(reopened.slow_only.median()),
            time(volatile.median()),
        ))?;
    }
    Ok(())
}

fn memory(report: &mut Reporter<'_>, results: &Results) -> Result<(), BenchError> {
    let size = results.built.bytes.len() as f64;
    let mut lines = vec![];
    for system in results.systems.iter().skip(1) {
        let placed = system.placed();
        lines.push(vec![
            system.name.clone(),
            system
                .budget
                .map_or("-".to_owned(), |budget| bytes(budget as f64)),
            bytes(placed.dram_bytes as f64),
            system.counted.map_or("-".to_owned(), bytes),
            format!("{:.2} %", placed.dram_bytes as f64 / size * 100.0),
            placed.fallback.unwrap_or_default(),
        ]);
    }
    report.line(&format!("DRAM beside an index of {}", bytes(size)))?;
    report.table(
        &[
            "placement",
            "budget",
            "copies",
            "taken, measured",
            "of the index",
            "",
        ],
        lines,
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
