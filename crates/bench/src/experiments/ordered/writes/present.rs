//! The counted values, and their figure.

use super::{Cost, Counted};
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
