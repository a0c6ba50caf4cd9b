//! `elf-policies`: policies of a dynamic cache by its capacity, warm, between the two baselines (figure 4 of
//! the selective-caching paper).

use halocline_cache::{Links, Placement, PolicyKind};
use halocline_elf::Layout;

use super::tiers::{self, CodeTable, IndexSystem, QuerySource, QueryType, THETA, Tier};
use crate::{BenchError, Budget, Chart, Reporter, Samples, Settings, TableView, config};

/// Capacities of the caches: about 4 and 15 % of the lists are where the paper found its best.
const CAPACITIES: [Budget; 4] = [
    Budget::Share(0.01),
    Budget::Share(0.02),
    PAPER_CAPACITY,
    Budget::Share(0.15),
];
/// The capacity at skews other than the paper's.
const PAPER_CAPACITY: Budget = Budget::Share(0.04);
/// No skew, the paper's, and that of YCSB.
const THETAS: [f64; 3] = [0.0, THETA, 0.99];

/// Query types, each with the factor by which it has fewer queries than exact match.
const QUESTIONS: [(QueryType, usize); 2] = [(QueryType::Exact, 1), (QueryType::Range(2.0), 50)];

pub(super) const VIEWS: &[TableView] = &[
    TableView {
        title: "queries a second by DRAM, in percent of the index",
        metrics: &["throughput"],
        split: &["data", "layout", "question", "theta"],
        rows: &["system"],
        columns: "budget_percent",
        base: None,
    },
    TableView {
        title: "throughput over the slow tier alone, by DRAM in percent of the index",
        metrics: &["over slow-only"],
        split: &["data", "layout", "question", "theta"],
        rows: &["system"],
        columns: "budget_percent",
        base: None,
    },
    TableView {
        title: "DRAM taken, in percent of the budget",
        metrics: &["DRAM taken of the budget"],
        split: &["data", "layout", "question", "theta"],
        rows: &["system"],
        columns: "budget_percent",
        base: None,
    },
];

pub(super) const CHARTS: &[Chart] = &[Chart {
    title: "throughput by policy and capacity",
    metrics: &["throughput"],
    split: &["data", "layout", "question", "theta"],
    x: "budget_percent",
    x_label: "DRAM, % of the index",
    y_label: "queries/s",
    ..Chart::COLUMNS
}];

/// The measured values of one system.
struct Cell {
    placement: String,
    /// Bytes of DRAM it may have; `None` for a baseline.
    budget: Option<u64>,
    rate: Samples,
    system: IndexSystem,
}

/// Everything of one question: baselines first, then by capacity.
struct PolicyResults {
    question: QueryType,
    /// Bytes of the index.
    size: u64,
    cells: Vec<Cell>,
}

impl PolicyResults {
    fn rate(&self, placement: &str, budget: Option<u64>) -> f64 {
        let mut cells = self.cells.iter();
        let cell = cells.find(|cell| cell.placement == placement && cell.budget == budget);
        cell.map_or(f64::NAN, |cell| cell.rate.median())
    }

    /// Returns the throughput as a multiple of that of the slow tier alone, measured in turn with it.
    fn gain(&self, placement: &str, budget: u64) -> f64 {
        self.rate(placement, Some(budget)) / self.rate("slow-only", None)
    }

