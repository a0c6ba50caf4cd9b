//! The demo and the experiments, small.

mod common;

use common::{Home, assert_error, stderr, stdout};

#[test]
fn the_demo_runs_in_a_pipe_and_leaves_nothing() {
    let home = Home::new();
    let run = home.ok(&["demo", "--sf", "0.01"]);
    let text = stdout(&run);
    for part in [
        "TPC-H lineitem at scale factor 0.01: 60,175 rows",
        "an Elf over 8 columns",
        "exact match",
        "range",
        "partial match",
        "TPC-H Q1, selection",
        "TPC-H Q14, selection",
        "TPC-H Q19, selection",
        "TPC-H Q6",
        "nothing was rebuilt",
        "index in the pool",
        "DRAM of the restarted process",
        "Medium: ",
        "Emulated: nothing",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
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
    assert!(stdout(&home.ok(&["check", "kept/demo.pool"])).contains("no damage found"));
    let run = home.fails(1, &["demo", "--sf", "0.01", "--dir", "kept"]);
    assert_error(&run, &["demo.pool exists already", "--dir"]);
}

#[test]
fn experiments_are_listed() {
    let text = stdout(&Home::new().ok(&["bench", "list"]));
    for experiment in [
        "elf-layout",
        "elf-selections",
        "ingest",
        "churn",
        "open",
        "tree-writes",
        "tree-ops",
        "tree-recovery",
        "verify",
    ] {
        assert!(text.contains(experiment), "{text}");
    }
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
        "tree-recovery",
        "verify",
    ] {
        let run = home.ok(&[
            "bench",
            experiment,
            "--quick",
            "--json",
            "values.jsonl",
            "--seed",
            "7",
        ]);
        assert!(stdout(&run).contains("│"), "{}", stdout(&run));
        let text = std::fs::read_to_string(home.path("values.jsonl")).unwrap();
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
    let left: Vec<_> = std::fs::read_dir(home.directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["values.jsonl"], "temporary files are removed");
}
