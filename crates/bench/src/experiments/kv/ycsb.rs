//! `ycsb`: operations of the core workloads of YCSB a second, and their latencies.

use halocline_workloads::{YcsbError, YcsbRun, YcsbWorkload};

use super::super::ordered::medium::TreeMedium;
use super::{VALUES, create, records};
use crate::{Backing, BenchError, Chart, ChartKind, Reporter, Samples, Settings, TableView, config};

pub(in crate::experiments) const VIEWS: &[TableView] = &[
    TableView {
        title: "operations a second",
        metrics: &["rate"],
        split: &["on", "value_bytes", "changes_of_a_commit", "threads"],
        rows: &["workload"],
        columns: "system",
        base: None,
    },
    TableView {
        title: "99th percentile of the latencies",
        metrics: &["latency_p99"],
        split: &["on", "value_bytes", "changes_of_a_commit", "threads"],
        rows: &["workload"],
        columns: "system",
        base: None,
    },
];

pub(in crate::experiments) const CHARTS: &[Chart] = &[Chart {
    name: "",
    title: "operations of YCSB a second",
    kind: ChartKind::Columns,
    metrics: &["rate"],
    split: &["on", "value_bytes", "changes_of_a_commit", "threads"],
    x: "workload",
    series: "system",
    base: None,
    x_label: "workload",
    y_label: "thousand operations a second",
    scale: 1e-3,
}];

pub(in crate::experiments) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    report.set("seed", settings.seed);
    let records = records(settings, 1_000_000);
    report.set("records", records);
    for medium in settings.backings(&Backing::OF_TREES) {
        let place = TreeMedium::new(*medium, settings)?;
        place.announce(report)?;
        for workload in YcsbWorkload::ALL {
            for value_bytes in VALUES {
                for commit in [1, 1000] {
                    let mut threads = vec![1, settings.threads() as u64];
                    threads.dedup();
                    for threads in threads {
                        let run = YcsbRun {
                            workload,
                            records,
                            operations: operations(records, *medium, commit),
                            threads,
                            commit,
                            value_bytes,
                            seed: settings.seed,
                        };
                        measure(&place, &run, settings, report)?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// A commit to a disk takes as long as thousands of operations elsewhere.
fn operations(records: u64, medium: Backing, commit: u64) -> u64 {
    match medium {
        Backing::PageCache if commit == 1 => records / 50,
        _ => records,
    }
}

fn measure(
    place: &TreeMedium,
    run: &YcsbRun,
    settings: &Settings,
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    let (mut rates, mut p50, mut p99) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..settings.repetitions(3) {
        let target = create(place, "store")?;
        run.load(&target, |_| Ok(()))?;
        let outcome = run.run(&target).map_err(|error| match error {
            YcsbError::Store(error) => error,
            other => BenchError::Setup(other.to_string()),
        })?;
        rates.push(outcome.rate);
        p50.push(outcome.percentile(50.0) as f64 / 1e9);
        p99.push(outcome.percentile(99.0) as f64 / 1e9);
        drop(target);
        let _ = std::fs::remove_file(place.path("store"));
    }
    let config = config! {
        "workload": run.workload.letter().to_string(),
        "value_bytes": run.value_bytes,
        "changes_of_a_commit": run.commit,
        "threads": run.threads,
        "operations": run.operations,
    };
    report.samples("store", &config, "rate", &rates, "1/s")?;
    report.samples("store", &config, "latency_p50", &p50, "s")?;
    report.samples("store", &config, "latency_p99", &p99, "s")
}
