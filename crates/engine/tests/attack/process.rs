//! Workers and their watchdog: cases run in other processes, so that an abort or an endless loop is one
//! case's failure.
//!
//! Lines that a worker prints: `@seed N` before a case, `@bad N CLASS: TEXT` for what is wrong with it,
//! `@done` at its end. A worker that dies or is ended is followed by another one, which goes on after the
//! case.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::pristine;

/// CPU time that a case may take, of all threads. Time that others take on a busy machine does not count.
const CPU: Duration = Duration::from_secs(4);
/// Time that a case may take if it uses no CPU, as when threads wait for each other.
const IDLE: Duration = Duration::from_secs(60);
/// How often the watchdog looks.
const LOOK: Duration = Duration::from_millis(100);
/// Failing cases that are shown.
const SHOWN: usize = 20;
/// Lines that are shown of each of them.
const TOLD: usize = 3;
/// Ticks of the CPU times in /proc per second, on every Linux.
const TICKS: u64 = 100;

const TASK: &str = "HALOCLINE_ATTACK_TASK";
const SEED: &str = "HALOCLINE_SEED";

/// The work of a worker: `NAME FROM TO STEP DIRECTORY`.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) name: String,
    pub(crate) seeds: Vec<u64>,
    pub(crate) directory: PathBuf,
}

/// The work of this process, if it is a worker.
pub(crate) fn work() -> Option<Work> {
    let task = env::var(TASK).ok()?;
    let mut words = task.splitn(5, ' ');
    let name = words.next()?.to_owned();
    let mut number = || words.next()?.parse::<u64>().ok();
    let (from, to, step) = (number()?, number()?, number()?);
    Some(Work {
        name,
        seeds: (from..to).step_by(step as usize).collect(),
        directory: words.next()?.into(),
    })
}

/// A number from the environment.
pub(crate) fn count(name: &str, default: u64) -> u64 {
    env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// Runs cases 0 to `count`, or the one that the environment names.
///
/// # Panics
/// If any fails, with the first of them.
pub(crate) fn run(name: &str, count: u64) {
    let (from, to) = match env::var(SEED).ok().and_then(|text| text.parse().ok()) {
        Some(seed) => (seed, seed + 1),
        None => (0, count),
    };
    let directory = tempfile::tempdir().unwrap();
    pristine::make(directory.path());
    let lanes = thread::available_parallelism().map_or(1, usize::from).min(4) as u64;
    println!(
        "{} cases of {name}, {lanes} at a time; {SEED}=N runs one",
        to - from
    );
    let start = Instant::now();
    let mut bad = BTreeMap::new();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..lanes)
            .map(|lane| {
                let directory = directory.path();
                scope.spawn(move || run_lane(name, from + lane, to, lanes, directory))
            })
            .collect();
        for worker in workers {
            bad.extend(worker.join().unwrap());
        }
    });
    let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
    for text in bad.values().flatten() {
        *classes.entry(text.split(':').next().unwrap_or("")).or_default() += 1;
    }
    println!(
        "{} of {} failed in {:?}: {classes:?}",
        bad.len(),
        to - from,
        start.elapsed()
    );
    let shown: Vec<String> = bad
        .iter()
        .take(SHOWN)
        .map(|(seed, texts)| {
            let texts: Vec<_> = texts.iter().take(TOLD).map(String::as_str).collect();
            format!("seed {seed}: {}", texts.join("\n    "))
        })
        .collect();
    assert!(
        bad.is_empty(),
        "{} cases failed, {classes:?}:\n{}",
        bad.len(),
        shown.join("\n")
    );
}

type Bad = BTreeMap<u64, Vec<String>>;

/// Runs every `step`-th case, one worker after the other until all are done.
fn run_lane(name: &str, from: u64, to: u64, step: u64, directory: &Path) -> Bad {
    let mut bad = Bad::new();
    let mut next = from;
    while next < to {
        let errors = directory.join(format!("errors-{from}"));
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["worker", "--exact", "--nocapture", "--test-threads=1"])
            .env(TASK, format!("{name} {next} {to} {step} {}", directory.display()))
            .env("RUST_BACKTRACE", "0")
            .stdout(Stdio::piped())
            .stderr(File::create(&errors).unwrap())
            .spawn()
            .unwrap();
        let (last, done, mut end) = watch(&mut child, &mut bad);
        let Some(last) = last else {
            panic!("a worker did not begin: {end} {}", tail(&errors));
        };
        if !done {
            let told = bad
                .get(&last)
                .is_some_and(|texts| texts.iter().any(|text| text.starts_with("panic")));
            if !told {
                end += &tail(&errors);
                bad.entry(last).or_default().push(end);
            }
        }
        next = if done { to } else { last + step };
    }
    bad
}

/// Reads what a worker says until it ends, or ends it: the last case it began, whether it came to the end,
/// and how it ended.
fn watch(child: &mut Child, bad: &mut Bad) -> (Option<u64>, bool, String) {
    let lines = lines_of(child);
    let (mut last, mut done) = (None, false);
    let (mut since, mut cpu) = (Instant::now(), cpu_time(child.id()));
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                let mut words = line.splitn(3, ' ');
                let word = words.next();
                let seed = words.next().and_then(|text| text.parse().ok());
                match (word, seed) {
                    (Some("@seed"), Some(seed)) => {
                        last = Some(seed);
                        (since, cpu) = (Instant::now(), cpu_time(child.id()));
                    }
                    (Some("@bad"), Some(seed)) => {
                        let text = words.next().unwrap_or("").to_owned();
                        bad.entry(seed).or_default().push(text);
                    }
                    (Some("@done"), _) => done = true,
                    _ => {}
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = child.wait().unwrap();
                return (last, done, format!("died: {status} "));
            }
            Err(RecvTimeoutError::Timeout) => {
                let used = cpu_time(child.id()).saturating_sub(cpu);
                if last.is_some() && !done && (used > CPU || since.elapsed() > IDLE) {
                    // It may have come to its end.
                    let _ = child.kill();
                    let _ = child.wait();
                    let text = format!("endless: {used:?} of CPU time, {:?} in all ", since.elapsed());
                    return (last, false, text);
                }
            }
        }
    }
}

fn lines_of(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    let out = child.stdout.take().unwrap();
    thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// User and system time of a process so far.
fn cpu_time(process: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name, which is the second field, ends with the last parenthesis.
    let fields = text.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 1000 / TICKS)
}

/// The end of what a worker wrote about its death.
fn tail(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}
