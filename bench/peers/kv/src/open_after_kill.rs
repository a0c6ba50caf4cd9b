//! Time from open to the first answer, after the process that wrote the store was killed.
//!
//! SIGKILL leaves the kernel's page cache alone, so this measures recovery and not loss of power.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::json;

use crate::cli::{Arguments, KillOptions, WriterOptions};
use crate::disk::ScratchDirectory;
use crate::fixture;
use crate::report::{Config, Report};
use crate::systems::System;

pub(crate) fn run(arguments: &Arguments, options: &KillOptions) -> Result<()> {
    ensure!(options.commit > 0, "--commit must be at least 1");
    let mut report = Report::new(
        "open-after-kill",
        arguments,
        &["value B", "commit"],
        &arguments.names(),
    )?;
    for &bytes in &arguments.values {
        let mut opened = vec![Vec::new(); arguments.systems.len()];
        let mut answered = opened.clone();
        let mut written = opened.clone();
        for turn in 0..options.runs {
            let mut found = Vec::new();
            for index in 0..arguments.systems.len() {
                let index = (index + turn) % arguments.systems.len();
                let system = arguments.systems[index];
                let times = measure(system, arguments, options, bytes)?;
                opened[index].push(times.opened.as_secs_f64());
                answered[index].push(times.answered.as_secs_f64());
                written[index].push(times.writes as f64);
                found.push((system.name(), times.keys));
            }
            fixture::ensure_equal("numbers of keys", &found)?;
        }
        let config: Config = [
            ("value_bytes", json!(bytes)),
            ("changes_of_a_commit", json!(options.commit)),
            ("write_ms", json!(options.write_ms)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect();
        let mut cells = vec![bytes.to_string(), options.commit.to_string()];
        for (index, system) in arguments.systems.iter().enumerate() {
            let mut samples = |metric, values: &mut Vec<Vec<f64>>, unit| {
                report.samples(
                    system.labels(),
                    &config,
                    metric,
                    std::mem::take(&mut values[index]),
                    unit,
                )
            };
            samples("open", &mut opened, "s")?;
            let answer = samples("first_answer", &mut answered, "s")?;
            let writes = samples("writes_before", &mut written, "records")?;
            cells.push(format!("{:.1} ms ({writes:.0} writes)", answer * 1e3));
        }
        report.row(cells);
    }
    println!("time from open to the first answer, and the writes of the killed process");
    report.finish();
    Ok(())
}

struct Times {
    opened: Duration,
    answered: Duration,
    /// Writes that the killed process knew to be durable.
    writes: u64,
    keys: u64,
}

fn measure(system: System, arguments: &Arguments, options: &KillOptions, bytes: usize) -> Result<Times> {
    let directory = ScratchDirectory::create(&arguments.dir)?;
    {
        let store = system.open(directory.path())?;
        fixture::load(&*store, arguments.records, bytes)?;
    }
    let writes = write_and_kill(system, arguments, options, bytes, directory.path())?;
    let last = writes
        .checked_sub(1)
        .ok_or_else(|| anyhow!("{system} committed nothing before it was killed: use a longer --write-ms"))?;
    let (key, expected) = fixture::pair(last % arguments.records, last + 1, bytes);
    let mut value = Vec::new();
    let start = Instant::now();
    let store = system.open(directory.path())?;
    let opened = start.elapsed();
    let found = store.get(&key, &mut value)?;
    let answered = start.elapsed();
    ensure!(found && value == expected, "{system} has lost write {last}");
    Ok(Times {
        opened,
        answered,
        writes,
        keys: fixture::count(&*store)?,
    })
}

/// Starts a writing process and kills it. Returns the number of writes that it reported as durable.
fn write_and_kill(
    system: System,
    arguments: &Arguments,
    options: &KillOptions,
    bytes: usize,
    path: &Path,
) -> Result<u64> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--dir")
        .arg(&arguments.dir)
        .args(["writer", "--system", system.name(), "--path"])
        .arg(path)
        .args(["--count", &arguments.records.to_string()])
        .args([
            "--bytes",
            &bytes.to_string(),
            "--commit",
            &options.commit.to_string(),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the writing process")?;
    let mut out = child
        .stdout
        .take()
        .ok_or_else(|| anyhow!("the writing process has no pipe"))?;
    // The pipe is emptied while the process writes, or a full pipe would stop it.
    let reports = std::thread::spawn(move || -> std::io::Result<u64> {
        let (mut report, mut writes) = ([0; 8], 0);
        while out.read_exact(&mut report).is_ok() {
            writes = u64::from_le_bytes(report);
        }
        Ok(writes)
    });
    std::thread::sleep(Duration::from_millis(options.write_ms));
    let ended = child.try_wait()?;
    child.kill()?;
    child.wait()?;
    ensure!(ended.is_none(), "the writing process of {system} ended by itself");
    Ok(reports
        .join()
        .map_err(|_| anyhow!("the reading thread panicked"))??)
}

/// Overwrites records in turn, and reports the number of durable writes after each commit. Does not return.
pub(crate) fn write_until_killed(options: &WriterOptions) -> Result<()> {
    let store = options.system.open(&options.path)?;
    let mut out = std::io::stdout().lock();
    let mut writes = 0;
    loop {
        let numbers = writes..writes + options.commit;
        // Version 0 is the loaded one.
        let pairs: Vec<_> = numbers
            .map(|write| fixture::pair(write % options.count, write + 1, options.bytes))
            .collect();
        store.write(&pairs)?;
        writes += options.commit;
        out.write_all(&writes.to_le_bytes())?;
        out.flush()?;
    }
}
