//! `churn`: what a hundred appends cost, what they do to queries, and what compaction does to readers.
//!
//! TPC-H lineitem with an Elf over four columns, twice: loaded at once, and in a hundred appends of 1 % each,
//! which gives as many segments. The same queries are asked of both, before and after the hundred segments
//! are compacted. Then one reader for each thread asks selections all the time: undisturbed, and while the
//! whole table is written anew, as fast as it goes and with a limit on what is written per second.

mod load;
mod queries;
mod readers;

use halocline_emulator::ClockMode;

use crate::{BenchError, Reporter, Settings, TableView};

pub(super) const VIEWS: &[TableView] = &[
    TableView {
        title: "one load beside a hundred appends",
        metrics: &[
            "load",
            "segments",
            "pool_used",
            "compaction",
            "compacted_segments",
        ],
        split: &[],
        rows: &["metric"],
        columns: "system",
        base: Some("one load"),
    },
    TableView {
        title: "time of a query on one load and on the appends",
        metrics: &["query"],
        split: &["state"],
        rows: &["name"],
        columns: "system",
        base: Some("one load"),
    },
    TableView {
        title: "readers beside a compaction",
        metrics: &["throughput", "latency_p50", "latency_p99"],
        split: &["readers"],
        rows: &["beside"],
        columns: "metric",
        base: None,
    },
];

pub(super) const TABLE: &str = "lineitem";

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let scale_factor = settings
        .scale_factor
        .unwrap_or(if settings.quick { 0.01 } else { 1.0 });
    report.set("seed", settings.seed);
    report.set("scale_factor", scale_factor);
    report.set("threads", settings.threads());
    let directory = settings.temporary_directory()?;
    let loaded = load::load(directory.path(), scale_factor, settings, report)?;
    queries::compare(&loaded, "segments", settings, report)?;
    queries::compact(&loaded, report)?;
    queries::compare(&loaded, "compacted", settings, report)?;
    let device = loaded.many.device();
    if device.is_some_and(|device| device.spec().clock == ClockMode::Virtual) {
        return report.line(
            "no readers beside a compaction: nothing waits on a virtual clock; --medium …:delay has them",
        );
    }
    readers::disturb(&loaded.many, settings, report)
}
