//! `tree-recovery`: how long it takes to open a tree, by kind and size, after it was closed and as a process
//! that was killed leaves it. The file is in DRAM or on the page cache, warm.

use std::fs;
use std::time::Instant;

use halocline_ordered::open_tree;
use halocline_pool::Pool;

use super::keys::Keys;
use super::medium::TreeMedium;
use super::{TreeVariant, ensure_same, rows};
use crate::{Backing, BenchError, Chart, Reporter, Samples, Settings, TableView, config};

pub(in crate::experiments) const VIEWS: &[TableView] = &[TableView {
    title: "time to open a tree, and the DRAM that it then takes",
    metrics: &["open", "open, killed", "DRAM"],
    split: &["on"],
    rows: &["system", "rows"],
    columns: "metric",
    base: None,
}];

const fn chart(name: &'static str, title: &'static str, metrics: &'static [&'static str]) -> Chart {
    Chart {
        name,
        title,
        metrics,
        split: &["on"],
        x: "rows",
        x_label: "keys",
        y_label: "ms",
        scale: 1e3,
        ..Chart::LINES
    }
}

pub(in crate::experiments) const CHARTS: &[Chart] = &[
    chart("", "time to open a tree that was closed", &["open"]),
    chart(
        "killed",
        "time to open a tree whose process was killed",
        &["open, killed"],
    ),
];

pub(in crate::experiments) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let most = rows(settings, 10_000_000);
    report.set("seed", settings.seed);
    report.set("threads", settings.threads());
    let files = settings.backings(&Backing::OF_TREES).iter();
    for medium in files.filter(|medium| **medium != Backing::Emulated) {
        on(*medium, most, settings, report)?;
    }
    Ok(())
}

fn on(
    medium: Backing,
    most: usize,
    settings: &Settings,
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    let place = TreeMedium::new(medium, settings)?;
    place.announce(report)?;
    let sizes = [most / 100, most / 10, most];
    for kind in settings.trees.kinds() {
        for size in sizes {
            let openings = open(TreeVariant::new(*kind), size, &place, settings)?;
            let config = config! {"tree": kind.name(), "rows": size};
            report.samples(kind.name(), &config, "open", &openings.closed, "s")?;
            report.samples(kind.name(), &config, "open, killed", &openings.killed, "s")?;
            report.value(kind.name(), &config, "DRAM", openings.dram as f64, "bytes")?;
        }
    }
    Ok(())
}

/// Seconds to open the pool and a tree in it, and the DRAM that the tree then takes.
#[derive(Default)]
struct Openings {
    closed: Samples,
    killed: Samples,
    dram: u64,
}

fn open(
    system: TreeVariant,
    size: usize,
    place: &TreeMedium,
    settings: &Settings,
) -> Result<Openings, BenchError> {
    let file = format!("{}-{size}", system.name());
    let (killed, copy) = (format!("{file}-killed"), format!("{file}-copy"));
    let keys = Keys::new(settings.seed);
    let (medium, _) = place.make(&file)?;
    let pool = Pool::create_on(medium)?;
    let tree = system.create(&pool, "tree")?;
    for number in 0..size as u64 {
        tree.insert(keys.key(number), number)?;
    }
    // A copy of the file is as a process leaves it that is killed now.
    fs::copy(place.path(&file), place.path(&killed))?;
    drop(tree);
    pool.close()?;
    let mut openings = Openings::default();
    let first = keys.key(0);
    for _ in 0..settings.repetitions(5) {
        for (name, samples) in [(&file, &mut openings.closed), (&copy, &mut openings.killed)] {
            if *name == copy {
                fs::copy(place.path(&killed), place.path(&copy))?;
            }
            let start = Instant::now();
            let pool = place.open(name)?;
            let tree = open_tree(&pool, "tree")?;
            samples.push(start.elapsed().as_secs_f64());
            let system = system.name();
            ensure_same("key 0", ("the model", Some(0)), (&system, tree.get(first)?))?;
            ensure_same("entries", ("the model", size as u64), (&system, tree.len()))?;
            openings.dram = tree.stats().dram_bytes;
        }
    }
    for name in [&file, &killed, &copy] {
        fs::remove_file(place.path(name))?;
    }
    Ok(openings)
}
