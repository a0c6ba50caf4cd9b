//! A worker: runs cases one after the other within limited memory, and says what is wrong with each.

use std::fs;
use std::io::{self, Write};
use std::panic;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::answers::Answers;
use crate::case::{self, Files};
use crate::process::Work;

/// Bytes of DRAM that cases may take beside what an intact pool takes.
const MEMORY: u64 = 256 << 20;

/// The case that is running.
static SEED: AtomicU64 = AtomicU64::new(0);

/// Runs the cases of a worker.
pub(crate) fn work(work: &Work) {
    panic::set_hook(Box::new(|what| {
        say(&format!("@bad {} panic: {what}", SEED.load(Ordering::Relaxed)));
        process::exit(3);
    }));
    let files = Files::new(&work.directory);
    let answers = Answers::read(&files);
    limit_memory();
    for seed in &work.seeds {
        SEED.store(*seed, Ordering::Relaxed);
        say(&format!("@seed {seed}"));
        for text in case::run(&work.name, *seed, &files, &answers) {
            say(&format!("@bad {seed} {text}"));
        }
    }
    say("@done");
}

/// Prints a line, as one.
fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "\n{}", text.replace('\n', " "));
    let _ = out.flush();
}

/// Lets allocations fail beyond what this process has now and [`MEMORY`] more.
fn limit_memory() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmData:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    let most = Rlimit {
        current: Some((kib << 10) + MEMORY),
        maximum: getrlimit(Resource::Data).maximum,
    };
    setrlimit(Resource::Data, most).unwrap();
}
