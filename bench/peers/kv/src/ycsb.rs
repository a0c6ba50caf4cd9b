//! Rates and latencies of the YCSB core workloads.

use std::collections::HashSet;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use halocline_workloads::{YcsbGenerator, YcsbOp, YcsbWorkload, ycsb_key};
use serde_json::json;

use crate::cli::{Arguments, YcsbOptions};
use crate::disk::ScratchDirectory;
use crate::fixture;
use crate::report::{Config, Report};
use crate::systems::{KvStore, Pair, System};

/// One configuration.
#[derive(Clone, Copy)]
struct Case {
    workload: YcsbWorkload,
    bytes: usize,
    commit: u64,
    threads: u64,
    records: u64,
    operations: u64,
    seed: u64,
}

/// The results of one run.
struct Outcome {
    rate: f64,
    /// Latencies of all operations in ns, ascending.
    latencies: Vec<u64>,
    /// Numbers of records that reads and scans returned, and of keys at the end.
    found: [u64; 3],
}

pub(crate) fn run(arguments: &Arguments, options: &YcsbOptions) -> Result<()> {
    let columns = ["workload", "value B", "commit", "threads"];
    let mut report = Report::new("ycsb", arguments, &columns)?;
    for case in cases(arguments, options)? {
        let mut rates = vec![Vec::new(); arguments.systems.len()];
        let mut p99s = rates.clone();
        for turn in 0..options.runs {
            let mut found = Vec::new();
            for index in 0..arguments.systems.len() {
                // Another system begins each time, so that none always follows the same one.
                let index = (index + turn) % arguments.systems.len();
                let system = arguments.systems[index];
                let outcome = measure(system, arguments, case)?;
                rates[index].push(outcome.rate);
                p99s[index].push(percentile(&outcome.latencies, 99) as f64 / 1e3);
                found.push((system.name(), outcome.found));
            }
            if case.threads > 1 {
                // How many records a scan returns near the last key depends on what the other thread inserted.
                found.iter_mut().for_each(|(_, found)| found[1] = 0);
            }
            fixture::ensure_equal("reads, scanned records or keys", &found)?;
        }
        let mut cells = vec![
            case.workload.letter().to_string(),
            case.bytes.to_string(),
            case.commit.to_string(),
            case.threads.to_string(),
        ];
        for ((system, rates), p99s) in arguments.systems.iter().zip(rates).zip(p99s) {
            let rate = report.samples(*system, &case.config(), "rate", rates, "1/s")?;
            let p99 = report.samples(*system, &case.config(), "latency_p99", p99s, "us")?;
            cells.push(format!("{rate:.0}/s {p99:.1} us"));
        }
        eprintln!("{}", cells.join("  "));
        report.row(cells);
    }
    println!("operations per second, and the 99th percentile of their latencies");
    report.finish();
    Ok(())
}

fn cases(arguments: &Arguments, options: &YcsbOptions) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for letter in options.workloads.chars() {
        let workload = YcsbWorkload::ALL
            .into_iter()
            .find(|workload| workload.letter() == letter.to_ascii_uppercase())
            .ok_or_else(|| anyhow!("there is no workload `{letter}`: use letters from A to F"))?;
        for &bytes in &arguments.values {
            for &commit in &options.commit {
                for &threads in &options.threads {
                    ensure!(
                        commit > 0 && threads > 0,
                        "--commit and --threads must be at least 1"
                    );
                    cases.push(Case {
                        workload,
                        bytes,
                        commit,
                        threads,
                        records: arguments.records,
                        operations: options.operations,
                        seed: arguments.seed,
                    });
                }
            }
        }
    }
    Ok(cases)
}

