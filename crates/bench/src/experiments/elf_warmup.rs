//! `elf-warmup`: throughput over the queries run so far, for each placement (figures 5 to 7 of the
//! selective-caching paper).

use halocline_cache::{Links, Placement, PolicyKind, StaticLists};
use halocline_elf::Layout;
use serde_json::json;

use super::tiers::{self, CodeTable, IndexSystem, QuerySource, QueryType, THETA, Tier};
use crate::{BenchError, Budget, Chart, Reporter, Settings, TableView, config};

pub(super) const VIEWS: &[TableView] = &[TableView {
    title: "queries a second, at first (cold) and at last (warm)",
    metrics: &["cold", "warm"],
    split: &["data", "layout", "question", "theta"],
    rows: &["system"],
    columns: "metric",
    base: None,
}];

pub(super) const CHARTS: &[Chart] = &[Chart {
    title: "warm-up",
    metrics: &["throughput"],
    split: &["data", "layout", "question", "theta"],
    x: "queries",
    x_label: "queries run",
    y_label: "queries/s",
    ..Chart::LINES
}];

/// DRAM of the placements that have a budget.
const BUDGET: Budget = Budget::Share(0.04);

/// The placements beside the two baselines, of both layouts.
const PLACEMENTS: [Placement; 3] = [
    Placement::Static(StaticLists::Probable),
    Placement::Dynamic(PolicyKind::Lla, Links::Swizzled),
    Placement::StaticDynamic(PolicyKind::Lla, Links::Swizzled),
];
/// Those that only `published` has: the paper's.
const PAPER: [Placement; 3] = [
    Placement::Dynamic(PolicyKind::Lla, Links::Hashed),
    Placement::Dynamic(PolicyKind::Naive, Links::Hashed),
    Placement::Dynamic(PolicyKind::Lru, Links::Hashed),
];

/// Returns the requested placements, or all those of the layout if none is requested.
fn placements(settings: &Settings, layout: Layout) -> Vec<Placement> {
    let asked = &settings.tiers.placements;
    match layout {
        _ if !asked.is_empty() => asked.clone(),
        Layout::Packed => PLACEMENTS.to_vec(),
        Layout::Published => [PLACEMENTS, PAPER].concat(),
    }
}

/// Query types, each with the factor by which it has fewer queries than exact match.
const QUESTIONS: [(QueryType, usize); 3] = [
    (QueryType::Exact, 1),
    (QueryType::Range(2.0), 50),
    (QueryType::Partial(2.0), 2000),
];

/// One system's throughput by the number of queries that had been run.
type Curve = Vec<(f64, f64)>;

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let tier = Tier::new(settings)?;
    for kind in tiers::kinds(settings) {
        let table = CodeTable::make(kind, settings)?;
        tiers::announce(settings, &table, &tier, report)?;
        for layout in tiers::layouts(settings) {
            let built = tiers::build(&table, layout, settings.threads(), None, 0)?;
            let size = built.bytes.len() as u64;
            let placements = tiers::possible(&placements(settings, layout), &tier, &built.bytes, report)?;
            let budget = settings
                .tiers
                .budgets
                .first()
                .copied()
                .unwrap_or(BUDGET)
                .bytes_for(size);
            for theta in tiers::thetas(settings, &[THETA]) {
                report.set("theta", theta);
                for (stream, (question, fewer)) in QUESTIONS.into_iter().enumerate() {
                    if !question.is_asked(settings) {
                        continue;
                    }
                    let mut systems = tier.baselines(&built.bytes)?;
                    for &placement in &placements {
                        systems.push(tier.place(&built.bytes, placement, Some(budget))?);
                    }
                    let mut source = QuerySource::new(&table, theta, settings.seed, 11 + stream as u64)?;
                    let slow = (&tier, &built.bytes);
                    let charged: Vec<&IndexSystem> = systems.iter().collect();
                    let call = tiers::calibrate_for(question, &mut source, slow, &charged, settings.quick)?;
                    report.set("charged_ns_per_call", call.call_ns);
                    report.set("dram_emulated_over_dram", call.off);
                    let all = total(settings) / fewer;
                    let curves = follow(&systems, &mut source, question, all.max(2))?;
                    values(report, question, &systems, &curves)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the total number of exact matches.
fn total(settings: &Settings) -> usize {
    let default = match (settings.quick, settings.tiers.full) {
        (true, _) => 5_000,
        (_, true) => 100_000_000,
        _ => 10_000_000,
    };
    settings.tiers.warm_up.unwrap_or(default)
}

/// Asks `all` queries, in pieces of which each is a quarter larger than the one before.
fn follow(
    systems: &[IndexSystem],
    source: &mut QuerySource<'_>,
    question: QueryType,
    all: usize,
) -> Result<Vec<Curve>, BenchError> {
    let together: Vec<&IndexSystem> = systems.iter().collect();
    let mut curves = vec![Curve::new(); systems.len()];
    let (mut done, mut piece) = (0, (all / 1000).max(1));
    while done < all {
        let count = piece.min(all - done);
        let seconds = tiers::lockstep(&together, source, question, count)?;
        done += count;
        piece = (piece * 5 / 4).max(piece + 1);
        for (curve, seconds) in curves.iter_mut().zip(seconds) {
            curve.push((done as f64, count as f64 / seconds));
        }
    }
    Ok(curves)
}

/// Records the throughput curves of one query type.
fn values(
    report: &mut Reporter<'_>,
    question: QueryType,
    systems: &[IndexSystem],
    curves: &[Curve],
) -> Result<(), BenchError> {
    for (system, curve) in systems.iter().zip(curves) {
        let mut config = config! {..system.config(), "question": question.to_string(), "threads": 1};
        for (queries, rate) in curve {
            config.insert("queries".to_owned(), json!(queries));
            report.value(&system.name, &config, "throughput", *rate, "1/s")?;
        }
        for (metric, point) in [("cold", curve.first()), ("warm", curve.last())] {
            if let Some((_, rate)) = point {
                report.value(&system.name, &config, metric, *rate, "1/s")?;
            }
        }
    }
    Ok(())
}
