//! `elf-media`: the placements of an index over two tiers beside each other, one thread (figure 3 of the
//! selective-caching paper): build, three query types, DRAM taken, and a hybrid's reopening against a
//! rebuild.
//!
//! Where the slow tier is emulated, an index in DRAM and a hybrid are read from DRAM that is emulated with
//! the same modelled cache, and placements are compared with that; the index in this host's own DRAM is
//! beside them. Reads of partial copies are not charged (see `tiers`), so what they would wait for in
//! emulated DRAM is estimated.

mod advisor;
mod paper;
mod reopen;
mod systems;
mod values;

use std::sync::Arc;

use halocline_elf::{Layout, Rows};
use halocline_media::HugeVec;

use super::tiers::{
    self, Built, CodeTable, IndexMemory, IndexSystem, QueryCost, QuerySource, QueryType, THETA, Tier,
};
use crate::{BenchError, Budget, Chart, DataKind, Reporter, Settings, TableView};

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
            "DRAM lines",
            "waited",
            "overrun",
            "copies, estimated",
            "over volatile",
            "over emulated DRAM",
            "over host DRAM",
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
        title: "time by placement",
        metrics: &["time"],
        split: &["data", "layout", "theta"],
        x: "question",
        base: Some("volatile"),
        x_label: "query",
        y_label: "time",
        ..Chart::COLUMNS
    },
    Chart {
        name: "lines",
        title: "lines of the device by placement",
        metrics: &["lines"],
        split: &["data", "layout", "theta"],
        x: "question",
        x_label: "query",
        y_label: "lines/query",
        ..Chart::COLUMNS
    },
];

/// All that was measured of one layout.
struct PlacementResults {
    layout: Layout,
    kind: DataKind,
    /// True if times are real, so that they can be compared with those of DRAM.
    real: bool,
    /// The baselines come first.
    systems: Vec<IndexSystem>,
    built: Built,
    reopened: Option<ReopenTimes>,
    /// By question, then by system.
    answers: Vec<(QueryType, Vec<QueryCost>)>,
    /// By question, what a call of the emulation was charged.
    calls: Vec<tiers::Calibration>,
    /// Exact matches of `published` in DRAM, emulated or not as the baseline is, measured among those of
    /// this layout.
    published_exact: Option<QueryCost>,
}

impl PlacementResults {
    /// Returns the position of the system named `name`.
    fn system(&self, name: &str) -> Option<usize> {
        self.systems.iter().position(|system| system.name == name)
    }

    fn measured(&self, question: QueryType, system: usize) -> Option<&QueryCost> {
        let (_, measured) = self.answers.iter().find(|(asked, _)| *asked == question)?;
        measured.get(system)
    }

    /// Returns the median seconds per query of a system; NaN if it was not measured.
    fn seconds(&self, question: QueryType, name: &str) -> f64 {
        self.system(name)
            .and_then(|system| self.measured(question, system))
            .map_or(f64::NAN, |measured| measured.time.median())
    }

    /// Returns the time of a system as a multiple of the time of a baseline; NaN if times are not real.
    fn ratio(&self, question: QueryType, name: &str, base: &str) -> f64 {
        if self.real {
            self.seconds(question, name) / self.seconds(question, base)
        } else {
            f64::NAN
        }
    }

    /// Estimates the seconds a query for which reads of copies would wait if they were charged to emulated
    /// DRAM, as [`Elf::advise`](halocline_elf::Elf::advise) does: the copies serve the lines that the
    /// slow tier serves without them. Zero without partial copies.
    fn of_copies(&self, question: QueryType, system: usize) -> f64 {
        let at = |name: &str| self.measured(question, self.system(name)?);
        let all = at("slow-only").zip(at(tiers::IN_EMULATED_DRAM));
        let placed = self.systems[system].memory() == IndexMemory::SlowTier
            && self.systems[system].placed().dram_bytes > 0;
        match all.zip(self.measured(question, system).filter(|_| placed)) {
            Some(((slow_only, dram), own)) if slow_only.lines > 0.0 => {
                dram.waited * (1.0 - own.lines / slow_only.lines).clamp(0.0, 1.0)
            }
            _ => 0.0,
        }
    }

    /// Returns the paper's figure for a placement; the paper has uniform data only.
    fn paper(&self, question: QueryType, name: &str) -> Option<f64> {
        match self.kind {
            DataKind::Uniform => paper::figure(question, name),
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
                values::report(report, settings, &results)?;
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
    let systems = systems::all(settings, tier, &built.bytes, report)?;
    let published_index = published.map(|bytes| tier.volatile(bytes)).transpose()?;
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
        let guest = published_index.as_ref().filter(|_| question == QueryType::Exact);
        let mut together: Vec<&IndexSystem> = results.systems.iter().collect();
        let least = if settings.quick { 0.005 } else { 0.15 };
        let call = tiers::calibrate(tier, &results.built.bytes, &together, &queries, rounds, least)?;
        if let Some((bytes, guest)) = published.zip(guest) {
            tiers::calibrate(tier, bytes, &[guest], &queries, rounds, least)?;
            together.push(guest);
        }
        let mut measured = tiers::compare(&together, &queries, rounds, least)?;
        if guest.is_some() {
            results.published_exact = measured.pop();
        }
        results.calls.push(call);
        results.answers.push((question, measured));
    }
    Ok(results)
}
