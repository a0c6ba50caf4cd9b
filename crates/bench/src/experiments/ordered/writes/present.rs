//! Values, tables and figure of the counters.

use halocline_ordered::TreeKind;

use super::{Cost, Counted, paper};
use crate::plot::{self, Frame, GroupedColumns};
use crate::{BenchError, Reporter, Settings, config};

impl Counted {
    /// The operations with their names.
    fn costs(&self) -> [(&'static str, Cost); 4] {
        [
            ("insert", self.insert),
            ("insert, stable", self.stable),
            ("remove, stable", self.remove),
            ("update", self.update),
        ]
    }
}

pub(super) fn values(report: &mut Reporter<'_>, counted: &[Counted]) -> Result<(), BenchError> {
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

pub(super) fn tables(report: &mut Reporter<'_>, counted: &[Counted]) -> Result<(), BenchError> {
    let pair = |lines: f64, fences: f64| format!("{lines:.3}, {fences:.3}");
    let lines = counted.iter().map(|tree| {
        let mut cells = vec![tree.system.name()];
        cells.extend(tree.costs().map(|(_, cost)| pair(cost.lines, cost.fences)));
        cells.push(format!("{:.1}", tree.bytes));
        let public = paper::insert(tree.system.kind).filter(|_| tree.system.moving);
        cells.push(public.map_or_else(String::new, |(name, lines, fences)| {
            format!("{name}: {lines:.2}, {fences:.2}")
        }));
        cells
    });
    report.line("lines flushed and fences waited for, of each operation")?;
    report.table(
        &[
            "",
            "insert",
            "insert, stable",
            "remove, stable",
            "update",
            "bytes an entry",
            "insert, public program",
        ],
        lines.collect(),
    )?;
    moving(report, counted)
}

/// Reports how many times fewer lines an insert into a stable tree flushes with entry moving.
fn moving(report: &mut Reporter<'_>, counted: &[Counted]) -> Result<(), BenchError> {
    let of = |kind: TreeKind, moving: bool| {
        let mut trees = counted.iter();
        trees.find(|tree| tree.system.kind == kind && tree.system.moving == moving)
    };
    let mut rows = vec![];
    for kind in [TreeKind::Lb, TreeKind::Lb2, TreeKind::Lb4] {
        if let (Some(moved), Some(still)) = (of(kind, true), of(kind, false)) {
            let ratio = still.stable.lines / moved.stable.lines;
            let config = config! {"tree": kind.name(), "operation": "insert, stable"};
            report.value(
                kind.name(),
                &config,
                "lines without over with entry moving",
                ratio,
                "x",
            )?;
            rows.push(vec![kind.to_string(), format!("{ratio:.3}x")]);
        }
    }
    report.table(&["insert, stable", "lines without over with entry moving"], rows)
}

pub(super) fn figure(
    report: &mut Reporter<'_>,
    settings: &Settings,
    rows: usize,
    counted: &[Counted],
) -> Result<(), BenchError> {
    let Some(directory) = &settings.tiers.plots else {
        return Ok(());
    };
    let Some(first) = counted.first() else {
        return Ok(());
    };
    let groups = first.costs().map(|(name, _)| name);
    let groups = groups
        .iter()
        .flat_map(|name| [format!("{name}: lines"), "fences".to_owned()]);
    let series = counted.iter().map(|tree| {
        let values = tree
            .costs()
            .into_iter()
            .flat_map(|(_, cost)| [cost.lines, cost.fences]);
        (tree.system.name(), values.collect())
    });
    let columns = GroupedColumns {
        frame: Frame {
            title: "What a change of a tree costs".to_owned(),
            x: "operation".to_owned(),
            y: "lines flushed, fences waited for".to_owned(),
            foot: format!(
                "{rows} random keys by inserts, then removals and inserts by turns at that size, keys and values of 8 bytes, \
                 seed {}, one thread, counted",
                settings.seed
            ),
        },
        groups: groups.collect(),
        series: series.collect(),
    };
    let path = plot::write(directory, "tree-writes", &columns)?;
    report.line(&format!("figure: {}", path.display()))
}
