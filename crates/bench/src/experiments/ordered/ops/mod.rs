//! `tree-ops`: how many operations of each kind a tree does in a second, beside a B-tree in DRAM and, with
//! the feature `peers`, beside other stores.
//!
//! All systems of a medium are loaded first; then, round by round, each does the same operations with the
//! same keys, one system after the other, so that a slow moment of the machine hits all. They must agree on
//! what they find.

#[cfg(feature = "peers")]
mod peers;
mod store;
mod twins;

use std::sync::Arc;
use std::thread;

use halocline_emulator::Device;
use halocline_pool::Pool;
use halocline_workloads::{SplitMix64, Zipf};

use super::keys::Keys;
use super::medium::TreeMedium;
use super::{TreeVariant, ensure_same, rows};
use crate::{Backing, BenchError, Chart, Config, Reporter, Samples, Settings, TableView, config};

use store::Std;
pub(super) use store::{Store, value};
use twins::{Charge, Twins};

pub(in crate::experiments) const VIEWS: &[TableView] = &[
    TableView {
        title: "millions of operations a second",
        metrics: &["rate"],
        split: &["on", "threads"],
        rows: &["system"],
        columns: "operation",
        base: None,
    },
    TableView {
        title: "charge for a call of the emulation in ns, and the error of emulated DRAM",
        metrics: &["charge of a call", "emulated DRAM over DRAM"],
        split: &["on", "threads"],
        rows: &["system", "metric"],
        columns: "operation",
        base: None,
    },
];

pub(in crate::experiments) const CHARTS: &[Chart] = &[Chart {
    title: "rates of operations",
    metrics: &["rate"],
    split: &["on", "threads"],
    x: "operation",
    x_label: "operation",
    y_label: "Mop/s",
    ..Chart::COLUMNS
}];

/// The skew of YCSB.
const THETA: f64 = 0.99;

/// Entries of a scan.
const SCAN: usize = 100;

/// Measured operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Load,
    Insert,
    Get,
    GetZipf,
    Batch,
    BatchZipf,
    Update,
    Scan,
    Remove,
}

impl Operation {
    /// In the order of a round; loading comes before.
    const ROUND: [Self; 8] = [
        Self::Insert,
        Self::Get,
        Self::GetZipf,
        Self::Batch,
        Self::BatchZipf,
        Self::Update,
        Self::Scan,
        Self::Remove,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Insert => "insert",
            Self::Get => "get",
            Self::GetZipf => "get Zipf",
            Self::Batch => "get batch",
            Self::BatchZipf => "batch Zipf",
            Self::Update => "update",
            Self::Scan => "scan 100",
            Self::Remove => "remove",
        }
    }

    /// Returns the number of operations in a round for `rows` keys.
    fn count(self, rows: usize) -> usize {
        let part = match self {
            Self::Load => 1,
            Self::Insert | Self::Update | Self::Remove => 10,
            Self::Get | Self::GetZipf | Self::Batch | Self::BatchZipf => 4,
            Self::Scan => 50,
        };
        rows.div_ceil(part)
    }

    /// Runs the operation on `keys` and returns the sum of what was found, or 0 for a change.
    fn run(self, store: &dyn Store, keys: &[u64]) -> Result<u64, BenchError> {
        match self {
            Self::Load | Self::Insert => store.insert(keys).map(|()| 0),
            Self::Get | Self::GetZipf => store.get(keys),
            Self::Batch | Self::BatchZipf => store.get_batch(keys),
            Self::Update => store.update(keys).map(|()| 0),
            Self::Scan => store.scan(keys, SCAN),
            Self::Remove => store.remove(keys).map(|()| 0),
        }
    }
}

/// One of those that are compared.
struct Contender {
    name: String,
    config: Config,
    store: Box<dyn Store>,
    device: Option<Arc<Device>>,
    twins: Option<Twins>,
}

/// The rates of all contenders in one kind of operation, in millions a second.
struct Row {
    operation: Operation,
    threads: usize,
    rates: Vec<Samples>,
    /// Cost of the emulation's calls, by operation.
    charges: Vec<Charge>,
}

pub(in crate::experiments) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let rows = rows(settings, 10_000_000);
    report.set("rows", rows);
    report.set("seed", settings.seed);
    for medium in settings.backings(&Backing::OF_TREES) {
        let place = TreeMedium::new(*medium, settings)?;
        place.announce(report)?;
        let contenders = contenders(settings, &place)?;
        let measured = measure(settings, rows, &contenders)?;
        values(report, &contenders, &measured, rows)?;
    }
    Ok(())
}

