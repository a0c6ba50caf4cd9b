//! `hot-index`: point lookups of skewed keys through a cache of hot keys in front of each tree, beside the
//! tree alone: by the share of lookups that go to a moving hundredth of the keys, by skew, and what updates
//! and removals of cached keys cost.
//!
//! The systems of a tree hold the same entries and run the same operations one after the other, period by
//! period; the first periods are a warm-up. They must agree on what they find.

use std::sync::Arc;

use halocline_emulator::{Device, Watch};
use halocline_ordered::{HotIndex, HotIndexOptions, HotMode, OrderedIndex, TreeKind};
use halocline_pool::Pool;
use halocline_workloads::{SplitMix64, Zipf};

use super::keys::Keys;
use super::medium::TreeMedium;
use super::ops::{Store, share, value};
use super::{Tree, TreeVariant, ensure_same, rows};
use crate::{Backing, BenchError, Chart, Reporter, Settings, TableView, config};

pub(in crate::experiments) const VIEWS: &[TableView] = &[
    TableView {
        title: "millions of operations a second, with and without a cache of hot keys",
        metrics: &["rate"],
        split: &["on", "threads"],
        rows: &["tree", "workload"],
        columns: "system",
        base: Some("tree alone"),
    },
    TableView {
        title: "share of lookups that hit",
        metrics: &["hit rate"],
        split: &["on", "threads"],
        rows: &["tree", "workload"],
        columns: "system",
        base: None,
    },
    TableView {
        title: "DRAM of the cache, as a part of the entries' bytes",
        metrics: &["DRAM"],
        split: &["on"],
        rows: &["tree"],
        columns: "system",
        base: None,
    },
];

pub(in crate::experiments) const CHARTS: &[Chart] = &[Chart {
    title: "rates with and without a cache of hot keys",
    metrics: &["rate"],
    split: &["on", "threads", "tree"],
    x: "workload",
    x_label: "workload",
    y_label: "Mop/s",
    ..Chart::COLUMNS
}];

/// The trees of the publication, and the LB+-Tree.
pub(in crate::experiments) const TREES: [TreeKind; 4] =
    [TreeKind::Wb, TreeKind::Fp, TreeKind::FastFair, TreeKind::Lb];

/// DRAM of a cache, as a part of the bytes of all entries (that of the publication).
pub(in crate::experiments) const DRAM: f64 = 0.066;

/// Least DRAM of a cache in bytes, which only smoke tests need.
const MIN_CACHE_BYTES: u64 = 64 << 10;

/// Part of a leaf that is filled when a tree is loaded.
const FILL: f64 = 0.7;

/// Keys that are hot at a time, as a part of all.
const HOT: f64 = 0.01;

/// Periods of a workload, the warm-up among them.
const PERIODS: usize = 8;
const WARM_UP: usize = 3;

/// Returns the number of operations of a period.
fn period_of(rows: usize) -> usize {
    (rows / 10).max(1_000)
}

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Workload {
    /// Lookups, of which this share goes to the hot keys; which these are changes with each period.
    Moving(f64),
    /// Lookups with this skew.
    Skewed(f64),
    /// Updates of keys that are looked up as in `Moving(0.8)`, which is not measured.
    Updates,
    /// Removals of hot keys, which are then inserted again; neither that nor the lookups are measured.
    Removals,
}

impl Workload {
    const ALL: [Workload; 10] = [
        Workload::Moving(0.8),
        Workload::Moving(0.09),
        Workload::Moving(0.25),
        Workload::Moving(0.65),
        Workload::Moving(0.84),
        Workload::Skewed(0.5),
        Workload::Skewed(0.9),
        Workload::Skewed(0.99),
        Workload::Updates,
        Workload::Removals,
    ];

    /// Those that several threads run as well.
    const SHARED: [Workload; 2] = [Workload::Moving(0.8), Workload::Skewed(0.99)];

    fn name(self) -> String {
        match self {
            Workload::Moving(share) => format!("{:.0} % of lookups hot", share * 100.0),
            Workload::Skewed(theta) => format!("Zipf {theta}"),
            Workload::Updates => "updates of hot keys".to_owned(),
            Workload::Removals => "removals of hot keys".to_owned(),
        }
    }

    /// Returns the keys of a period.
    fn keys(
        self,
        keys: Keys,
        rows: usize,
        period: usize,
        rng: &mut SplitMix64,
    ) -> Result<Vec<u64>, BenchError> {
        let count = period_of(rows);
        let hot = ((rows as f64 * HOT) as usize).max(1);
        let share = match self {
            Workload::Moving(share) => share,
            Workload::Updates | Workload::Removals => 0.8,
            Workload::Skewed(theta) => {
                let zipf =
                    Zipf::new(rows as u64, theta).map_err(|error| BenchError::Setup(error.to_string()))?;
                return Ok(keys.drawn(rows, Some(&zipf), count, rng));
            }
        };
        let first = period * hot % (rows - hot).max(1);
        let is_hot = (share * 1e6) as u64;
        let mut number = || {
            if rng.below(1_000_000) < is_hot {
                first as u64 + rng.below(hot as u64)
            } else {
                rng.below(rows as u64)
            }
        };
        Ok((0..count).map(|_| keys.key(number())).collect())
    }
}

/// A tree, or a cache in front of one.
enum System {
    Alone(Tree),
    Hot(Box<HotIndex>),
}

impl System {
    fn index(&self) -> &(dyn OrderedIndex + 'static) {
        match self {
            System::Alone(tree) => &**tree,
            System::Hot(index) => &**index,
        }
    }
}

