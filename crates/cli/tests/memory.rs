//! The DRAM that commands take, against `--memory`.

mod common;

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use common::Home;

/// Runs the program and gives its output and the most anonymous memory it was seen to have, in MiB.
fn peak_of(home: &Home, arguments: &[&str]) -> (String, u64) {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("halocline"))
        .current_dir(home.directory())
        .env("TMPDIR", home.directory())
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut rows = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        rows.read_to_string(&mut text).map(|_| text)
    });
    let path = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let size = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        peak = peak.max(size.unwrap_or(0) / 1024);
        std::thread::yield_now();
    }
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(child.wait().unwrap().success(), "{arguments:?}: {errors}");
    (reader.join().unwrap().unwrap(), peak)
}

/// MiB that the process takes in any case: code that was relocated, stacks, the planner.
const PROCESS: u64 = 24;

/// Checks the rows of queries in a budget, in MiB, against those with enough memory, and the peak of the
/// process.
fn check_peaks(home: &Home, queries: &[&str], budget: u64, most: u64) {
    for query in queries {
        let run = |memory: &str| {
            let arguments = [
                "sql",
                "p",
                query,
                "--output",
                "csv",
                "--threads",
                "4",
                "--memory",
                memory,
            ];
            peak_of(home, &arguments)
        };
        let (model, _) = run("2G");
        let (rows, peak) = run(&format!("{budget}M"));
        assert!(rows == model, "{query}: other rows than with enough memory");
        assert!(peak <= most, "{query}: {peak} MiB");
    }
}

/// Build sides of several times the budget, with keys of one row and of many.
#[test]
fn joins_spill_within_the_budget() {
    const BUDGET: u64 = 48;
    let home = Home::new();
    for table in [
        "CREATE TABLE t AS SELECT i * 7919 % 800011 AS k, 'customer number ' || (i * 31 % 800011) AS name, i AS v \
         FROM generate_series(1, 800000) AS g(i)",
        "CREATE TABLE u AS SELECT i * 104729 % 800011 AS k, i % 3 AS many, i AS v FROM generate_series(1, 800000) AS g(i)",
    ] {
        home.ok(&["sql", "p", table]);
    }
    let joins = [
        "SET halocline.array_join = off; SELECT count(*), min(t.name), max(t.name), sum(u.v) FROM u JOIN t ON t.k = u.k",
        "SET halocline.array_join = off; SELECT count(*), min(t.name), sum(u.v) FROM t LEFT JOIN u ON t.k = u.k AND t.v < u.v",
        "SET halocline.array_join = off; SELECT count(*), min(a.name), max(b.name) FROM t a JOIN t b ON a.name = b.name",
        "SET halocline.array_join = off; SELECT count(*) FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.many = 1 AND u.v <> t.v)",
        "SET halocline.array_join = force; SELECT count(*), min(t.name), max(t.name), sum(u.v) FROM u JOIN t ON t.k = u.k",
        "SET halocline.spilling_join = force; SELECT count(*), max(t.name) FROM t JOIN (SELECT many, v FROM u WHERE v < 40) s ON t.k % 3 = s.many",
    ];
    check_peaks(&home, &joins, BUDGET, BUDGET * 11 / 10 + PROCESS);
}

/// Strings, whose groups and sorted runs are several times the budget.
#[test]
fn sorts_and_groups_spill_within_the_budget() {
    const BUDGET: u64 = 32;
    let home = Home::new();
    home.ok(&[
        "sql",
        "p",
        "CREATE TABLE t AS SELECT 'customer number ' || (i * 7919 % 400009) AS k, i AS v FROM generate_series(1, 400000) AS g(i)",
    ]);
    let queries = [
        "SELECT k, v FROM t ORDER BY k, v DESC",
        "SELECT count(*), sum(n), min(l), max(h) FROM (SELECT k, count(*) AS n, min(v) AS l, max(v) AS h FROM t GROUP BY k)",
        "SELECT count(*) FROM (SELECT DISTINCT k FROM t)",
    ];
    check_peaks(&home, &queries, BUDGET, BUDGET + PROCESS);
}
