//! The measured values of one layout.

use super::PlacementResults;
use crate::experiments::tiers::{IN_EMULATED_DRAM, IN_HOST_DRAM, IndexMemory};
use crate::{BenchError, Reporter, Samples, Settings, config};

/// The metrics of times over a baseline, with the names of the baselines.
const OVER: [(&str, &str); 3] = [
    ("over volatile", "volatile"),
    ("over emulated DRAM", IN_EMULATED_DRAM),
    ("over host DRAM", IN_HOST_DRAM),
];

/// Reports all values.
pub(super) fn report(
    report: &mut Reporter<'_>,
    settings: &Settings,
    results: &PlacementResults,
) -> Result<(), BenchError> {
    build_values(report, settings, results)?;
    for ((question, measured), call) in results.answers.iter().zip(&results.calls) {
        for (at, (system, measured)) in results.systems.iter().zip(measured).enumerate() {
            let config = config! {
                ..system.config(), "question": question.to_string(), "threads": 1,
                "queries": measured.queries, "charged_ns_per_call": call.call_ns,
                "dram_emulated_over_dram": call.off,
            };
            let mut value = |metric: &str, value: f64, unit: &str| {
                report.value(&system.name, &config, metric, value, unit)
            };
            value("overrun", measured.overrun, "s/query")?;
            value("waited", measured.waited, "s/query")?;
            value("calls", measured.calls, "1/query")?;
            value("lines", measured.lines, "1/query")?;
            value("units", measured.units, "1/query")?;
            value("DRAM lines", measured.dram_lines, "1/query")?;
            value("rows found", measured.found, "1/query")?;
            for (metric, base) in OVER {
                let ratio = results.ratio(*question, &system.name, base);
                value(metric, (ratio - 1.0) * 100.0, "%")?;
            }
            let of_copies = results.of_copies(*question, at);
            if of_copies > 0.0 {
                value("copies, estimated", of_copies, "s/query")?;
            }
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
    let is_emulated = results.systems[0].memory() == IndexMemory::EmulatedDram;
    if let Some(published) = &results.published_exact {
        let system = if is_emulated {
            "published in emulated DRAM"
        } else {
            "published in DRAM"
        };
        let memory = results.systems[0].config().remove("memory");
        let config = config! {
            "layout": "published", "placement": "volatile", "question": "exact", "threads": 1,
            "queries": published.queries, "memory": memory,
        };
        let metric = if results.real {
            "time"
        } else {
            "time of the device"
        };
        report.samples(system, &config, metric, &published.time, "s/query")?;
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

fn build_values(
    report: &mut Reporter<'_>,
    settings: &Settings,
    results: &PlacementResults,
) -> Result<(), BenchError> {
    let config = config! {"layout": results.layout, "threads": settings.threads()};
    let mut samples = |system: &str, metric: &str, samples: &Samples| {
        if samples.is_empty() {
            Ok(())
        } else {
            report.samples(system, &config, metric, samples, "s")
        }
    };
    // A build into DRAM is never emulated.
    let in_dram = match results.systems[0].memory() {
        IndexMemory::EmulatedDram => IN_HOST_DRAM,
        IndexMemory::HostDram | IndexMemory::SlowTier => &results.systems[0].name,
    };
    samples(in_dram, "build", &results.built.volatile)?;
    samples("slow-only", "build", &results.built.slow)?;
    if let Some(reopened) = &results.reopened {
        samples("hybrid", "reopen", &reopened.hybrid)?;
        samples("slow-only", "reopen", &reopened.slow_only)?;
    }
    report.value(
        &results.systems[0].name,
        &config,
        "size",
        results.built.bytes.len() as f64,
        "bytes",
    )
}
