//! The demo, small.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Home, assert_error, stderr, stdout};

#[test]
fn the_demo_runs_in_a_pipe_and_leaves_nothing() {
    let home = Home::new();
    let run = home.ok(&["demo", "--sf", "0.01"]);
    let text = stdout(&run);
    for part in [
        "Medium: ",
        "TPC-H lineitem at scale factor 0.01: 60,175 rows",
        "an Elf over l_discount, l_quantity, ",
        "build the index",
        "scan : index",
        "DataFusion : index",
        "chosen by default",
        "text : prepared",
        "Star Schema Benchmark at scale factor 0.0034",
        "SSB 2.1",
        "SSB 3.1",
        "SSB 4.1",
        "Restart, in a new process: opened in ",
        "with the answer of before",
        "of DRAM of its own",
        "kill -9 of 3 processes",
        "all of them are among the",
        "EMULATED",
        "exact match, one at a time",
        "exact match, 4,096 at a time",
        "% in DRAM, µs",
        "nothing : all",
        "7. In this run, DataFusion over Parquet took ",
        " of 60,175 rows.",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let last = text.lines().last().unwrap_or_default();
    assert!(
        last.contains("--dir DIR"),
        "the last sentence says how to go on: {last}"
    );
    assert_eq!(stderr(&run), "", "no progress bars in a pipe");
    assert_eq!(
        std::fs::read_dir(home.directory()).unwrap().count(),
        0,
        "temporary files are removed"
    );
}

#[test]
fn the_demo_can_leave_its_files_to_go_on_with() {
    let home = Home::new();
    let text = stdout(&home.ok(&["demo", "--sf", "0.01", "--dir", "kept"]));
    assert!(text.contains("halocline sql kept/demo.pool"), "{text}");
    assert_eq!(
        home.csv("kept/demo.pool", "SELECT count(*) AS n FROM lineitem"),
        "n\n60175\n"
    );
    let whole = "SELECT count(*) > 0 AND count(*) = max(id) AS whole FROM arrivals";
    assert_eq!(home.csv("kept/demo.pool", whole), "whole\ntrue\n");
    let placed = home.csv("kept/demo.pool", "SHOW INDEXES");
    assert!(
        placed.contains("slow-only"),
        "the index is left as it was built: {placed}"
    );
    assert!(stdout(&home.ok(&["check", "kept/demo.pool"])).contains("no damage found"));
    let run = home.fails(1, &["demo", "--sf", "0.01", "--dir", "kept"]);
    assert_error(&run, &["demo.pool exists already", "--dir"]);
}

#[test]
fn the_demo_ends_soon_after_ctrl_c_and_leaves_nothing() {
    let home = Home::new();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("halocline"))
        .args(["demo", "--sf", "0.01"])
        .env("TMPDIR", home.directory())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = lines.map(Result::unwrap);
    // From here on it asks queries, for seconds.
    assert!(seen.any(|line| line.contains("build the index")));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stderr).contains("error: interrupted"));
    assert_eq!(std::fs::read_dir(home.directory()).unwrap().count(), 0);
}
