//! The Star Schema Benchmark at a tiny scale factor.

use std::fs;

use halocline_bench::{Backing, Settings, Ssb, Tiers};
use halocline_engine::TableEncoding;

use crate::support::{run, tiny};

fn small() -> Settings {
    Settings {
        scale_factor: Some(0.001),
        tiers: Tiers {
            data: None,
            ..tiny().tiers
        },
        ..tiny()
    }
}

/// All media and both encodings: the experiment insists that all answers are the same.
#[test]
fn variants_agree_and_say_what_they_are() {
    let settings = Settings {
        on: Backing::ALL.to_vec(),
        ssb: Ssb {
            encodings: vec![TableEncoding::Chosen, TableEncoding::Plain],
            ..Ssb::default()
        },
        ..small()
    };
    let outcome = run("ssb", settings);
    let variants = 4 * 2;
    assert_eq!(outcome.values_of("time").count(), 13 * variants);
    assert_eq!(outcome.values_of("geomean").count(), variants);
    for value in outcome.values_of("time") {
        let config = &value["config"];
        for name in [
            "rows",
            "scale_factor",
            "threads",
            "encoding",
            "star_join",
            "query",
            "cpu",
        ] {
            assert!(!config[name].is_null(), "no {name} in {value}");
        }
        assert!(config.get("sort").is_some(), "{value}");
        assert_eq!(config["planned_as_star_join"], config["star_join"], "{value}");
        let (on, medium) = (config["on"].as_str().unwrap(), config["medium"].as_str().unwrap());
        assert_eq!(on == "emulated", medium.contains("optane"), "{value}");
        assert_eq!(on == "emulated", !config["clock"].is_null(), "{value}");
        // The modelled cache may hold all of the tiny tables, and then the device has nothing to do.
        let time = value["value"].as_f64().unwrap();
        assert!(time > 0.0 || on == "emulated" && time == 0.0, "{value}");
    }
    let bytes = |metric: &str, encoding: &str| {
        let mut found = outcome
            .values_of(metric)
            .filter(|value| value["config"]["encoding"] == encoding);
        found.next().and_then(|value| value["value"].as_f64()).unwrap()
    };
    assert!(bytes("size.lineorder", "plain") > 2.0 * bytes("size.lineorder", "chosen"));
    assert_eq!(outcome.values_of("import").count(), 2);
    assert!(outcome.text.contains("geomean"), "{}", outcome.text);
    outcome.insist_on_figures(
        &["ssb-0.001"],
        &["Time by query", "4.3", "geomean", "page-cache", "plain"],
    );
}

/// Sorted and not, with and without the star join.
#[test]
fn files_are_kept_and_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = Settings {
        directory: Some(directory.path().to_owned()),
        ssb: Ssb {
            sorts: vec![None, Some("lo_orderdate".into())],
            star: vec![true, false],
            ..Ssb::default()
        },
        ..small()
    };
    let first = run("ssb", settings.clone());
    assert_eq!(first.values_of("time").count(), 13 * 4);
    for value in first.values_of("time") {
        let config = &value["config"];
        assert_eq!(config["planned_as_star_join"], config["star_join"], "{value}");
    }
    assert_eq!(first.values_of("import").count(), 2);
    settings.ssb.star.clear();
    settings.ssb.sorts.clear();
    let pool = directory.path().join("sf0.001/chosen.pool");
    let made = fs::metadata(&pool).unwrap().modified().unwrap();
    let second = run("ssb", settings);
    assert_eq!(second.values_of("import").count(), 0);
    assert!(second.text.contains("was there"), "{}", second.text);
    assert_eq!(fs::metadata(&pool).unwrap().modified().unwrap(), made);
    let names = fs::read_dir(pool.parent().unwrap()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 7, "{names:?}");
}
