//! The recordings behind docs/results.md: which experiments are run, with which options.
//!
//! A recording is worth something only if nothing else runs on the machine meanwhile.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::run;

/// Where recordings, figures and the text of each section lie, relative to the root.
const DIRECTORY: &str = "docs/results";

/// Where the pools and Parquet files of the Star Schema Benchmark are kept between runs.
const DATA: &str = "target/record";

/// Experiments and the options of each of their runs.
const RUNS: [(&str, &[&str]); 20] = [
    ("elf-layout", &[]),
    ("elf-media", &["--data", "uniform", "--layout", "packed"]),
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
];

/// Records the experiments named, or all, and writes the page of results.
pub(crate) fn record(root: &Path, names: &[String]) -> Result<(), String> {
    let known = |name: &String| RUNS.iter().any(|(experiment, _)| experiment == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        return Err(format!(
            "there is no recording of `{unknown}`; `halocline bench list` shows the experiments"
        ));
    }
    let wanted = |experiment: &str| names.is_empty() || names.iter().any(|name| name == experiment);
    fs::create_dir_all(root.join(DATA)).map_err(|error| format!("cannot make {DATA}: {error}"))?;
    let mut begun: Vec<&str> = vec![];
    for (experiment, options) in RUNS.into_iter().filter(|(experiment, _)| wanted(experiment)) {
        let file = format!("{DIRECTORY}/{experiment}.jsonl");
        if !begun.contains(&experiment) {
            begun.push(experiment);
            if root.join(&file).exists() {
                fs::remove_file(root.join(&file))
                    .map_err(|error| format!("cannot remove {file}: {error}"))?;
            }
        }
        let mut bench = halocline();
        bench.arg(experiment).args(options).args(["--json", &file]);
        run(experiment, &mut bench)?;
    }
    report()
}

/// Writes the page of results from the recordings.
pub(crate) fn report() -> Result<(), String> {
    let mut report = halocline();
    report.args(["report", DIRECTORY, "--out", "docs/results.md"]);
    run("page of results", &mut report)
}

fn halocline() -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args([
        "run",
        "--quiet",
        "--release",
        "--locked",
        "--package",
        "halocline-cli",
        "--",
        "bench",
    ]);
    command
}
