//! `elf-media`: the placements of an index over two tiers beside each other, one thread (figure 3 of the
//! selective-caching paper): build, three query types, DRAM taken, and a hybrid's reopening against a
//! rebuild.

mod advisor;
mod paper;
mod reopen;

use std::sync::Arc;

use halocline_cache::{Placement, StaticLists};
use halocline_elf::{Layout, Rows};
use halocline_media::HugeVec;

use super::tiers::{self, Built, CodeTable, IndexSystem, QueryCost, QuerySource, QueryType, THETA, Tier};
use crate::{BenchError, Budget, Chart, ChartKind, DataKind, Reporter, Samples, Settings, TableView, config};

use reopen::ReopenTimes;

/// Query types, in the order of measurement.
const QUESTIONS: [QueryType; 6] = [
    QueryType::Exact,
    QueryType::ExactBatch,
    QueryType::Range(2.0),
    QueryType::Range(100.0),
    QueryType::Partial(2.0),
    QueryType::Partial(100.0),
];

/// DRAM of the static placements.
const BUDGET: Budget = Budget::Share(0.03);

pub(super) const VIEWS: &[TableView] = &[
    TableView {
        title: "time of a query by placement",
        metrics: &["time", "time of the device"],
        split: &["data", "layout", "theta"],
        rows: &["question"],
        columns: "system",
        base: Some("volatile"),
    },
    TableView {
        title: "reads of the device a query, waiting, cost of the emulation, and the paper's time over volatile",
        metrics: &[
            "lines",
            "units",
            "waited",
            "overrun",
            "over volatile",
            "over volatile, paper",
        ],
        split: &["data", "layout", "theta"],
        rows: &["question", "system"],
        columns: "metric",
        base: None,
    },
    TableView {
        title: "build, size, reopening, and DRAM beside the index",
        metrics: &["build", "size", "reopen", "DRAM of copies", "DRAM taken"],
        split: &["data", "layout"],
        rows: &["system"],
        columns: "metric",
        base: None,
    },
    TableView {
        title: "advice on the placement",
        metrics: &["predicted", "measured", "over the best"],
        split: &["data", "layout"],
        rows: &["question", "placement", "best"],
        columns: "metric",
        base: None,
    },
];

pub(super) const CHARTS: &[Chart] = &[
    Chart {
        name: "",
        title: "time by placement",
        kind: ChartKind::Columns,
        metrics: &["time"],
        split: &["data", "layout", "theta"],
        x: "question",
        series: "system",
        base: Some("volatile"),
        x_label: "query",
        y_label: "time, volatile = 1",
        scale: 1.0,
    },
    Chart {
        name: "lines",
        title: "lines of the device by placement",
        kind: ChartKind::Columns,
        metrics: &["lines"],
        split: &["data", "layout", "theta"],
        x: "question",
        series: "system",
        base: None,
        x_label: "query",
        y_label: "lines/query",
        scale: 1.0,
    },
];

/// All that was measured of one layout.
struct PlacementResults {
    layout: Layout,
    kind: DataKind,
    /// True if times are real, so that they can be compared with those of DRAM.
    real: bool,
    /// The first one is the index in DRAM.
    systems: Vec<IndexSystem>,
    built: Built,
    reopened: Option<ReopenTimes>,
    /// By question, then by system.
    answers: Vec<(QueryType, Vec<QueryCost>)>,
    /// By question, what a call of the emulation was charged.
    calls: Vec<tiers::Calibration>,
    /// Exact matches of `published` in DRAM, measured among those of this layout.
    published_exact: Option<QueryCost>,
}

impl PlacementResults {
    /// The system of that name, by its place.
    fn system(&self, name: &str) -> Option<usize> {
        self.systems.iter().position(|system| system.name == name)
    }

    fn measured(&self, question: QueryType, system: usize) -> Option<&QueryCost> {
        let (_, measured) = self.answers.iter().find(|(asked, _)| *asked == question)?;
        measured.get(system)
    }

    /// Median seconds a query.
    fn seconds(&self, question: QueryType, name: &str) -> f64 {
        self.system(name)
            .and_then(|system| self.measured(question, system))
            .map_or(f64::NAN, |measured| measured.time.median())
    }

    /// How many times the time of the index in DRAM.
    fn ratio(&self, question: QueryType, name: &str) -> f64 {
        if self.real {
            self.seconds(question, name) / self.seconds(question, "volatile")
        } else {
            f64::NAN
        }
    }

    /// Returns the paper's figure for a placement; the paper has uniform data only.
    fn paper(&self, question: QueryType, name: &str) -> Option<f64> {
        match self.kind {
            DataKind::Uniform => paper::of(question, name),
            DataKind::Lineitem => None,
        }
    }
}

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let tier = Tier::new(settings)?;
    for kind in tiers::kinds(settings) {
        let table = CodeTable::make(kind, settings)?;
        tiers::announce(settings, &table, &tier, report)?;
        for theta in tiers::thetas(settings, &[THETA]) {
            report.set("theta", theta);
            let mut published = None;
            for layout in tiers::layouts(settings) {
                let results = measure(settings, &table, &tier, layout, theta, published.as_ref(), report)?;
                values(report, settings, &results)?;
                let picks = advisor::ask(settings, &table, &tier, &results.built.bytes, theta, &results)?;
                advisor::report(report, &results, &picks)?;
                if layout == Layout::Published {
                    published = Some(Arc::clone(&results.built.bytes));
                }
            }
        }
    }
    Ok(())
}

