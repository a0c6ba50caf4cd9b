//! `tree-writes`: what changes of a tree cost, in lines flushed and fences waited for. Both are the same on
//! every machine.
//!
//! Each tree is loaded by inserts of random keys, then kept at its size: a random entry is removed and a new
//! one inserted, half as often as it has entries so that its nodes become as full as they stay, then as often
//! as is counted.

use std::sync::Arc;

use halocline_media::{Counting, Dram, FlushCounts};
use halocline_pool::Pool;
use halocline_workloads::SplitMix64;

use super::keys::{Keys, Sum};
use super::{TreeVariant, insist, rows};
use crate::{BenchError, Chart, Reporter, Settings, TableView, config};

pub(in crate::experiments) const VIEWS: &[TableView] = &[
    TableView {
        title: "lines flushed by an operation",
        metrics: &["lines"],
        split: &[],
        rows: &["system"],
        columns: "operation",
        base: None,
    },
    TableView {
        title: "fences waited for by an operation",
        metrics: &["fences"],
        split: &[],
        rows: &["system"],
        columns: "operation",
        base: None,
    },
    TableView {
        title: "bytes of the pool for an entry",
        metrics: &["size"],
        split: &[],
        rows: &["system"],
        columns: "metric",
        base: None,
    },
];

pub(in crate::experiments) const CHARTS: &[Chart] = &[
    Chart {
        name: "lines",
        title: "lines flushed",
        metrics: &["lines"],
        x: "operation",
        x_label: "operation",
        y_label: "lines/operation",
        ..Chart::COLUMNS
    },
    Chart {
        name: "fences",
        title: "fences waited for",
        metrics: &["fences"],
        x: "operation",
        x_label: "operation",
        y_label: "fences/operation",
        ..Chart::COLUMNS
    },
];

/// Bytes of a new medium; it grows.
const BYTES: u64 = 1 << 20;

/// Average cost of an operation.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    lines: f64,
    fences: f64,
}

/// Counters of one tree.
struct Counted {
    system: TreeVariant,
    /// Inserts into a tree that grows from nothing, splits and chunks of the pool included.
    insert: Cost,
    /// The same at constant size.
    stable: Cost,
    remove: Cost,
    update: Cost,
    /// Bytes of the pool for an entry, after loading.
    bytes: f64,
}

pub(in crate::experiments) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let rows = rows(settings, 10_000_000);
    report.set("rows", rows);
    report.set("seed", settings.seed);
    report.set("medium", "counting over DRAM");
    report.set("threads", 1);
    let mut systems = vec![];
    for kind in settings.trees.kinds() {
        let system = TreeVariant::new(*kind);
        systems.push(system);
        systems.extend(system.still());
    }
    let mut counted = vec![];
    for system in systems {
        counted.push(count(system, rows, settings.seed)?);
    }
    values(report, &counted)
}

/// Counts the operations on one tree.
fn count(system: TreeVariant, rows: usize, seed: u64) -> Result<Counted, BenchError> {
    let medium = Arc::new(Counting::new(Dram::new(BYTES)?));
    let pool = Pool::create_on(Arc::clone(&medium))?;
    let tree = system.create(&pool, "tree")?;
    let keys = Keys::new(seed);
    let mut rng = SplitMix64::new(seed);

    let before = medium.counts();
    for number in 0..rows as u64 {
        tree.insert(keys.key(number), number)?;
    }
    let insert = Cost::per_operation(medium.counts() - before, rows);
    let bytes = tree.stats().slow_bytes as f64 / rows as f64;

    let mut live: Vec<u64> = (0..rows as u64).collect();
    let mut fresh = rows as u64;
    let mut replace = |count: usize| -> Result<(FlushCounts, FlushCounts), BenchError> {
        let (mut removals, mut inserts) = (FlushCounts::default(), FlushCounts::default());
        for _ in 0..count {
            let victim = rng.below(live.len() as u64) as usize;
            let before = medium.counts();
            tree.remove(keys.key(live[victim]))?;
            let between = medium.counts();
            tree.insert(keys.key(fresh), fresh)?;
            removals = sum(removals, between - before);
            inserts = sum(inserts, medium.counts() - between);
            live[victim] = fresh;
            fresh += 1;
        }
        Ok((removals, inserts))
    };
    let steps = rows.div_ceil(5);
    replace(rows / 2)?;
    let (removals, inserts) = replace(steps)?;

    // An update changes the value to one that is its own inverse, and back.
    let mut expected = Sum::default();
    let before = medium.counts();
    for number in &live[..steps] {
        tree.update(keys.key(*number), !number)?;
    }
    let update = Cost::per_operation(medium.counts() - before, steps);
    for (at, number) in live.iter().enumerate() {
        expected.add(keys.key(*number), if at < steps { !number } else { *number });
    }
    insist(&system.name(), &*tree, expected)?;
    Ok(Counted {
        system,
        insert,
        stable: Cost::per_operation(inserts, steps),
        remove: Cost::per_operation(removals, steps),
        update,
        bytes,
    })
}

fn sum(left: FlushCounts, right: FlushCounts) -> FlushCounts {
    FlushCounts {
        lines: left.lines + right.lines,
        fences: left.fences + right.fences,
    }
}

impl Cost {
    fn per_operation(counts: FlushCounts, operations: usize) -> Self {
        Self {
            lines: counts.lines as f64 / operations as f64,
            fences: counts.fences as f64 / operations as f64,
        }
    }
}

impl Counted {
    /// Returns the costs of the operations, each with its name.
    fn costs(&self) -> [(&'static str, Cost); 4] {
        [
            ("insert", self.insert),
            ("insert, stable", self.stable),
            ("remove, stable", self.remove),
            ("update", self.update),
        ]
    }
}

fn values(report: &mut Reporter<'_>, counted: &[Counted]) -> Result<(), BenchError> {
    for tree in counted {
        let name = tree.system.name();
        for (operation, cost) in tree.costs() {
            let config = config! {
                "tree": tree.system.kind.name(), "moving": tree.system.moving, "operation": operation,
            };
            report.value(&name, &config, "lines", cost.lines, "1/operation")?;
            report.value(&name, &config, "fences", cost.fences, "1/operation")?;
        }
        let config = config! {"tree": tree.system.kind.name(), "moving": tree.system.moving};
        report.value(&name, &config, "size", tree.bytes, "bytes/entry")?;
    }
    Ok(())
}
