//! The experiments, small.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::home::{Home, PROGRAM, stdout};

#[test]
fn experiments_are_listed() {
    let home = Home::new();
    let text = stdout(&home.ok(&["list"]));
    for experiment in [
        "elf-layout",
        "elf-selections",
        "ingest",
        "churn",
        "open",
        "tree-writes",
        "tree-ops",
        "hot-index",
        "access-sequential",
        "access-selective",
        "access-random",
        "joins",
        "tpch-tiers",
        "tree-recovery",
        "verify",
    ] {
        assert!(text.contains(experiment), "{text}");
    }
    assert_eq!(stdout(&home.ok(&[])), text);
}

#[test]
fn every_experiment_runs_and_writes_its_values() {
    let home = Home::new();
    for experiment in [
        "elf-layout",
        "elf-selections",
        "ingest",
        "churn",
        "open",
        "tree-writes",
        "tree-ops",
        "hot-index",
        "access-sequential",
        "access-selective",
        "access-random",
        "joins",
        "tree-recovery",
        "verify",
    ] {
        let run = home.ok(&[experiment, "--quick", "--json", "values.jsonl", "--seed", "7"]);
        assert!(stdout(&run).contains("│"), "{}", stdout(&run));
        let text = fs::read_to_string(home.path("values.jsonl")).unwrap();
        let mut values = 0;
        for line in text.lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            if value["experiment"] == experiment {
                values += 1;
                for key in ["system", "metric", "unit"] {
                    assert!(value[key].is_string(), "{line}");
                }
                assert!(value["value"].is_f64() && value["config"]["seed"] == 7, "{line}");
            }
        }
        assert!(values > 10, "{experiment}: {values} values");
    }
    assert_eq!(home.files(), ["values.jsonl"], "temporary files are removed");
}

#[test]
fn ctrl_c_ends_joins_and_leaves_nothing() {
    let home = Home::new();
    let mut child = Command::new(PROGRAM)
        .args(["joins", "--quick", "--memory", "4M", "--on", "page-cache"])
        .current_dir(home.directory())
        .env("TMPDIR", home.directory())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The pool with the tables is a file without a name.
    let files = format!("/proc/{}/fd", child.id());
    let has_tables = || {
        let links = fs::read_dir(&files).into_iter().flatten().flatten();
        links
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .any(|target| target.to_string_lossy().ends_with("/joins (deleted)"))
    };
    while !has_tables() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(home.files().is_empty());
}