fn measure(
    settings: &Settings,
    table: &CodeTable,
    tier: &Tier,
    layout: Layout,
    theta: f64,
    published: Option<&Arc<HugeVec<u8>>>,
    report: &mut Reporter<'_>,
) -> Result<PlacementResults, BenchError> {
    let rounds = settings.repetitions(5);
    let built = tiers::build(table, layout, settings.threads(), Some(tier), rounds.min(3))?;
    let reopened = reopen::measure(tier, &built.bytes, rounds)?;
    let systems = systems(settings, tier, &built.bytes, report)?;
    let published = published.map(IndexSystem::volatile).transpose()?;
    let mut results = PlacementResults {
        layout,
        kind: table.kind(),
        real: tier.is_real(),
        systems,
        built,
        reopened,
        answers: vec![],
        calls: vec![],
        published_exact: None,
    };
    if table.rows() == 0 {
        return Ok(results);
    }
    for (stream, question) in QUESTIONS.into_iter().enumerate() {
        if !question.is_asked(settings) {
            continue;
        }
        let mut source = QuerySource::new(table, theta, settings.seed, 1 + stream as u64)?;
        let queries = source.draw(question, question.supply(settings.quick));
        let guest = published.as_ref().filter(|_| question == QueryType::Exact);
        let together: Vec<&IndexSystem> = results.systems.iter().chain(guest).collect();
        let least = if settings.quick { 0.005 } else { 0.15 };
        let call = tiers::calibrate(
            tier,
            &results.built.bytes,
            &results.systems,
            &queries,
            rounds,
            least,
        )?;
        let mut measured = tiers::compare(&together, &queries, rounds, least)?;
        if guest.is_some() {
            results.published_exact = measured.pop();
        }
        results.calls.push(call);
        results.answers.push((question, measured));
    }
    Ok(results)
}

/// Those asked for, or all; the index in DRAM and that on the slow tier alone are always among them.
fn systems(
    settings: &Settings,
    tier: &Tier,
    bytes: &Arc<HugeVec<u8>>,
    report: &mut Reporter<'_>,
) -> Result<Vec<IndexSystem>, BenchError> {
    let mut systems = vec![IndexSystem::volatile(bytes)?, tier.open(bytes)?];
    let size = systems[0].index.size();
    let asked = &settings.tiers.budgets;
    let budgets = if asked.is_empty() { &[BUDGET][..] } else { asked };
    let asked = &settings.tiers.placements;
    let default = [
        Placement::Hybrid,
        Placement::DualAccess,
        Placement::Static(StaticLists::Probable),
    ];
    let wanted = if asked.is_empty() { &default[..] } else { asked };
    for placement in tiers::possible(wanted, tier, bytes, report)? {
        match placement {
            Placement::Hybrid | Placement::DualAccess => systems.push(tier.place(bytes, placement, None)?),
            _ => {
                for budget in budgets {
                    let mut system = tier.place(bytes, placement, Some(budget.of(size)))?;
                    if budgets.len() > 1 {
                        system.name = format!("{} {}", system.name, tiers::bytes(budget.of(size) as f64));
                    }
                    systems.push(system);
                }
            }
        }
    }
    if asked.is_empty() {
        systems.extend(levels(tier, bytes, budgets[0].of(size))?);
    }
    Ok(systems)
}

/// As many levels as the budget has room for; none if there is no room for one.
fn levels(tier: &Tier, bytes: &Arc<HugeVec<u8>>, budget: u64) -> Result<Option<IndexSystem>, BenchError> {
    let mut best = None;
    for levels in 1..=16 {
        let system = tier.place(
            bytes,
            Placement::Static(StaticLists::Levels(levels)),
            Some(budget),
        )?;
        if system.placed().fallback.is_some() {
            break;
        }
        let grown = best
            .as_ref()
            .is_none_or(|best: &IndexSystem| best.placed().dram_bytes < system.placed().dram_bytes);
        if !grown {
            break;
        }
        best = Some(system);
    }
    Ok(best)
}

fn values(
    report: &mut Reporter<'_>,
    settings: &Settings,
    results: &PlacementResults,
) -> Result<(), BenchError> {
    build_values(report, settings, results)?;
    for ((question, measured), call) in results.answers.iter().zip(&results.calls) {
        for (system, measured) in results.systems.iter().zip(measured) {
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

fn build_values(
    report: &mut Reporter<'_>,
    settings: &Settings,
    results: &PlacementResults,
) -> Result<(), BenchError> {
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
        &config,
        "size",
        results.built.bytes.len() as f64,
        "bytes",
    )
}