impl Case {
    fn config(&self) -> Config {
        [
            ("workload", json!(self.workload.letter().to_string())),
            ("value_bytes", json!(self.bytes)),
            ("changes_of_a_commit", json!(self.commit)),
            ("threads", json!(self.threads)),
            ("operations", json!(self.operations)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
    }
}

/// Loads a new store of a system, and runs the operations.
fn measure(system: System, arguments: &Arguments, case: Case) -> Result<Outcome> {
    let directory = ScratchDirectory::create(&arguments.dir)?;
    let store = system.open(directory.path())?;
    fixture::load(&*store, case.records, case.bytes)?;
    let barrier = Barrier::new(case.threads as usize + 1);
    let mut outcome = Outcome {
        rate: 0.0,
        latencies: Vec::new(),
        found: [0; 3],
    };
    std::thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..case.threads)
            .map(|thread| {
                let (store, barrier) = (&*store, &barrier);
                scope.spawn(move || {
                    let client = Client::new(store, case, thread);
                    barrier.wait();
                    // The clock is the thread's own: on a busy machine this function's thread may wake up
                    // when the work is done.
                    let start = Instant::now();
                    let client = client?.run()?;
                    Ok::<_, anyhow::Error>((client, start, Instant::now()))
                })
            })
            .collect();
        barrier.wait();
        let mut clients = Vec::new();
        for thread in threads {
            clients.push(
                thread
                    .join()
                    .map_err(|_| anyhow!("a thread of {system} panicked"))??,
            );
        }
        let operations = case.operations / case.threads * case.threads;
        let start = clients.iter().map(|(_, start, _)| *start).min();
        let end = clients.iter().map(|(_, _, end)| *end).max();
        let elapsed = end.zip(start).map_or(Duration::ZERO, |(end, start)| end - start);
        outcome.rate = operations as f64 / elapsed.as_secs_f64();
        for (client, ..) in clients {
            outcome.latencies.extend(client.latencies);
            outcome.found[0] += client.read;
            outcome.found[1] += client.scanned;
        }
        Ok(())
    })?;
    outcome.found[2] = fixture::count(&*store)?;
    outcome.latencies.sort_unstable();
    Ok(outcome)
}

/// One thread of a run.
struct Client<'a> {
    store: &'a dyn KvStore,
    case: Case,
    generator: YcsbGenerator,
    /// Writes that are not committed yet.
    pending: Vec<Pair>,
    /// Records that are inserted, but not committed yet.
    inserted: HashSet<u64>,
    version: u64,
    value: Vec<u8>,
    latencies: Vec<u64>,
    read: u64,
    scanned: u64,
}

impl<'a> Client<'a> {
    fn new(store: &'a dyn KvStore, case: Case, thread: u64) -> Result<Self> {
        Ok(Self {
            store,
            case,
            generator: YcsbGenerator::new(case.workload, case.records, case.seed, thread, case.threads)?,
            pending: Vec::new(),
            inserted: HashSet::new(),
            version: 0,
            value: Vec::new(),
            latencies: Vec::with_capacity((case.operations / case.threads) as usize),
            read: 0,
            scanned: 0,
        })
    }

    fn run(mut self) -> Result<Self> {
        for number in 1..=self.case.operations / self.case.threads {
            let start = Instant::now();
            let op = self.generator.next_op();
            self.execute(op)?;
            if number % self.case.commit == 0 {
                self.commit()?;
            }
            self.latencies.push(start.elapsed().as_nanos() as u64);
        }
        self.commit()?;
        Ok(self)
    }

    fn execute(&mut self, op: YcsbOp) -> Result<()> {
        match op {
            YcsbOp::Read(record) => self.read(record)?,
            YcsbOp::Update(record) => self.write(record),
            YcsbOp::Insert(record) => {
                self.inserted.insert(record);
                self.write(record);
            }
            YcsbOp::Scan { start, length } => {
                self.scanned += self.store.scan(ycsb_key(start).as_bytes(), length as usize)?;
            }
            YcsbOp::ReadModifyWrite(record) => {
                self.read(record)?;
                self.write(record);
            }
        }
        Ok(())
    }

    fn read(&mut self, record: u64) -> Result<()> {
        let found = self.store.get(ycsb_key(record).as_bytes(), &mut self.value)?;
        // Workload D reads what was just inserted, which may be in the commit that is being collected.
        ensure!(
            found || self.inserted.contains(&record),
            "record {record} is missing"
        );
        self.read += u64::from(found);
        Ok(())
    }

    fn write(&mut self, record: u64) {
        self.version += 1;
        self.pending
            .push(fixture::pair(record, self.version, self.case.bytes));
    }

    fn commit(&mut self) -> Result<()> {
        if !self.pending.is_empty() {
            self.store.write(&self.pending)?;
            self.pending.clear();
            self.inserted.clear();
        }
        Ok(())
    }
}

fn percentile(ascending: &[u64], percent: usize) -> u64 {
    let index = (ascending.len() * percent / 100).min(ascending.len().saturating_sub(1));
    ascending.get(index).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_values() {
        let values: Vec<u64> = (0..200).collect();
        assert_eq!(percentile(&values, 50), 100);
        assert_eq!(percentile(&values, 99), 198);
        assert_eq!(percentile(&[], 99), 0);
    }
}
