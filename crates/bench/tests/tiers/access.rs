//! The experiments on access patterns, small: every medium gives the same answers, and emulated media show
//! what their profiles say.

use halocline_bench::{Backing, Settings};
use serde_json::Value;

use crate::support::{Outcome, number, on, run, tiny};

/// The systems of an experiment on all media.
const SYSTEMS: [&str; 5] = ["dram", "dax", "page-cache", "emulated optane", "emulated dram"];

/// The numbers of a metric that a system has, in the order of the report.
fn numbers_of_system(outcome: &Outcome, system: &str, metric: &str) -> Vec<f64> {
    let found = outcome
        .values_of(metric)
        .filter(|value| value["system"] == system);
    found.map(number).collect()
}

/// Every value says what it takes to measure it again.
fn insist_on_configurations(outcome: &Outcome) {
    for value in &outcome.values {
        let config = &value["config"];
        for name in ["on", "medium", "threads", "rows", "seed"] {
            assert!(!config[name].is_null(), "no {name} in {value}");
        }
        let emulated = value["system"].as_str().unwrap().starts_with("emulated");
        assert_eq!(emulated, config["profile"] != Value::Null, "{value}");
    }
}

#[test]
fn bandwidths_are_measured_on_every_medium_and_by_threads() {
    let outcome = run("access-sequential", tiny());
    insist_on_configurations(&outcome);
    for system in SYSTEMS {
        for metric in ["read bandwidth", "write bandwidth"] {
            let found = numbers_of_system(&outcome, system, metric);
            assert_eq!(found.len(), 2, "{system}, {metric}: {}", outcome.text);
            assert!(
                found.iter().all(|bandwidth| *bandwidth > 0.0),
                "{system}: {found:?}"
            );
        }
    }
    let slow = numbers_of_system(&outcome, "emulated optane", "read bandwidth");
    let fast = numbers_of_system(&outcome, "emulated dram", "read bandwidth");
    assert!(slow[1] < fast[1], "{slow:?} {fast:?}");
    outcome.insist_on_figures(
        &["access-sequential-read", "access-sequential-write"],
        &["threads", "emulated optane", "emulated dram", "page-cache"],
    );
}

/// One thread on a virtual clock: the times are those of the profiles, in every run.
#[test]
fn selective_reads_skip_what_is_not_read() {
    let settings = || Settings {
        threads: Some(1),
        ..on(&[Backing::Emulated])
    };
    let outcome = run("access-selective", settings());
    insist_on_configurations(&outcome);
    let again = run("access-selective", settings());
    assert!(
        outcome
            .values_of("time")
            .map(number)
            .eq(again.values_of("time").map(number))
    );
    let [slow, fast] =
        ["emulated optane", "emulated dram"].map(|system| numbers_of_system(&outcome, system, "time"));
    for times in [&slow, &fast] {
        assert_eq!(times.len(), 11);
        let at = |stride: u64| times[stride.ilog2() as usize - 2];
        // While every line has a value that is read, all are read; later, half as many each time.
        assert!((0.9..1.1).contains(&(at(32) / at(4))), "{times:?}");
        assert!((0.4..0.6).contains(&(at(2048) / at(1024))), "{times:?}");
        assert!(at(4096) < 0.3 * at(4), "{times:?}");
    }
    assert!(
        slow.iter().zip(&fast).all(|(slow, fast)| slow > fast),
        "{slow:?} {fast:?}"
    );
    outcome.insist_on_figures(
        &["access-selective"],
        &["bytes from one value read to the next", "emulated dram"],
    );
}

/// The experiment insists that all systems find the same.
#[test]
fn probes_are_measured_beside_two_models() {
    let outcome = run("access-random", tiny());
    insist_on_configurations(&outcome);
    for system in SYSTEMS {
        // Tables of 32 KiB to 2 MiB.
        for metric in ["time", "model", "published model"] {
            let found = numbers_of_system(&outcome, system, metric);
            assert_eq!(found.len(), 7, "{system}, {metric}: {}", outcome.text);
        }
        // What the modelled cache holds takes no time on the virtual clock.
        let errors = numbers_of_system(&outcome, system, "model error").len();
        let least = if system.starts_with("emulated") { 1 } else { 7 };
        assert!((least..=7).contains(&errors), "{system}: {}", outcome.text);
    }
    let slow = numbers_of_system(&outcome, "emulated optane", "time");
    let fast = numbers_of_system(&outcome, "emulated dram", "time");
    // The modelled cache of 1 MiB does not hold the largest table.
    assert!(slow[6] > slow[0] && slow[6] > fast[6], "{slow:?} {fast:?}");
    let mut figures = vec!["access-random".to_owned()];
    let systems = ["dax", "dram", "emulated-dram", "emulated-optane", "page-cache"];
    figures.extend(systems.map(|system| format!("access-random-models-{system}")));
    let figures: Vec<&str> = figures.iter().map(String::as_str).collect();
    outcome.insist_on_figures(&figures, &["bytes of the table"]);
}

#[test]
fn media_are_chosen() {
    let outcome = run("access-selective", on(&[Backing::Dram, Backing::PageCache]));
    assert!(
        numbers_of_system(&outcome, "dram", "time").len() == 11
            && numbers_of_system(&outcome, "dax", "time").is_empty()
    );
    assert!(
        outcome.text.contains("page-cache: page-cache file in "),
        "{}",
        outcome.text
    );
}

/// Without a medium named, the experiment emulates Optane; a medium that is not emulated is refused.
#[test]
fn only_emulated_media_are_emulated() {
    let mut settings = Settings {
        on: vec![Backing::Emulated],
        ..tiny()
    };
    settings.tiers.medium = Some("dram".parse().unwrap());
    let experiment = halocline_bench::experiments()
        .iter()
        .find(|experiment| experiment.name == "access-selective")
        .unwrap();
    let mut out = vec![];
    let mut reporter = halocline_bench::Reporter::new(experiment.name, &mut out);
    assert!((experiment.run)(&settings, &mut reporter).is_err());
}
