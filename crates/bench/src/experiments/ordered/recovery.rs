//! `tree-recovery`: how long it takes to open a tree, by kind and size: its volatile nodes are built anew,
//! and what a crash could have left half done is looked for. The file is in DRAM or on the page cache, warm.

use std::time::Instant;

use halocline_ordered::open_tree;
use halocline_pool::Pool;

use super::keys::Keys;
use super::medium::TreeMedium;
use super::{TreeVariant, agree, rows};
use crate::{Backing, BenchError, Chart, ChartKind, Reporter, Samples, Settings, TableView, config};

pub(in crate::experiments) const VIEWS: &[TableView] = &[TableView {
    title: "time to open a tree, and the DRAM that it then takes",
    metrics: &["open", "DRAM"],
    split: &["on"],
    rows: &["system", "rows"],
    columns: "metric",
    base: None,
}];

pub(in crate::experiments) const CHARTS: &[Chart] = &[Chart {
    name: "",
    title: "time to open a tree",
    kind: ChartKind::Lines,
    metrics: &["open"],
    split: &["on"],
    x: "rows",
    series: "system",
    base: None,
    x_label: "keys",
    y_label: "ms",
    scale: 1e3,
}];

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
            let (opened, dram) = open(TreeVariant::new(*kind), size, &place, settings)?;
            let config = config! {"tree": kind.name(), "rows": size};
            report.samples(kind.name(), &config, "open", &opened, "s")?;
            report.value(kind.name(), &config, "DRAM", dram as f64, "bytes")?;
        }
    }
    Ok(())
}

/// Seconds to open the pool and a tree of that size in it, and the DRAM that the tree then takes.
fn open(
    system: TreeVariant,
    size: usize,
    place: &TreeMedium,
    settings: &Settings,
) -> Result<(Samples, u64), BenchError> {
    let file = format!("{}-{size}", system.name());
    let keys = Keys::new(settings.seed);
    let (medium, _) = place.make(&file)?;
    let pool = Pool::create_on(medium)?;
    let tree = system.create(&pool, "tree")?;
    for number in 0..size as u64 {
        tree.insert(keys.key(number), number)?;
    }
    drop(tree);
    pool.close()?;
    let (mut opened, mut dram) = (Samples::default(), 0);
    for _ in 0..settings.repetitions(5) {
        let start = Instant::now();
        let pool = place.open(&file)?;
        let tree = open_tree(&pool, "tree")?;
        opened.push(start.elapsed().as_secs_f64());
        let name = system.name();
        agree("entries", ("the model", size as u64), (&name, tree.len()))?;
        agree("key 0", ("the model", Some(0)), (&name, tree.get(keys.key(0))?))?;
        dram = tree.stats().dram_bytes;
    }
    std::fs::remove_file(place.path(&file))?;
    Ok((opened, dram))
}
