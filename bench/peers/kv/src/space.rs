//! Bytes on disk over live bytes, after records were overwritten at random.

use anyhow::{Result, ensure};
use halocline_workloads::SplitMix64;
use serde_json::json;

use crate::cli::{Arguments, SpaceOptions};
use crate::disk::{self, ScratchDirectory};
use crate::fixture;
use crate::report::{Config, Report};
use crate::systems::System;

/// Records whose first version the long reader must still see at the end.
const READ_BY_READER: u64 = 100;

pub(crate) fn run(arguments: &Arguments, options: &SpaceOptions) -> Result<()> {
    ensure!(options.commit > 0, "--commit must be at least 1");
    let mut report = Report::new("space", arguments, &["value B", "reader"], &arguments.names())?;
    for &bytes in &arguments.values {
        let live = fixture::live_bytes(arguments.records, bytes) as f64;
        for reader in [false, true] {
            let config: Config = [
                ("value_bytes", json!(bytes)),
                ("changes_of_a_commit", json!(options.commit)),
                ("rounds", json!(options.rounds)),
                ("long_reader", json!(reader)),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect();
            let mut cells = vec![bytes.to_string(), if reader { "held" } else { "none" }.to_owned()];
            let mut found = Vec::new();
            for system in &arguments.systems {
                let used = measure(*system, arguments, options, bytes, reader)?;
                for (metric, bytes) in [
                    ("space", used.end),
                    ("space_peak", used.peak),
                    ("space_closed", used.closed),
                ] {
                    report.value(system.labels(), &config, metric, bytes as f64 / live, "x")?;
                }
                cells.push(format!(
                    "{:.2} peak {:.2} closed {:.2}",
                    used.end as f64 / live,
                    used.peak as f64 / live,
                    used.closed as f64 / live
                ));
                found.push((system.name(), used.keys));
            }
            fixture::ensure_equal("numbers of keys", &found)?;
            eprintln!("{}", cells.join("  "));
            report.row(cells);
        }
    }
    println!("bytes on disk over bytes of keys and values: at the end, at most, and after closing");
    report.finish();
    Ok(())
}

/// Bytes on disk.
struct Used {
    end: u64,
    /// The greatest of the samples after each tenth of a round.
    peak: u64,
    closed: u64,
    keys: u64,
}

fn measure(
    system: System,
    arguments: &Arguments,
    options: &SpaceOptions,
    bytes: usize,
    with_reader: bool,
) -> Result<Used> {
    let directory = ScratchDirectory::create(&arguments.dir)?;
    let store = system.open(directory.path())?;
    let records = arguments.records;
    fixture::load(&*store, records, bytes)?;
    let reader = if with_reader {
        Some(store.reader()?)
    } else {
        None
    };
    let mut rng = SplitMix64::new(arguments.seed);
    let writes = records * options.rounds;
    let sample = (records / 10).max(options.commit);
    let mut peak = disk::allocated_bytes(directory.path())?;
    for first in (0..writes).step_by(options.commit as usize) {
        let versions = first..writes.min(first + options.commit);
        let pairs: Vec<_> = versions
            .map(|version| fixture::pair(rng.below(records), version + 1, bytes))
            .collect();
        store.write(&pairs)?;
        if first / sample != (first + options.commit) / sample {
            peak = peak.max(disk::allocated_bytes(directory.path())?);
        }
    }
    let end = disk::allocated_bytes(directory.path())?;
    if let Some(reader) = &reader {
        let mut value = Vec::new();
        for record in 0..records.min(READ_BY_READER) {
            let (key, expected) = fixture::pair(record, 0, bytes);
            let found = reader(key.as_slice(), &mut value)?;
            ensure!(
                found && value == expected,
                "the reader of {system} does not see record {record}"
            );
        }
    }
    drop(reader);
    let keys = fixture::count(&*store)?;
    drop(store);
    Ok(Used {
        end,
        peak: peak.max(end),
        closed: disk::allocated_bytes(directory.path())?,
        keys,
    })
}
