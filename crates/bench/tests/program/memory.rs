//! The DRAM that commands of `halocline` take, against `--memory`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::home::{Home, PROGRAM};

/// Least size of the table, in budgets.
const TABLE: f64 = 4.0;
/// Greatest peak, in budgets.
const PEAK: f64 = 1.15;

#[test]
fn import_index_append_and_compaction_stay_within_the_budget() {
    let measured = Path::new(PROGRAM).with_file_name("halocline");
    assert!(
        measured.is_file(),
        "{} is not there: `cargo test --workspace` builds it, and so does `cargo build`",
        measured.display()
    );
    let home = Home::new();
    let file = home.path("memory.json");
    home.ok(&["memory", "--quick", "--json", file.to_str().unwrap()]);
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