fn contenders(settings: &Settings, place: &TreeMedium) -> Result<Vec<Contender>, BenchError> {
    let mut contenders = vec![Contender {
        name: "BTreeMap".to_owned(),
        config: config! {"system": "std::collections::BTreeMap in DRAM, behind a RwLock", "durable": "never"},
        store: Box::new(Std::default()),
        device: None,
        twins: None,
    }];
    for kind in settings.trees.kinds() {
        let system = TreeVariant::new(*kind);
        let (medium, device) = place.make(kind.name())?;
        let pool = Pool::create_on(medium)?;
        contenders.push(Contender {
            name: system.name(),
            config: config! {"tree": kind.name(), "moving": system.moving, "durable": "each operation"},
            store: Box::new(system.create(&pool, "tree")?),
            device,
            twins: Twins::new(system, place)?,
        });
    }
    #[cfg(feature = "peers")]
    contenders.extend(peers::open(place, rows(settings, 10_000_000))?);
    Ok(contenders)
}

fn measure(settings: &Settings, rows: usize, contenders: &[Contender]) -> Result<Vec<Row>, BenchError> {
    let keys = Keys::new(settings.seed);
    let mut rng = SplitMix64::stream(settings.seed, 7);
    let zipf = Zipf::new(rows as u64, THETA).map_err(|error| BenchError::Setup(error.to_string()))?;
    let mut measured = vec![row(Operation::Load, 1, contenders)];
    ask(&mut measured[0], contenders, &keys.range(0..rows))?;
    let most = settings.threads.unwrap_or(2);
    let threads = if most > 1 { vec![1, most] } else { vec![1] };
    let mut fresh = rows;
    for threads in threads {
        let mut of_round: Vec<Row> = Operation::ROUND
            .iter()
            .map(|operation| row(*operation, threads, contenders))
            .collect();
        for _ in 0..settings.repetitions(3) {
            let added = keys.range(fresh..fresh + Operation::Insert.count(rows));
            fresh += added.len();
            for row in &mut of_round {
                let count = row.operation.count(rows);
                match row.operation {
                    // What a round has added goes again, so that every round finds trees of the same size.
                    Operation::Insert | Operation::Remove => ask(row, contenders, &added)?,
                    Operation::GetZipf | Operation::BatchZipf => {
                        ask(row, contenders, &keys.drawn(rows, Some(&zipf), count, &mut rng))?;
                    }
                    _ => ask(row, contenders, &keys.drawn(rows, None, count, &mut rng))?,
                }
            }
        }
        measured.extend(of_round);
    }
    Ok(measured)
}

fn row(operation: Operation, threads: usize, contenders: &[Contender]) -> Row {
    Row {
        operation,
        threads,
        rates: vec![Samples::default(); contenders.len()],
        charges: vec![Charge::default(); contenders.len()],
    }
}

/// Has every contender do it once.
fn ask(row: &mut Row, contenders: &[Contender], keys: &[u64]) -> Result<(), BenchError> {
    let mut first = None;
    let results = row.rates.iter_mut().zip(&mut row.charges);
    for (contender, (rates, charge)) in contenders.iter().zip(results) {
        let is_batch = matches!(row.operation, Operation::Batch | Operation::BatchZipf);
        if is_batch && !contender.store.has_batches() {
            continue;
        }
        let (found, rate) = twins::timed(row.operation, row.threads, contender, keys, charge)?;
        rates.push(rate);
        let (name, expected) = first.get_or_insert((&contender.name, found));
        ensure_same(row.operation.name(), (name, *expected), (&contender.name, found))?;
    }
    Ok(())
}

/// Divides `keys` among threads and returns the sum of the results of `work`.
pub(super) fn share(
    threads: usize,
    keys: &[u64],
    work: impl Fn(&[u64]) -> Result<u64, BenchError> + Sync,
) -> Result<u64, BenchError> {
    if threads == 1 {
        return work(keys);
    }
    thread::scope(|scope| {
        let work = &work;
        let parts = keys.chunks(keys.len().div_ceil(threads).max(1));
        let running: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        let mut sum = 0_u64;
        for running in running {
            match running.join() {
                Ok(found) => sum = sum.wrapping_add(found?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(sum)
    })
}

fn values(
    report: &mut Reporter<'_>,
    contenders: &[Contender],
    measured: &[Row],
    rows: usize,
) -> Result<(), BenchError> {
    for row in measured {
        let results = row.rates.iter().zip(&row.charges);
        for (contender, (rates, charge)) in contenders.iter().zip(results) {
            if rates.is_empty() {
                continue;
            }
            let mut config = config! {
                ..contender.config.clone(), "operation": row.operation.name(),
                "operations": row.operation.count(rows), "threads": row.threads,
            };
            if let (Some(call_ns), Some(off)) = (charge.call_ns, charge.off()) {
                config.insert("call_ns".to_owned(), call_ns.into());
                config.insert("dram_emulated_over_dram".to_owned(), off.into());
            }
            report.samples(&contender.name, &config, "rate", rates, "Mop/s")?;
            if let (Some(call_ns), Some(off)) = (charge.call_ns, charge.off()) {
                report.value(&contender.name, &config, "charge of a call", call_ns, "ns")?;
                report.value(
                    &contender.name,
                    &config,
                    "emulated DRAM over DRAM",
                    off * 100.0,
                    "%",
                )?;
            }
        }
    }
    Ok(())
}
