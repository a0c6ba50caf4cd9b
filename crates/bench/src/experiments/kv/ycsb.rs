//! `ycsb`: operations of the core workloads of YCSB a second, and their latencies: of a store, and of trees
//! with and without a cache of hot keys.
//!
//! Trees have values of eight bytes, and each of their changes is durable by itself.

use halocline_ordered::{HotIndex, HotIndexOptions, OrderedIndex, TreeKind, create_tree};
use halocline_pool::Pool;
use halocline_workloads::{YcsbError, YcsbOutcome, YcsbRun, YcsbStore, YcsbWorkload};

use super::super::ordered::hot::{DRAM, TREES};
use super::super::ordered::medium::TreeMedium;
use super::{VALUES, create, medium_of, records};
use crate::kv::TreeTarget;
use crate::{Backing, BenchError, Chart, Reporter, Samples, Settings, TableView, config};

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
    title: "operations of YCSB a second",
    metrics: &["rate"],
    split: &["on", "value_bytes", "changes_of_a_commit", "threads"],
    x: "workload",
    x_label: "workload",
    y_label: "thousand operations a second",
    scale: 1e-3,
    ..Chart::COLUMNS
}];

/// Bytes of each value of a tree.
const TREE_VALUE: usize = 8;

/// A system of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum System {
    Store,
    Tree { kind: TreeKind, hot: bool },
}

impl System {
    fn all(settings: &Settings) -> Vec<System> {
        let kinds = if settings.trees.kinds.is_empty() {
            &TREES[..]
        } else {
            settings.trees.kinds()
        };
        let trees = kinds
            .iter()
            .flat_map(|kind| [false, true].map(|hot| System::Tree { kind: *kind, hot }));
        [System::Store].into_iter().chain(trees).collect()
    }

    fn name(self) -> String {
        match self {
            System::Store => "store".to_owned(),
            System::Tree { kind, hot: false } => kind.name().to_owned(),
            System::Tree { kind, hot: true } => format!("{kind}, hot keys cached"),
        }
    }
}

pub(in crate::experiments) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    report.set("seed", settings.seed);
    let records = records(settings, 1_000_000);
    report.set("records", records);
    for medium in settings.backings(&Backing::OF_TREES) {
        let place = TreeMedium::new(*medium, settings)?;
        place.announce(report)?;
        let cases = cases(settings.threads() as u64);
        for workload in YcsbWorkload::ALL {
            for (value_bytes, commit, threads) in &cases {
                let run = YcsbRun {
                    workload,
                    records,
                    operations: operations(records, *medium, *commit),
                    threads: *threads,
                    commit: *commit,
                    value_bytes: *value_bytes,
                    seed: settings.seed,
                };
                let mut systems = System::all(settings);
                if *value_bytes != TREE_VALUE {
                    systems.truncate(1);
                }
                measure(&systems, &place, &run, settings, report)?;
            }
        }
    }
    Ok(())
}

/// Returns sizes of values, operations of each commit, and threads.
fn cases(threads: u64) -> Vec<(usize, u64, u64)> {
    let one_thread = VALUES
        .into_iter()
        .flat_map(|value| [(value, 1, 1), (value, 1000, 1)]);
    let mut cases: Vec<_> = one_thread.chain([(TREE_VALUE, 1, 1)]).collect();
    if threads > 1 {
        cases.extend([(VALUES[0], 1, threads), (TREE_VALUE, 1, threads)]);
    }
    cases
}

/// Returns the number of operations in a run: fewer if each is committed to a disk, as such a commit takes as
/// long as thousands of operations elsewhere.
fn operations(records: u64, medium: Backing, commit: u64) -> u64 {
    match medium {
        Backing::PageCache if commit == 1 => records / 50,
        _ => records,
    }
}

/// Has the systems run one after the other, repeatedly.
fn measure(
    systems: &[System],
    place: &TreeMedium,
    run: &YcsbRun,
    settings: &Settings,
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    let mut samples: Vec<[Samples; 3]> = systems.iter().map(|_| <[Samples; 3]>::default()).collect();
    for _ in 0..settings.repetitions(3) {
        for (system, [rates, p50, p99]) in systems.iter().zip(&mut samples) {
            let outcome = outcome_of(*system, place, run)?;
            rates.push(outcome.rate);
            p50.push(outcome.percentile(50.0) as f64 / 1e9);
            p99.push(outcome.percentile(99.0) as f64 / 1e9);
        }
    }
    let config = config! {
        "workload": run.workload.letter().to_string(),
        "value_bytes": run.value_bytes,
        "changes_of_a_commit": run.commit,
        "threads": run.threads,
        "operations": run.operations,
    };
    for (system, [rates, p50, p99]) in systems.iter().zip(samples) {
        let name = system.name();
        report.samples(&name, &config, "rate", &rates, "1/s")?;
        report.samples(&name, &config, "latency_p50", &p50, "s")?;
        report.samples(&name, &config, "latency_p99", &p99, "s")?;
    }
    Ok(())
}

/// Runs the workload on a new system, which is removed.
fn outcome_of(system: System, place: &TreeMedium, run: &YcsbRun) -> Result<YcsbOutcome, BenchError> {
    let outcome = match system {
        System::Store => on(&create(place, "pool")?, run),
        System::Tree { kind, hot } => {
            let pool = Pool::create_on(medium_of(place, "pool")?)?;
            let mut tree: Box<dyn OrderedIndex> = create_tree(&pool, "tree", kind)?;
            if hot {
                let bytes = (run.records * 16) as f64 * DRAM;
                let options = HotIndexOptions::default().with_bytes((bytes as u64).max(1 << 16));
                let index = HotIndex::new(tree, options);
                tree = Box::new(index.map_err(|error| BenchError::Setup(error.to_string()))?);
            }
            on(&TreeTarget(tree), run)
        }
    };
    let path = place.path("pool");
    if path.exists() {
        std::fs::remove_file(path)?;
    }
    outcome
}

fn on<T: YcsbStore<Error = BenchError>>(target: &T, run: &YcsbRun) -> Result<YcsbOutcome, BenchError> {
    run.load(target, |_| Ok(()))?;
    run.run(target).map_err(|error| match error {
        YcsbError::Store(error) => error,
        other => BenchError::Setup(other.to_string()),
    })
}
