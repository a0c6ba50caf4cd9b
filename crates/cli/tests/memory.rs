//! The DRAM that commands take, against `--memory`.

mod common;

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use common::Home;
use serde_json::Value;

/// The table is at least so many times as large as the budget, and the peak at most so many times.
const TABLE: f64 = 4.0;
const PEAK: f64 = 1.15;

#[test]
fn import_index_append_and_compaction_stay_within_the_budget() {
    let home = Home::new();
    let file = home.path("memory.json");
    home.ok(&["bench", "memory", "--quick", "--json", file.to_str().unwrap()]);
    let text = fs::read_to_string(file).unwrap();
    let values: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|value: &Value| value["metric"] == "peak_of_budget")
        .collect();
    let steps: Vec<&str> = values
        .iter()
        .filter_map(|value| value["config"]["step"].as_str())
        .collect();
    let expected = [
        "import",
        "index, numbers",
        "index, strings",
        "append",
        "compaction",
        "append, clustered",
        "compaction, clustered",
    ];
    assert_eq!(steps, expected);
    for value in &values {
        let config = &value["config"];
        let bytes = |name: &str| config[name].as_f64().unwrap();
        assert!(bytes("table_bytes") >= TABLE * bytes("budget_bytes"), "{value}");
    }
    let over: Vec<&Value> = values
        .iter()
        .filter(|value| value["value"].as_f64().unwrap() > PEAK)
        .collect();
    assert!(over.is_empty(), "{over:#?}");
}

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
    for query in [
        "SELECT k, v FROM t ORDER BY k, v DESC",
        "SELECT count(*), sum(n), min(l), max(h) FROM (SELECT k, count(*) AS n, min(v) AS l, max(v) AS h FROM t GROUP BY k)",
        "SELECT count(*) FROM (SELECT DISTINCT k FROM t)",
    ] {
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
            peak_of(&home, &arguments)
        };
        let (model, _) = run("2G");
        let (rows, peak) = run(&format!("{BUDGET}M"));
        assert!(rows == model, "{query}: other rows than with enough memory");
        // What the process takes in any case: code that was relocated, stacks, the planner.
        assert!(peak <= BUDGET + 24, "{query}: {peak} MiB");
    }
}
