//! The experiment on joins, small: every algorithm on every medium returns what the generator of the tables
//! has computed, or the experiment fails.

use halocline_bench::{Backing, Settings};
use serde_json::Value;

use crate::support::{Outcome, number, on, run};

/// A memory limit of a few thousand rows, which the modelled cache does not hold.
fn small(backings: &[Backing], theta: f64) -> Settings {
    let mut settings = Settings {
        memory: Some(64 << 10),
        rows: None,
        ..on(backings)
    };
    settings.tiers.thetas = vec![theta];
    settings.tiers.cache_model = Some(16 << 10);
    settings
}

/// The values of a metric, by size of the build side.
fn values_by_build_side(outcome: &Outcome, on: &str, keys: &str, system: &str, metric: &str) -> Vec<f64> {
    let is_of = |value: &&Value| {
        let config = &value["config"];
        value["system"] == system && config["on"] == on && config["keys"] == keys
    };
    outcome.values_of(metric).filter(is_of).map(number).collect()
}

#[test]
fn all_algorithms_are_measured_and_predicted_on_every_medium() {
    let outcome = run("joins", small(&Backing::ALL, 0.9));
    for value in &outcome.values {
        let config = &value["config"];
        for name in [
            "on",
            "medium",
            "threads",
            "seed",
            "memory",
            "build_rows",
            "rows",
            "costs",
        ] {
            assert!(!config[name].is_null(), "no {name} in {value}");
        }
        let is_emulated = config["on"].as_str().unwrap().starts_with("emulated");
        assert_eq!(is_emulated, config["profile"] != Value::Null, "{value}");
    }
    for on in ["dram", "dax", "page-cache", "emulated optane"] {
        for keys in ["dense", "shuffled"] {
            for (system, sizes) in [
                ("hash", 1),
                ("hybrid", 6),
                ("grace", 6),
                ("nested loops", 6),
                ("segmented", 5),
                ("array", if keys == "dense" { 6 } else { 0 }),
            ] {
                for metric in ["time", "estimate", "spilled"] {
                    let found = values_by_build_side(&outcome, on, keys, system, metric);
                    assert_eq!(found.len(), sizes, "{on}, {keys}, {system}: {}", outcome.text);
                }
            }
            let spilled = |system| values_by_build_side(&outcome, on, keys, system, "spilled");
            assert!(spilled("hash") == [0.0] && spilled("nested loops").iter().all(|bytes| *bytes == 0.0));
            assert!(spilled("hybrid")[5] > 0.0 && spilled("grace").iter().all(|bytes| *bytes > 0.0));
        }
    }
    let regrets: Vec<&Value> = outcome.values_of("regret").collect();
    assert_eq!(regrets.len(), 48);
    for regret in regrets {
        assert!(number(regret) >= 0.0, "{regret}");
        let is_fastest = regret["config"]["pick"] == regret["config"]["fastest"];
        assert!(!is_fastest || number(regret) == 0.0, "{regret}");
    }
    let names = ["dax", "dram", "emulated-optane", "page-cache"]
        .map(|on| ["dense", "shuffled"].map(|keys| format!("joins-{on}-{keys}-0.9")));
    let names: Vec<&str> = names.as_flattened().iter().map(String::as_str).collect();
    outcome.insist_on_figures(&names, &["hybrid", "nested loops", "memory limit"]);
}

/// On a clock that counts accesses to the medium alone, the published costs hold: passes over the probe side
/// are cheaper than partitions on the medium while they are few.
#[test]
fn writes_of_spilled_rows_are_charged() {
    let settings = Settings {
        threads: Some(1),
        ..small(&[Backing::Emulated], 0.0)
    };
    let outcome = run("joins", settings);
    let times = |system| values_by_build_side(&outcome, "emulated optane", "shuffled", system, "time");
    let (grace, nested) = (times("grace"), times("nested loops"));
    assert!(nested[1] < grace[1], "{nested:?} {grace:?}");
    assert!(nested[5] > grace[5], "{nested:?} {grace:?}");
    // Nothing is written by nested loops, so their time grows with the number of passes.
    assert!(nested.is_sorted(), "{nested:?}");
}
