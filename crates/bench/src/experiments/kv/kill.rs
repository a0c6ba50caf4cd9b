//! `open-after-kill`: a process that writes a store is killed; the time from opening the pool to the first
//! answer.
//!
//! The writing process is `halocline kv import`, which is fed records for as long as it lives. SIGKILL leaves
//! the page cache alone, so this is recovery from the death of a process, not from loss of power.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use halocline_workloads::{YcsbRun, YcsbWorkload};

use super::super::ordered::medium::TreeMedium;
use super::{STORE, open, records};
use crate::{Backing, BenchError, Chart, Reporter, Samples, Settings, TableView, config};

pub(in crate::experiments) const VIEWS: &[TableView] = &[TableView {
    title: "time from open to the first answer after kill -9",
    metrics: &["first_answer"],
    split: &["on", "value_bytes"],
    rows: &["records"],
    columns: "system",
    base: None,
}];

pub(in crate::experiments) const CHARTS: &[Chart] = &[Chart {
    title: "time from open to the first answer after kill -9",
    metrics: &["first_answer"],
    split: &["on", "value_bytes"],
    x: "records",
    x_label: "records",
    y_label: "ms",
    scale: 1e3,
    ..Chart::LINES
}];

/// Bytes of each value.
const VALUE: usize = 1000;

pub(in crate::experiments) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    report.set("seed", settings.seed);
    let most = records(settings, 10_000_000);
    let media = settings.backings(&[Backing::PageCache]).iter();
    for medium in media.filter(|medium| **medium != Backing::Emulated) {
        let place = TreeMedium::new(*medium, settings)?;
        place.announce(report)?;
        for records in [most / 100, most / 10, most] {
            let run = YcsbRun {
                workload: YcsbWorkload::A,
                records,
                operations: 0,
                threads: 1,
                commit: 1000,
                value_bytes: VALUE,
                seed: settings.seed,
            };
            measure(&place, &run, settings, report)?;
        }
    }
    Ok(())
}

fn measure(
    place: &TreeMedium,
    run: &YcsbRun,
    settings: &Settings,
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    // Loading need not be durable: the pool is closed before anyone is killed.
    let target = open(&halocline_pool::Pool::create_on(place.make("store")?.0)?)?;
    run.load(&target, |_| Ok(()))?;
    drop(target);
    let (mut opened, mut answered, mut written) =
        (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..settings.repetitions(5) {
        let fed = write_and_kill(settings, &place.path("store"), run)?;
        let (key, _) = run.pair(run.records / 2, 0);
        let start = Instant::now();
        let target = open(&place.open("store")?)?;
        opened.push(start.elapsed().as_secs_f64());
        let found = target.store().get(&key)?;
        answered.push(start.elapsed().as_secs_f64());
        written.push(fed as f64);
        let found = (found.map(|value| value.len()), target.store().len());
        super::super::ordered::ensure_same(
            "length of a value, number of keys",
            ("the model", (Some(VALUE), run.records)),
            ("store", found),
        )?;
    }
    std::fs::remove_file(place.path("store"))?;
    let config = config! {"records": run.records, "value_bytes": VALUE};
    report.samples("store", &config, "open", &opened, "s")?;
    report.samples("store", &config, "first_answer", &answered, "s")?;
    report.samples("store", &config, "fed", &written, "records")
}

/// Starts a process that overwrites records, feeds it, and kills it; returns the number of records it was
/// fed.
fn write_and_kill(settings: &Settings, pool: &Path, run: &YcsbRun) -> Result<u64, BenchError> {
    let mut child = Command::new(settings.program_for("the process that is killed")?)
        .arg("kv")
        .arg(pool)
        .args(["--name", STORE, "import", "-", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut input = child
        .stdin
        .take()
        .map(BufWriter::new)
        .ok_or_else(|| BenchError::Setup("the writing process has no stdin".to_owned()))?;
    let run = *run;
    // Writing fails when the process is dead.
    let feeder = thread::spawn(move || {
        let mut fed = 0;
        loop {
            let (key, value) = run.pair(fed % run.records, fed + 1);
            let text = String::from_utf8_lossy(&value).replace('"', "'");
            let line = writeln!(input, "{},\"{text}\"", String::from_utf8_lossy(&key));
            if line.is_err() {
                return fed;
            }
            fed += 1;
        }
    });
    thread::sleep(Duration::from_millis(if settings.quick { 300 } else { 2000 }));
    let ended = child.try_wait()?;
    child.kill()?;
    child.wait()?;
    let fed = feeder.join().unwrap_or(0);
    match ended {
        None => Ok(fed),
        Some(status) => Err(BenchError::Setup(format!(
            "the writing process ended by itself: {status}"
        ))),
    }
}