    /// Converts a capacity in bytes to a percentage of the index. The paper gives percentages of the lists
    /// instead, which differ in length.
    fn percent(&self, capacity: u64) -> f64 {
        (capacity as f64 / self.size.max(1) as f64 * 1e4).round() / 1e2
    }
}

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let tier = Tier::new(settings)?;
    for kind in tiers::kinds(settings) {
        let table = CodeTable::make(kind, settings)?;
        tiers::announce(settings, &table, &tier, report)?;
        for layout in tiers::layouts(settings) {
            let built = tiers::build(&table, layout, settings.threads(), None, 0)?;
            for theta in tiers::thetas(settings, &THETAS) {
                report.set("theta", theta);
                let mut chosen = PolicyGrid::new(settings, layout, theta);
                chosen.placements = tiers::possible(&chosen.placements, &tier, &built.bytes, report)?;
                for (stream, (question, fewer)) in QUESTIONS.into_iter().enumerate() {
                    let wanted =
                        question.is_asked(settings) && (question == QueryType::Exact || chosen.whole);
                    if !wanted {
                        continue;
                    }
                    let source = QuerySource::new(&table, theta, settings.seed, 21 + stream as u64)?;
                    let warm_up = warm_up(settings) / fewer;
                    report.set("warm_up", warm_up);
                    let results = measure(settings, &tier, &built.bytes, &chosen, source, question, warm_up)?;
                    values(report, &results)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the number of exact matches that warm the systems up before the measured ones.
fn warm_up(settings: &Settings) -> usize {
    let default = match (settings.quick, settings.tiers.full) {
        (true, _) => 5_000,
        (_, true) => 100_000_000,
        _ => 5_000_000,
    };
    settings.tiers.warm_up.unwrap_or(default)
}

/// Placements and capacities that are compared.
struct PolicyGrid {
    placements: Vec<Placement>,
    capacities: Vec<Budget>,
    /// All capacities and questions.
    whole: bool,
}

impl PolicyGrid {
    fn new(settings: &Settings, layout: Layout, theta: f64) -> Self {
        let tiers = &settings.tiers;
        let whole = theta == THETA || !tiers.thetas.is_empty();
        // The paper's way belongs to its layout; links that point at what they lead to follow the queries by
        // one policy.
        let hashed = match layout {
            Layout::Published => &PolicyKind::ALL[..],
            Layout::Packed => &[],
        };
        let hashed = hashed
            .iter()
            .map(|&policy| Placement::Dynamic(policy, Links::Hashed));
        let swizzled = [
            Placement::Dynamic(PolicyKind::Lla, Links::Swizzled),
            Placement::StaticDynamic(PolicyKind::Lla, Links::Swizzled),
        ];
        Self {
            placements: if tiers.placements.is_empty() {
                hashed.chain(swizzled).collect()
            } else {
                tiers.placements.clone()
            },
            capacities: match (tiers.budgets.is_empty(), whole) {
                (false, _) => tiers.budgets.clone(),
                (true, true) => CAPACITIES.to_vec(),
                (true, false) => vec![PAPER_CAPACITY],
            },
            whole,
        }
    }
}

fn measure(
    settings: &Settings,
    tier: &Tier,
    bytes: &std::sync::Arc<halocline_media::HugeVec<u8>>,
    chosen: &PolicyGrid,
    mut source: QuerySource<'_>,
    question: QueryType,
    warm_up: usize,
) -> Result<PolicyResults, BenchError> {
    let size = bytes.len() as u64;
    let mut systems = tier.baselines(bytes)?;
    let baselines = systems.len();
    for budget in &chosen.capacities {
        for &placement in &chosen.placements {
            systems.push(tier.place(bytes, placement, Some(budget.bytes_for(size)))?);
        }
    }
    let charged: Vec<&IndexSystem> = systems.iter().collect();
    tiers::calibrate_for(question, &mut source, (tier, bytes), &charged, settings.quick)?;
    // The baselines do not change; those whose content does are warmed up.
    tiers::warm_up(&mut systems[baselines..], &mut source, question, warm_up)?;
    let together: Vec<&IndexSystem> = systems.iter().collect();
    let count = enough(settings, &systems[0], &mut source, question)?;
    tiers::lockstep(&together, &mut source, question, count)?;
    let mut rates = vec![Samples::default(); systems.len()];
    for _ in 0..settings.repetitions(5) {
        let seconds = tiers::lockstep(&together, &mut source, question, count)?;
        for (rates, seconds) in rates.iter_mut().zip(seconds) {
            rates.push(count as f64 / seconds);
        }
    }
    let cells = systems.into_iter().zip(rates).map(|(system, rate)| Cell {
        placement: system.name.clone(),
        budget: system.budget,
        rate,
        system,
    });
    Ok(PolicyResults {
        question,
        size,
        cells: cells.collect(),
    })
}

/// Returns the number of queries that the index in DRAM answers in 0.15 s.
fn enough(
    settings: &Settings,
    volatile: &IndexSystem,
    source: &mut QuerySource<'_>,
    question: QueryType,
) -> Result<usize, BenchError> {
    let count = match question {
        QueryType::Exact | QueryType::ExactBatch => 2_000,
        _ => 50,
    };
    if settings.quick {
        return Ok(count);
    }
    let seconds = tiers::lockstep(&[volatile], source, question, 10 * count)?[0];
    let wanted = 0.15 / seconds * (10 * count) as f64;
    Ok(if wanted.is_finite() {
        (wanted as usize).max(count)
    } else {
        10 * count
    })
}

fn values(report: &mut Reporter<'_>, results: &PolicyResults) -> Result<(), BenchError> {
    for cell in &results.cells {
        let mut config =
            config! {..cell.system.config(), "question": results.question.to_string(), "threads": 1};
        if let Some(budget) = cell.budget {
            config.insert("budget_percent".to_owned(), results.percent(budget).into());
        }
        report.samples(&cell.placement, &config, "throughput", &cell.rate, "1/s")?;
        if let (Some(budget), Some(counted)) = (cell.budget, cell.system.counted) {
            report.value(&cell.placement, &config, "DRAM taken", counted, "bytes")?;
            let part = counted / budget as f64 * 100.0;
            report.value(
                &cell.placement,
                &config,
                "DRAM taken of the budget",
                part,
                "percent",
            )?;
            let gain = (results.gain(&cell.placement, budget) - 1.0) * 100.0;
            report.value(&cell.placement, &config, "over slow-only", gain, "%")?;
        }
    }
    Ok(())
}
