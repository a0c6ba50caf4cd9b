//! `elf-layout`: the layouts of the Elf against each other, on a uniform table in DRAM or on an emulated
//! medium.
//!
//! Queries run on one thread; query points are rows drawn with Zipf skew. The builds are those one would
//! compare: `packed` on all threads, `published` on one, both in DRAM.

use std::time::Instant;

use halocline_elf::{Layout, Rows};

use super::tiers::{self, CARDINALITY, CodeTable, DIMS, IndexSystem, QuerySource, QueryType, THETA, Tier};
use crate::medium::announce;
use crate::{BenchError, Config, Reporter, Samples, Settings, SlowTierMedium, TableView, config};

const QUESTIONS: [QueryType; 5] = [
    QueryType::Exact,
    QueryType::ExactBatch,
    QueryType::Range(2.0),
    QueryType::Partial(2.0),
    QueryType::OneAndTwo(2.0),
];
const LAYOUTS: [Layout; 2] = [Layout::Packed, Layout::Published];

pub(super) const VIEWS: &[TableView] = &[
    TableView {
        title: "build and size by layout",
        metrics: &["build", "size"],
        split: &["medium"],
        rows: &["metric"],
        columns: "system",
        base: Some("published"),
    },
    TableView {
        title: "queries a second by layout",
        metrics: &["rate", "rate of the device"],
        split: &["medium"],
        rows: &["question"],
        columns: "system",
        base: Some("published"),
    },
    TableView {
        title: "lines and units of the device a query",
        metrics: &["lines", "units"],
        split: &["medium"],
        rows: &["question", "metric"],
        columns: "system",
        base: None,
    },
];

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let mut settings = settings.clone();
    settings.tiers.medium.get_or_insert(SlowTierMedium::Dram);
    let rows = settings
        .rows
        .unwrap_or(if settings.quick { 20_000 } else { 10_000_000 });
    let tier = Tier::new(&settings)?;
    let table = CodeTable::uniform(rows, DIMS, CARDINALITY, settings.seed);
    report.set("theta", THETA);
    report.set("rows", rows);
    report.set("dims", DIMS);
    report.set("cardinality", CARDINALITY);
    report.set("seed", settings.seed);
    report.set("medium", "DRAM");
    report.line(&format!(
        "uniform table, {rows} rows x {DIMS} dimensions x {CARDINALITY} values, seed {}",
        settings.seed
    ))?;
    let systems = build(&settings, &table, &tier, report)?;
    announce(tier.device()?.as_ref(), report)?;
    report.set("medium", tier.name());
    if table.rows() == 0 {
        return Ok(());
    }
    let both: Vec<&IndexSystem> = systems.iter().collect();
    let metric = if tier.is_real() {
        "rate"
    } else {
        "rate of the device"
    };
    for (stream, question) in (1..).zip(QUESTIONS) {
        let mut source = QuerySource::new(&table, THETA, settings.seed, stream)?;
        let queries = source.draw(question, question.supply(settings.quick));
        let least = if settings.quick { 0.005 } else { 0.5 };
        let measured = tiers::compare(&both, &queries, settings.repetitions(5), least)?;
        for (system, measured) in systems.iter().zip(&measured) {
            let config =
                config! {"threads": 1, "queries": measured.queries, "question": question.to_string()};
            report.samples(&system.name, &config, metric, &measured.time.inverse(), "1/s")?;
            if tier.emulated().is_some() {
                report.value(&system.name, &config, "lines", measured.lines, "1/query")?;
                report.value(&system.name, &config, "units", measured.units, "1/query")?;
            }
        }
    }
    Ok(())
}

/// Builds both layouts several times, in turn, and returns the indexes on the tier.
fn build(
    settings: &Settings,
    table: &CodeTable,
    tier: &Tier,
    report: &mut Reporter<'_>,
) -> Result<Vec<IndexSystem>, BenchError> {
    let threads = LAYOUTS.map(|layout| match layout {
        Layout::Packed => settings.threads(),
        Layout::Published => 1,
    });
    let mut seconds = [Samples::default(), Samples::default()];
    let mut systems = vec![];
    let last = settings.repetitions(3);
    // The first one warms up.
    for round in 0..=last {
        for (at, layout) in LAYOUTS.into_iter().enumerate() {
            let start = Instant::now();
            let built = tiers::build(table, layout, threads[at], None, 0)?;
            if round > 0 {
                seconds[at].push(start.elapsed().as_secs_f64());
            }
            if round == last {
                systems.push(tier.open(&built.bytes)?.named(&layout.to_string()));
            }
        }
    }
    for (system, (seconds, threads)) in systems.iter().zip(seconds.iter().zip(threads)) {
        report.samples(&system.name, &config! {"threads": threads}, "build", seconds, "s")?;
        let size = system.index.size() as f64;
        report.value(&system.name, &Config::new(), "size", size, "bytes")?;
    }
    Ok(systems)
}
