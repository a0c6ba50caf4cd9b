//! `elf-parallel`: range selections on one thread, on all by subtree, and as their estimate says, by the
//! cardinality of the dimensions and the size of the ranges (figure 8 of the selective-caching paper).

use std::sync::Arc;

use halocline_elf::{Layout, Workers};
use rayon::ThreadPoolBuilder;

use super::tiers::{self, CodeTable, IndexSystem, QuerySource, QueryType, SelectionMode, THETA, Tier};
use crate::{BenchError, Chart, ChartKind, DataKind, Reporter, Settings, TableView, config};

const DIMS: usize = 10;
/// Values of each dimension.
const CARDINALITIES: [u32; 4] = [10, 32, 100, 316];
/// Sizes of the ranges, percent of the domain.
const PERCENTS: [f64; 7] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
pub(super) const VIEWS: &[TableView] = &[TableView {
    title: "time of a range selection, sequential, parallel, and by the estimate",
    metrics: &["time", "time of the device"],
    split: &["data", "layout"],
    rows: &["cardinality", "percent"],
    columns: "system",
    base: Some("sequential"),
}];

pub(super) const CHARTS: &[Chart] = &[Chart {
    title: "time of a range selection",
    kind: ChartKind::Maps("cardinality"),
    metrics: &["time", "time of the device"],
    split: &["data", "layout"],
    x: "percent",
    x_label: "range size, % of the domain",
    y_label: "cardinality; cells in ms",
    scale: 1e3,
    ..Chart::COLUMNS
}];

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let tier = Tier::new(settings)?;
    let theta = tiers::thetas(settings, &[THETA])[0];
    report.set("theta", theta);
    for kind in tiers::kinds(settings) {
        for layout in tiers::layouts(settings) {
            for (name, table) in tables(kind, settings) {
                let table = table?;
                tiers::announce(settings, &table, &tier, report)?;
                report.set("cardinality", name.as_str());
                measure(settings, &table, &tier, layout, theta, report)?;
            }
        }
    }
    Ok(())
}

/// Returns a lazy iterator over the tables of a kind, each with its name.
fn tables(
    kind: DataKind,
    settings: &Settings,
) -> Box<dyn Iterator<Item = (String, Result<CodeTable, BenchError>)> + '_> {
    match kind {
        DataKind::Uniform => Box::new(CARDINALITIES.into_iter().map(|cardinality| {
            let rows = settings
                .rows
                .unwrap_or(match (settings.quick, settings.tiers.full) {
                    (true, _) => 5_000,
                    (_, true) => 100_000_000,
                    _ => 2_000_000,
                });
            let table = CodeTable::uniform(rows, DIMS, cardinality, settings.seed);
            (cardinality.to_string(), Ok(table))
        })),
        DataKind::Lineitem => Box::new(std::iter::once_with(move || {
            (kind.to_string(), CodeTable::make(kind, settings))
        })),
    }
}

fn measure(
    settings: &Settings,
    table: &CodeTable,
    tier: &Tier,
    layout: Layout,
    theta: f64,
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    let built = tiers::build(table, layout, settings.threads(), None, 0)?;
    let pool = ThreadPoolBuilder::new().num_threads(settings.threads()).build();
    let pool = pool.map_err(|error| BenchError::Setup(error.to_string()))?;
    let mut systems = vec![];
    for way in [
        SelectionMode::Sequential,
        SelectionMode::Parallel(Arc::new(pool)),
        SelectionMode::Chosen(Arc::new(Workers::new(settings.threads()))),
    ] {
        systems.push(tier.open(&built.bytes)?.run_by(way));
    }
    let together: Vec<&IndexSystem> = systems.iter().collect();
    let least = if settings.quick { 0.002 } else { 0.1 };
    for (stream, percent) in PERCENTS.into_iter().enumerate() {
        let question = QueryType::Range(percent);
        let mut source = QuerySource::new(table, theta, settings.seed, 41 + stream as u64)?;
        let supply = question.supply(settings.quick).min(20_000);
        let queries = source.draw(question, supply);
        let call = tiers::calibrate(tier, &built.bytes, &together, &queries, 3, least)?;
        let measured = tiers::compare(&together, &queries, settings.repetitions(5), least)?;
        for (system, measured) in systems.iter().zip(&measured) {
            let config = config! {
                ..system.config(), "question": question.to_string(), "percent": percent,
                "threads": settings.threads(), "queries": measured.queries,
                "charged_ns_per_call": call.call_ns,
            };
            let metric = if tier.is_real() {
                "time"
            } else {
                "time of the device"
            };
            report.samples(&system.name, &config, metric, &measured.time, "s/query")?;
            report.value(&system.name, &config, "rows found", measured.found, "1/query")?;
        }
    }
    Ok(())
}
