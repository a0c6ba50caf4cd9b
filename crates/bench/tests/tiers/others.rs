//! The other experiments that read a pool or an index, on an emulated medium.

use halocline_bench::{BenchError, Reporter, Settings, SlowTierMedium, experiments};

use crate::support::{Outcome, run, tiny};

/// With a cache that does not hold all of it.
fn small() -> Settings {
    let mut settings = Settings {
        scale_factor: Some(0.001),
        ..tiny()
    };
    settings.tiers.cache_model = Some(16 << 10);
    settings
}

/// Every value says its medium; those on the emulated one what it takes to emulate it again. Gives their
/// number.
fn insist_on_media(name: &str, outcome: &Outcome, clock: &str) -> usize {
    let mut emulated = 0;
    for value in &outcome.values {
        let config = &value["config"];
        let medium = config["medium"].as_str();
        let medium = medium.unwrap_or_else(|| panic!("{name}: no medium in {value}"));
        if medium.starts_with("emulated") {
            assert_eq!(config["clock"], clock, "{name}: {value}");
            assert!(!config["profile"].is_null(), "{name}: {value}");
            assert!(medium.contains("optane"), "{name}: {value}");
            emulated += 1;
        }
        assert!(
            value["value"].as_f64().is_some_and(|value| value >= 0.0),
            "{name}: {value}"
        );
    }
    assert!(
        outcome.text.contains("medium: emulated optane"),
        "{}",
        outcome.text
    );
    emulated
}

#[test]
fn layouts_on_a_medium_read_its_lines() {
    let outcome = run("elf-layout", small());
    assert!(insist_on_media("elf-layout", &outcome, "virtual") > 10);
    for layout in ["packed", "published"] {
        let mut lines = outcome
            .values_of("lines")
            .filter(|value| value["system"] == layout && value["config"]["question"] == "exact");
        assert!(
            lines
                .next()
                .is_some_and(|value| value["value"].as_f64() > Some(0.0)),
            "{layout}"
        );
    }
    assert!(
        outcome
            .values_of("build")
            .all(|value| value["config"]["medium"] == "DRAM")
    );
    assert!(
        outcome.text.contains("lines and units of the device a query"),
        "{}",
        outcome.text
    );
}

#[test]
fn layouts_in_dram_are_compared() {
    let settings = Settings {
        tiers: halocline_bench::Tiers::default(),
        ..small()
    };
    let outcome = run("elf-layout", settings);
    assert!(
        outcome
            .values
            .iter()
            .all(|value| value["config"]["medium"] == "DRAM")
    );
    assert!(outcome.text.contains("over published"), "{}", outcome.text);
}

#[test]
fn pools_on_a_medium_say_so() {
    for name in ["open", "ingest", "elf-selections", "churn"] {
        let outcome = run(name, small());
        assert!(insist_on_media(name, &outcome, "virtual") > 3, "{name}");
    }
}

#[test]
fn delays_are_real() {
    let mut settings = small();
    settings.tiers.medium = Some(
        "emulated:optane:delay:absolute:cache=1"
            .parse()
            .expect("a medium"),
    );
    for name in ["elf-layout", "open"] {
        let outcome = run(name, settings.clone());
        assert!(insist_on_media(name, &outcome, "delay") > 3, "{name}");
    }
}

#[test]
fn pools_are_not_in_dram() {
    let mut settings = small();
    settings.tiers.medium = Some(SlowTierMedium::Dram);
    let experiment = experiments()
        .iter()
        .find(|experiment| experiment.name == "open")
        .unwrap();
    let mut out = vec![];
    let refused = (experiment.run)(&settings, &mut Reporter::new("open", &mut out));
    match refused {
        Err(BenchError::Setup(text)) => assert!(text.contains("--dir"), "{text}"),
        other => panic!("{other:?}"),
    }
}
