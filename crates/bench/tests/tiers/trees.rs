//! The experiments on ordered trees, small: which values they report, for which trees, and that they can be
//! told apart.

use halocline_bench::Backing;
use serde_json::Value;

use crate::support::{Outcome, number, on, run, tiny};

/// The trees there are.
const TREES: [&str; 6] = ["lb", "lb2", "lb4", "fp", "fast-fair", "wb"];

/// The values of a metric that a system has for an operation, in the order of the report.
fn values_of_operation<'a>(
    outcome: &'a Outcome,
    system: &str,
    metric: &'a str,
    operation: &str,
) -> Vec<&'a Value> {
    let found = outcome
        .values_of(metric)
        .filter(|value| value["system"] == system && value["config"]["operation"] == operation);
    found.collect()
}

/// Counts do not depend on the machine.
#[test]
fn counts_are_the_same_in_every_run() {
    let outcome = run("tree-writes", tiny());
    assert_eq!(
        outcome.values,
        run("tree-writes", tiny()).values,
        "{}",
        outcome.text
    );
    for tree in TREES {
        for operation in ["insert", "insert, stable", "remove, stable", "update"] {
            for metric in ["lines", "fences"] {
                let found = values_of_operation(&outcome, tree, metric, operation);
                assert_eq!(found.len(), 1, "{tree}, {metric}, {operation}");
                assert!((1.0..8.0).contains(&number(found[0])), "{}", found[0]);
            }
        }
    }
    let stable = |system| number(values_of_operation(&outcome, system, "lines", "insert, stable")[0]);
    assert!(stable("lb") < stable("lb, not moved"), "{}", outcome.text);
    for value in &outcome.values {
        assert_eq!(value["config"]["rows"], 3000, "{value}");
        assert_eq!(value["config"]["medium"], "counting over DRAM", "{value}");
    }
    outcome.insist_on_figures(
        &["tree-writes-fences", "tree-writes-lines"],
        &["rows 3000", "lb2, not moved"],
    );
}

/// The experiment insists that all systems find the same.
#[test]
fn operations_are_measured_on_every_medium() {
    let outcome = run("tree-ops", on(&Backing::OF_TREES));
    for medium in ["file in ", "page-cache file in ", "emulated"] {
        let there: Vec<&Value> = outcome
            .values_of("rate")
            .filter(|value| value["config"]["medium"].as_str().unwrap().starts_with(medium))
            .collect();
        for tree in TREES {
            let rates = there.iter().filter(|value| value["system"] == tree);
            // A load, and eight operations by one thread and by two. Where the modelled cache holds all of a
            // tiny tree, an operation may take no time on the virtual clock, and has no rate.
            let least = if medium == "emulated" { 1 } else { 1 + 2 * 8 };
            assert!(
                (least..=1 + 2 * 8).contains(&rates.clone().count()),
                "{medium}, {tree}: {}",
                outcome.text
            );
            assert!(
                rates.clone().all(|value| number(value) > 0.0),
                "{medium}, {tree}: {}",
                outcome.text
            );
        }
    }
    outcome.insist_on_figures(
        &[
            "tree-ops-dax-1",
            "tree-ops-dax-2",
            "tree-ops-emulated-1",
            "tree-ops-emulated-2",
            "tree-ops-page-cache-1",
            "tree-ops-page-cache-2",
        ],
        &["scan 100", "BTreeMap"],
    );
}

#[test]
fn caches_of_hot_keys_are_compared_with_their_tree() {
    let outcome = run("hot-index", on(&[Backing::Dax]));
    for tree in ["wb", "fp", "fast-fair", "lb"] {
        for system in ["tree alone", "adaptive", "published"] {
            let rates = outcome
                .values_of("rate")
                .filter(|value| value["system"] == system && value["config"]["tree"] == tree);
            assert_eq!(rates.count(), 10 + 2, "{tree}, {system}: {}", outcome.text);
        }
    }
    assert!(
        outcome
            .values_of("hit rate")
            .all(|value| (0.0..=100.0).contains(&number(value)))
    );
    let figures = [1, 2].map(|threads| {
        let trees = ["fast-fair", "fp", "lb", "wb"];
        trees.map(|tree| format!("hot-index-dax-{threads}-{tree}"))
    });
    let figures: Vec<&str> = figures.iter().flatten().map(String::as_str).collect();
    outcome.insist_on_figures(&figures, &["80 % of lookups hot", "published"]);
}

/// Files are opened again; what is emulated keeps nothing.
#[test]
fn trees_are_opened_from_files() {
    let outcome = run("tree-recovery", on(&[Backing::PageCache, Backing::Emulated]));
    for tree in TREES {
        let opened = outcome.values_of("open").filter(|value| value["system"] == tree);
        let rows: Vec<&Value> = opened.map(|value| &value["config"]["rows"]).collect();
        assert_eq!(rows, [30, 300, 3000], "{tree}: {}", outcome.text);
    }
    assert!(
        outcome.values_of("open").all(|value| number(value) > 0.0),
        "{}",
        outcome.text
    );
    assert_eq!(outcome.values_of("open, killed").count(), 3 * TREES.len());
    outcome.insist_on_figures(
        &["tree-recovery-killed-page-cache", "tree-recovery-page-cache"],
        &["Time to open a tree", "wb"],
    );
}

/// Trees in anonymous memory are refused, with the way to have them there.
#[test]
fn trees_need_a_file_or_a_device() {
    let experiments = halocline_bench::experiments().iter();
    for experiment in
        experiments.filter(|experiment| ["tree-ops", "hot-index", "tree-recovery"].contains(&experiment.name))
    {
        let mut out = vec![];
        let mut report = halocline_bench::Reporter::new(experiment.name, &mut out);
        let refused = (experiment.run)(&on(&[Backing::Dram]), &mut report);
        let text = refused.expect_err("no tree lies there").to_string();
        assert!(text.contains("--on dax"), "{}: {text}", experiment.name);
    }
}
