//! `space`: bytes in the file over bytes of keys and values, after all records were overwritten ten times at
//! random, with and without a reader that sees the state before.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use halocline_workloads::{SplitMix64, YcsbRun, YcsbStore, YcsbWorkload};

use super::super::ordered::medium::TreeMedium;
use super::{VALUES, create, live_bytes, records};
use crate::{Backing, BenchError, Reporter, Settings, TableView, config};

pub(in crate::experiments) const VIEWS: &[TableView] = &[TableView {
    title: "bytes in the file over bytes of keys and values",
    metrics: &["space", "space_peak", "space_closed"],
    split: &["on", "value_bytes", "long_reader"],
    rows: &["metric"],
    columns: "system",
    base: None,
}];

/// Overwrites, as a multiple of the number of records.
const ROUNDS: u64 = 10;
/// Writes of each commit.
const COMMIT: u64 = 1000;
/// Bytes of the blocks that a file's metadata counts.
const BLOCK: u64 = 512;

pub(in crate::experiments) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    report.set("seed", settings.seed);
    let records = records(settings, 1_000_000);
    report.set("records", records);
    let media = settings.backings(&[Backing::Dax]).iter();
    for medium in media.filter(|medium| **medium != Backing::Emulated) {
        let place = TreeMedium::new(*medium, settings)?;
        place.announce(report)?;
        for value_bytes in VALUES {
            for long_reader in [false, true] {
                let run = YcsbRun {
                    workload: YcsbWorkload::A,
                    records,
                    operations: 0,
                    threads: 1,
                    commit: COMMIT,
                    value_bytes,
                    seed: settings.seed,
                };
                measure(&place, &run, long_reader, report)?;
            }
        }
    }
    Ok(())
}

fn measure(
    place: &TreeMedium,
    run: &YcsbRun,
    long_reader: bool,
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    let path = place.path("store");
    let target = create(place, "store")?;
    run.load(&target, |_| Ok(()))?;
    let reader = long_reader.then(|| target.stores().snapshot());
    let mut rng = SplitMix64::new(run.seed);
    let mut peak = allocated(&path)?;
    for first in (0..run.records * ROUNDS).step_by(COMMIT as usize) {
        let versions = first..first + COMMIT;
        let pairs: Vec<_> = versions
            .map(|version| run.pair(rng.below(run.records), version + 1))
            .collect();
        target.write(&pairs)?;
        if first % (run.records / 10).max(COMMIT) == 0 {
            peak = peak.max(allocated(&path)?);
        }
    }
    let end = allocated(&path)?;
    if let Some(reader) = reader {
        for record in 0..run.records.min(100) {
            let (key, value) = run.pair(record, 0);
            let found = reader.get(target.store(), &key)?;
            if found.as_ref() != Some(&value) {
                return Err(BenchError::Setup(format!(
                    "the reader does not see record {record} as it was"
                )));
            }
        }
    }
    drop(target);
    let closed = allocated(&path)?;
    fs::remove_file(&path)?;
    let live = live_bytes(run) as f64;
    let config = config! {
        "value_bytes": run.value_bytes,
        "changes_of_a_commit": COMMIT,
        "rounds": ROUNDS,
        "long_reader": long_reader,
    };
    let values = [
        ("space", end),
        ("space_peak", peak.max(end)),
        ("space_closed", closed),
    ];
    for (metric, bytes) in values {
        report.value("store", &config, metric, bytes as f64 / live, "x")?;
    }
    Ok(())
}

fn allocated(path: &Path) -> Result<u64, BenchError> {
    Ok(fs::metadata(path)?.blocks() * BLOCK)
}
