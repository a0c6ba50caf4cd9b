//! The recordings behind docs/results.md: which experiments are run, with which options.
//!
//! Nothing else should run on the machine meanwhile. A recording replaces the previous one only when all runs
//! of its experiment have succeeded. Values of other systems, which `bench/peers/ssb.py` and `bench/peers/kv`
//! measure, have to be added to the recordings of `ssb`, `ycsb`, `space` and `open-after-kill` again after
//! it:
//! `zstd -19 < NEW.jsonl >> docs/results/NAME.jsonl.zst`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{cargo, run};

/// Where recordings, the full pages of results, and the notes and figures on them lie, relative to the root.
const DIRECTORY: &str = "docs/results";

/// Where the files of a recording are written until it is complete, and where the pools and Parquet files of
/// the Star Schema Benchmark and of TPC-H are kept between runs.
const DATA: &str = "target/record";

/// Experiments and the options of each of their runs.
const RUNS: [(&str, &[&str]); 32] = [
    ("elf-layout", &[]),
    (
        "elf-media",
        &[
            "--data",
            "uniform",
            "--full",
            "--layout",
            "packed",
            "--repeat",
            "1",
            "--queries",
            "exact,batch,range,partial",
        ],
    ),
    (
        "elf-media",
        &["--data", "uniform", "--layout", "published", "--rows", "10000000"],
    ),
    (
        "elf-policies",
        &["--data", "uniform", "--layout", "packed", "--repeat", "3"],
    ),
    (
        "elf-warmup",
        &["--data", "uniform", "--layout", "packed", "--warm-up", "3000000"],
    ),
    (
        "elf-parallel",
        &[
            "--data", "uniform", "--layout", "packed", "--repeat", "3", "--medium", "dram",
        ],
    ),
    ("elf-selections", &["--sf", "1"]),
    ("ingest", &[]),
    ("churn", &[]),
    ("memory", &[]),
    ("open", &[]),
    ("verify", &[]),
    (
        "ssb",
        &["--sf", "1", "--scaling", "--on", "page-cache", "--dir", DATA],
    ),
    ("ssb", &["--sf", "10", "--on", "dram,emulated", "--dir", DATA]),
    (
        "ssb",
        &[
            "--sf",
            "10",
            "--on",
            "page-cache",
            "--star",
            "on,off",
            "--dir",
            DATA,
        ],
    ),
    ("tpch-tiers", &["--sf", "1", "--dir", DATA]),
    ("tree-writes", &[]),
    ("tree-ops", &["--on", "dax"]),
    (
        "tree-ops",
        &["--on", "page-cache", "--rows", "1000000", "--repeat", "1"],
    ),
    (
        "tree-ops",
        &[
            "--on",
            "emulated",
            "--rows",
            "5000000",
            "--repeat",
            "1",
            "--trees",
            "lb,lb4,fp,fast-fair,wb",
        ],
    ),
    ("tree-recovery", &["--on", "dax", "--repeat", "3"]),
    ("hot-index", &["--on", "dax", "--rows", "2000000"]),
    ("hot-index", &["--on", "emulated", "--rows", "1000000"]),
    ("access-sequential", &[]),
    ("access-selective", &[]),
    ("access-random", &[]),
    ("joins", &["--memory", "8M", "--on", "dax,page-cache,emulated"]),
    ("ycsb", &["--on", "dax", "--rows", "500000"]),
    ("ycsb", &["--on", "emulated", "--rows", "200000", "--repeat", "1"]),
    ("space", &["--on", "dax"]),
    ("space", &["--on", "page-cache", "--rows", "100000"]),
    ("open-after-kill", &["--on", "page-cache"]),
];

/// Records the experiments named, or all, and writes the pages of results.
pub(crate) fn record(root: &Path, names: &[String]) -> Result<(), String> {
    let known = |name: &String| RUNS.iter().any(|(experiment, _)| experiment == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        return Err(format!(
            "there is no recording of `{unknown}`; `halocline bench list` shows the experiments"
        ));
    }
    // Experiments run commands of the program beside their own.
    let build = ["build", "--release", "--locked", "--package", "halocline-cli"];
    cargo("program", &build, &[])?;
    for directory in [DATA, DIRECTORY] {
        fs::create_dir_all(root.join(directory))
            .map_err(|error| format!("cannot create {directory}: {error}"))?;
    }
    let mut experiments: Vec<&str> = RUNS.iter().map(|(experiment, _)| *experiment).collect();
    experiments.dedup();
    experiments.retain(|experiment| names.is_empty() || names.iter().any(|name| name == experiment));
    for experiment in experiments {
        record_one(root, experiment)?;
    }
    report()
}

/// Records all runs of an experiment.
fn record_one(root: &Path, experiment: &str) -> Result<(), String> {
    let unfinished = format!("{DATA}/{experiment}.jsonl.zst");
    // A run appends to the file, so values of an interrupted recording must not be left in it.
    fs::write(root.join(&unfinished), "").map_err(|error| format!("cannot write {unfinished}: {error}"))?;
    for (_, options) in RUNS.iter().filter(|(of, _)| *of == experiment) {
        let mut bench = halocline_bench();
        bench.arg(experiment).args(*options).args(["--json", &unfinished]);
        run(experiment, &mut bench)?;
    }
    let recording = format!("{DIRECTORY}/{experiment}.jsonl.zst");
    fs::copy(root.join(&unfinished), root.join(&recording))
        .map(drop)
        .map_err(|error| format!("cannot write {recording}: {error}"))
}

/// Writes the pages of results from the recordings.
pub(crate) fn report() -> Result<(), String> {
    let mut report = halocline_bench();
    report.args(["report", DIRECTORY, "--out", "docs/results.md"]);
    run("pages of results", &mut report)
}

fn halocline_bench() -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args([
        "run",
        "--quiet",
        "--release",
        "--locked",
        "--package",
        "halocline-bench",
        "--",
    ]);
    command
}