struct HotContender {
    name: &'static str,
    system: System,
    device: Option<Arc<Device>>,
}

pub(in crate::experiments) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let rows = rows(settings, 10_000_000);
    report.set("rows", rows);
    report.set("seed", settings.seed);
    let kinds = if settings.trees.kinds.is_empty() {
        &TREES[..]
    } else {
        settings.trees.kinds()
    };
    for medium in settings.backings(&[Backing::Dax, Backing::Emulated]) {
        let place = TreeMedium::new(*medium, settings)?;
        place.announce(report)?;
        for kind in kinds {
            report.set("tree", kind.name());
            let contenders = contenders(*kind, &place, Keys::new(settings.seed), rows)?;
            for threads in [1, settings.threads.unwrap_or(2)] {
                report.set("threads", threads);
                let workloads = match threads {
                    1 => &Workload::ALL[..],
                    _ => &Workload::SHARED[..],
                };
                for workload in workloads {
                    measure(settings, &contenders, *workload, (rows, threads), report)?;
                }
            }
            for contender in &contenders {
                if let System::Hot(index) = &contender.system {
                    let percent = index.hot_stats().bytes as f64 / (16 * rows) as f64 * 100.0;
                    report.value(contender.name, &config! {}, "DRAM", percent, "percent")?;
                }
            }
        }
    }
    Ok(())
}

fn contenders(
    kind: TreeKind,
    place: &TreeMedium,
    keys: Keys,
    rows: usize,
) -> Result<Vec<HotContender>, BenchError> {
    let bytes = (((16 * rows) as f64 * DRAM) as u64).max(MIN_CACHE_BYTES);
    let mut entries: Vec<(u64, u64)> = keys
        .range(0..rows)
        .into_iter()
        .map(|key| (key, value(key)))
        .collect();
    entries.sort_unstable();
    let tree = |name: &str| -> Result<(Tree, Option<Arc<Device>>), BenchError> {
        let (medium, device) = place.make(&format!("{}-{name}", kind.name()))?;
        let pool = Pool::create_on(medium)?;
        let mut tree = TreeVariant::new(kind).create(&pool, "tree")?;
        tree.bulk_load(&mut entries.iter().copied(), FILL)?;
        Ok((tree, device))
    };
    let (alone, device) = tree("alone")?;
    let mut contenders = vec![HotContender {
        name: "tree alone",
        system: System::Alone(alone),
        device,
    }];
    for mode in HotMode::ALL {
        let (tree, device) = tree(mode.name())?;
        let options = HotIndexOptions::default()
            .with_mode(*mode)
            .with_bytes(bytes)
            .with_period(period_of(rows) as u64);
        let index = HotIndex::new(tree, options).map_err(|error| BenchError::Setup(error.to_string()))?;
        contenders.push(HotContender {
            name: mode.name(),
            system: System::Hot(Box::new(index)),
            device,
        });
    }
    Ok(contenders)
}

/// Has all contenders run a workload, and reports their rates.
fn measure(
    settings: &Settings,
    contenders: &[HotContender],
    workload: Workload,
    (rows, threads): (usize, usize),
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    let keys = Keys::new(settings.seed);
    let mut rng = SplitMix64::stream(settings.seed, 11);
    let mut seconds = vec![0.0; contenders.len()];
    let mut done = 0;
    for period in 0..PERIODS {
        let of_period = workload.keys(keys, rows, period, &mut rng)?;
        let mut first = None;
        for (contender, seconds) in contenders.iter().zip(&mut seconds) {
            let (found, time) = run_period(workload, contender, threads, &of_period)?;
            let (name, expected) = *first.get_or_insert((contender.name, found));
            ensure_same(&workload.name(), (name, expected), (contender.name, found))?;
            if period >= WARM_UP {
                *seconds += time;
            }
        }
        if period >= WARM_UP {
            done += of_period.len();
        }
    }
    let config = config! {"workload": workload.name(), "operations": done};
    for (contender, seconds) in contenders.iter().zip(seconds) {
        report.value(
            contender.name,
            &config,
            "rate",
            done as f64 / seconds / 1e6,
            "Mop/s",
        )?;
        if let System::Hot(index) = &contender.system
            && let Some(rate) = index.hot_stats().hit_rate
        {
            report.value(contender.name, &config, "hit rate", rate * 100.0, "percent")?;
        }
    }
    Ok(())
}

/// Runs a period and returns the sum of what was found, and the seconds of the measured operations.
fn run_period(
    workload: Workload,
    contender: &HotContender,
    threads: usize,
    keys: &[u64],
) -> Result<(u64, f64), BenchError> {
    let index = contender.system.index();
    let timed = |work: &(dyn Fn(&[u64]) -> Result<u64, BenchError> + Sync)| {
        let watch = Watch::start(contender.device.as_ref());
        let found = share(threads, keys, work)?;
        Ok::<_, BenchError>((found, watch.elapsed().as_secs_f64()))
    };
    let (found, lookups) = timed(&|keys| Store::get(&index, keys))?;
    match workload {
        Workload::Moving(_) | Workload::Skewed(_) => Ok((found, lookups)),
        Workload::Updates => {
            let (_, updates) = timed(&|keys| Store::update(&index, keys).map(|()| 0))?;
            Ok((found, updates))
        }
        Workload::Removals => {
            let (_, removals) = timed(&|keys| Store::remove(&index, keys).map(|()| 0))?;
            Store::insert(&index, keys)?;
            Ok((found, removals))
        }
    }
}
