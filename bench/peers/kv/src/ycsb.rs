//! Rates and latencies of the YCSB core workloads.

use anyhow::{Result, anyhow, ensure};
use halocline_workloads::{YcsbError, YcsbOutcome, YcsbRun, YcsbStore, YcsbWorkload};
use serde_json::json;

use crate::cli::{Arguments, YcsbOptions};
use crate::disk::ScratchDirectory;
use crate::fixture;
use crate::report::{Config, Report};
use crate::systems::{KvStore, Pair, System};

pub(crate) fn run(arguments: &Arguments, options: &YcsbOptions) -> Result<()> {
    let columns = ["workload", "value B", "commit", "threads"];
    let mut report = Report::new("ycsb", arguments, &columns, &arguments.names())?;
    for case in cases(arguments, options)? {
        let mut rates = vec![Vec::new(); arguments.systems.len()];
        let mut p99s = rates.clone();
        for turn in 0..options.runs {
            let mut found = Vec::new();
            for index in 0..arguments.systems.len() {
                // Another system begins each time, so that none always follows the same one.
                let index = (index + turn) % arguments.systems.len();
                let system = arguments.systems[index];
                let (outcome, keys) = measure(system, arguments, case)?;
                rates[index].push(outcome.rate);
                p99s[index].push(outcome.percentile(99.0) as f64 / 1e9);
                found.push((system.name(), [outcome.read, outcome.scanned, keys]));
            }
            if case.threads > 1 {
                // How many records a scan returns near the last key depends on what the other thread
                // inserted.
                found.iter_mut().for_each(|(_, found)| found[1] = 0);
            }
            fixture::ensure_equal("reads, scanned records or keys", &found)?;
        }
        let mut cells = vec![
            case.workload.letter().to_string(),
            case.value_bytes.to_string(),
            case.commit.to_string(),
            case.threads.to_string(),
        ];
        for ((system, rates), p99s) in arguments.systems.iter().zip(rates).zip(p99s) {
            let rate = report.samples(system.labels(), &config(case), "rate", rates, "1/s")?;
            let p99 = report.samples(system.labels(), &config(case), "latency_p99", p99s, "s")?;
            cells.push(format!("{rate:.0}/s {:.1} us", p99 * 1e6));
        }
        eprintln!("{}", cells.join("  "));
        report.row(cells);
    }
    println!("operations per second, and the 99th percentile of their latencies");
    report.finish();
    Ok(())
}

fn cases(arguments: &Arguments, options: &YcsbOptions) -> Result<Vec<YcsbRun>> {
    let mut cases = Vec::new();
    for letter in options.workloads.chars() {
        let workload = YcsbWorkload::ALL
            .into_iter()
            .find(|workload| workload.letter() == letter.to_ascii_uppercase())
            .ok_or_else(|| anyhow!("there is no workload `{letter}`: use letters from A to F"))?;
        for &value_bytes in &arguments.values {
            for &commit in &options.commit {
                for &threads in &options.threads {
                    ensure!(
                        commit > 0 && threads > 0,
                        "--commit and --threads must be at least 1"
                    );
                    cases.push(YcsbRun {
                        workload,
                        records: arguments.records,
                        operations: options.operations,
                        threads,
                        commit,
                        value_bytes,
                        seed: arguments.seed,
                    });
                }
            }
        }
    }
    Ok(cases)
}

fn config(run: YcsbRun) -> Config {
    [
        ("workload", json!(run.workload.letter().to_string())),
        ("value_bytes", json!(run.value_bytes)),
        ("changes_of_a_commit", json!(run.commit)),
        ("threads", json!(run.threads)),
        ("operations", json!(run.operations)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect()
}

/// Loads a new store of a system, and runs the operations; the outcome, and the number of keys at the end.
fn measure(system: System, arguments: &Arguments, run: YcsbRun) -> Result<(YcsbOutcome, u64)> {
    let directory = ScratchDirectory::create(&arguments.dir)?;
    let store = system.open(directory.path())?;
    let store = YcsbTarget(&*store);
    run.load(&store, |_| Ok(()))?;
    let outcome = run.run(&store).map_err(|error| match error {
        YcsbError::Store(error) => error,
        other => anyhow!("{system}: {other}"),
    })?;
    Ok((outcome, fixture::count(store.0)?))
}

/// A system as the workloads see it.
struct YcsbTarget<'a>(&'a dyn KvStore);

impl YcsbStore for YcsbTarget<'_> {
    type Error = anyhow::Error;

    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.0.get(key, value)
    }

    fn write(&self, pairs: &[Pair]) -> Result<()> {
        self.0.write(pairs)
    }

    fn scan(&self, from: &[u8], length: usize) -> Result<u64> {
        self.0.scan(from, length)
    }
}
