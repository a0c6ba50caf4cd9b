//! TPC-H on two tiers at a tiny scale factor.

use std::fs;

use halocline_bench::{BenchError, Reporter, Settings, experiments};
use serde_json::Value;

use crate::support::{number, run, tiny};

/// A modelled cache that does not hold what a query reads.
fn small(medium: &str) -> Settings {
    let mut settings = Settings {
        scale_factor: Some(0.001),
        ..tiny()
    };
    settings.tiers.data = None;
    settings.tiers.medium = Some(medium.parse().unwrap());
    settings.tiers.cache_model = Some(2 << 10);
    settings
}

const MEDIA: [&str; 3] = ["host DRAM", "emulated DRAM", "emulated cxl"];

/// The experiment insists that all media give the same answers.
#[test]
fn queries_are_asked_on_three_media() {
    let outcome = run("tpch-tiers", small("emulated:cxl:virtual:absolute"));
    for (at, system) in MEDIA.into_iter().enumerate() {
        let of = |metric: &str| -> Vec<&Value> {
            let found = outcome.values.iter();
            found
                .filter(|value| value["system"] == system && value["metric"] == metric)
                .collect()
        };
        let one = |metric: &str| match of(metric)[..] {
            [value] => number(value),
            ref found => panic!("{metric} of {system}: {found:?}"),
        };
        assert_eq!(of("time").len(), 22, "{}", outcome.text);
        for value in of("time") {
            let config = &value["config"];
            for name in ["rows", "scale_factor", "threads", "query", "on", "medium", "cpu"] {
                assert!(!config[name].is_null(), "no {name} in {value}");
            }
            assert!(number(value) > 0.0, "{value}");
            assert_eq!(config["profile"].is_null(), at == 0, "{value}");
            if at > 0 {
                assert_eq!(config["cache_model_bytes"], 2 << 10, "{value}");
            }
        }
        assert!(one("geomean") > 0.0 && one("tables") > 1e4, "{}", outcome.text);
        assert_eq!(one("tables in DRAM"), [100.0, 100.0, 0.0][at]);
        assert!(one("held in DRAM") > 0.0, "{}", outcome.text);
        // Times of a virtual clock are not compared with real ones.
        assert_eq!(of("over host DRAM").len(), usize::from(at == 0));
        assert_eq!(of("over emulated DRAM").len(), usize::from(at > 0));
        assert_eq!(of("read").len(), if at == 0 { 0 } else { 22 });
    }
    let over: Vec<f64> = outcome.values_of("over emulated DRAM").map(number).collect();
    assert!(over[0] == 1.0 && over[1] > 1.5, "{over:?}");
    assert_eq!(outcome.values_of("import").count(), 1);
    for word in [
        "over emulated DRAM",
        "geomean",
        "DRAM is not measured",
        "medium: emulated cxl",
    ] {
        assert!(
            outcome.text.contains(word),
            "`{word}` is not in\n{}",
            outcome.text
        );
    }
    outcome.insist_on_figures(
        &["tpch-tiers-0.001"],
        &[
            "Time by query",
            "22",
            "geomean",
            "host DRAM",
            "emulated DRAM",
            "emulated cxl",
        ],
    );
}

#[test]
fn the_pool_is_kept_and_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings {
        directory: Some(directory.path().to_owned()),
        ..small("emulated:optane:virtual:absolute")
    };
    let first = run("tpch-tiers", settings.clone());
    assert_eq!(first.values_of("import").count(), 1);
    let pool = directory.path().join("tpch-sf0.001/tables.pool");
    let made = fs::metadata(&pool).unwrap().modified().unwrap();
    let second = run("tpch-tiers", settings);
    assert_eq!(second.values_of("import").count(), 0);
    assert!(second.text.contains("was there"), "{}", second.text);
    assert_eq!(fs::metadata(&pool).unwrap().modified().unwrap(), made);
    let names = fs::read_dir(pool.parent().unwrap()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 9, "{names:?}");
    let slow = second
        .values_of("time")
        .filter(|value| value["system"] == "emulated optane");
    assert_eq!(slow.count(), 22);
}

/// DRAM is there anyway: a medium is the slow tier beside it.
#[test]
fn the_slow_tier_is_slower_than_dram() {
    let experiment = experiments()
        .iter()
        .find(|experiment| experiment.name == "tpch-tiers")
        .unwrap();
    for medium in ["dram", "emulated:dram:virtual:absolute"] {
        let mut out = vec![];
        let mut report = Reporter::new(experiment.name, &mut out);
        match (experiment.run)(&small(medium), &mut report) {
            Err(BenchError::Setup(text)) => assert!(text.contains("anyway"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}
