//! `elf-media`.

use std::fs;

use halocline_bench::{BenchError, DataKind, Reporter, experiments};

use crate::support::{number, run, tiny};

/// The baseline where the slow tier is emulated.
const IN_DRAM: &str = "volatile, emulated DRAM";

#[test]
fn all_placements_answer_alike_and_every_column_is_there() {
    let outcome = run("elf-media", tiny());
    outcome.insist_on_configurations();
    for word in [
        "volatile",
        "slow-only",
        "hybrid",
        "dual-access",
        "static",
        "over volatile, emulated DRAM",
        "paper",
        "+223 %",
        "lines",
        "units",
        "DRAM taken",
        "published in emulated DRAM",
        "volatile, emulated DRAM",
        "DRAM lines",
    ] {
        assert!(
            outcome.text.contains(word),
            "`{word}` is not in\n{}",
            outcome.text
        );
    }
    let figures = [
        "elf-media-lines-uniform-packed-0.5",
        "elf-media-lines-uniform-published-0.5",
    ];
    outcome.insist_on_figures(&figures, &["exact_batch", "range 2 %", "dual-access", "optane"]);
}

#[test]
fn the_slow_tier_is_read_by_whom_it_should_be() {
    let mut settings = tiny();
    // Of what the modelled cache holds, no line is read.
    settings.tiers.cache_model = Some(16 << 10);
    let outcome = run("elf-media", settings);
    for layout in ["packed", "published"] {
        let of = |metric: &str, placement: &str, question: &str| {
            let mut found = outcome.values_of(metric).filter(|value| {
                let config = &value["config"];
                config["layout"] == layout
                    && config["placement"] == placement
                    && config["question"] == question
            });
            let value = found.next().expect("it was measured");
            assert!(found.next().is_none(), "{value} is there twice");
            value["value"].as_f64().unwrap()
        };
        for question in ["exact", "exact_batch", "range 2 %", "partial 100 %"] {
            assert_eq!(of("lines", IN_DRAM, question), 0.0);
            assert_eq!(of("lines", "hybrid", question), 0.0);
            // Only copies that are wholly in DRAM are read through the same modelled cache.
            let (volatile, hybrid) = (
                of("DRAM lines", IN_DRAM, question),
                of("DRAM lines", "hybrid", question),
            );
            let difference = (volatile - hybrid).abs();
            assert!(
                volatile > 0.0 && difference < 0.3 * volatile,
                "{question}, {layout}: {volatile} {hybrid}"
            );
            for slow in ["slow-only", "dual-access", "static"] {
                assert_eq!(of("DRAM lines", slow, question), 0.0);
            }
        }
        assert!(of("lines", "slow-only", "range 100 %") > 0.0);
        assert!(of("DRAM lines", IN_DRAM, "range 100 %") > 0.0);
    }
    for value in &outcome.values {
        let memory = match value["system"].as_str() {
            Some(IN_DRAM | "hybrid" | "published in emulated DRAM") => "emulated dram",
            _ => "emulated optane",
        };
        // Builds and reopening have no placement.
        if let Some(found) = value["config"]["memory"].as_str() {
            assert!(found.starts_with(memory), "{value}");
        }
        assert_ne!(value["system"], "volatile", "{value}");
    }
}

#[test]
fn lineitem_is_measured_too() {
    let mut settings = tiny();
    settings.scale_factor = Some(0.0005);
    settings.tiers.data = Some(DataKind::Lineitem);
    let outcome = run("elf-media", settings);
    outcome.insist_on_configurations();
    assert!(outcome.text.contains("x 15 dimensions"), "{}", outcome.text);
    outcome.insist_on_figures(
        &[
            "elf-media-lines-lineitem-packed-0.5",
            "elf-media-lines-lineitem-published-0.5",
        ],
        &[],
    );
}

#[test]
fn times_of_delays_are_compared_with_the_paper() {
    let mut settings = tiny();
    settings.rows = Some(500);
    settings.tiers.medium = Some("emulated:optane:delay:absolute:cache=1".parse().unwrap());
    let outcome = run("elf-media", settings);
    for metric in [
        "time",
        "over emulated DRAM",
        "over host DRAM",
        "over volatile, paper",
        "reopen",
    ] {
        assert!(outcome.values_of(metric).next().is_some(), "{metric}");
    }
    assert!(outcome.values_of("over volatile").next().is_none());
    for (metric, system) in [
        ("over emulated DRAM", IN_DRAM),
        ("over host DRAM", "volatile, host DRAM"),
    ] {
        let mut own = outcome
            .values_of(metric)
            .filter(|value| value["system"] == system);
        assert!(own.all(|value| number(value) == 0.0), "{metric}");
    }
    let builds = outcome
        .values_of("build")
        .map(|value| value["system"].as_str().unwrap());
    assert!(builds.eq(["volatile, host DRAM", "slow-only"].repeat(2)));
    for words in ["over volatile, emulated DRAM", "volatile, host DRAM"] {
        assert!(outcome.text.contains(words), "{}", outcome.text);
    }
    let figure = fs::read_to_string(outcome.figures.path().join("elf-media-uniform-packed-0.5.svg"));
    let figure = figure.unwrap();
    for words in ["time, volatile, emulated DRAM = 1", "volatile, host DRAM"] {
        assert!(figure.contains(words), "`{words}` is not in the figure");
    }
}

/// Without an emulated tier there is one DRAM, and nothing to tell apart.
#[test]
fn in_dram_alone_nothing_is_emulated() {
    let mut settings = tiny();
    settings.rows = Some(500);
    settings.tiers.medium = Some("dram".parse().unwrap());
    let outcome = run("elf-media", settings);
    assert!(outcome.values_of("over volatile").next().is_some());
    assert!(outcome.values_of("over emulated DRAM").next().is_none());
    for value in outcome.values_of("time") {
        assert_eq!(value["config"]["memory"], "DRAM of this host", "{value}");
    }
    assert!(outcome.text.contains("over volatile"), "{}", outcome.text);
}

#[test]
fn a_skew_that_is_none_is_an_error() {
    let mut settings = tiny();
    settings.tiers.thetas = vec![1.5];
    let experiment = experiments()
        .iter()
        .find(|experiment| experiment.name == "elf-media")
        .unwrap();
    let mut out = vec![];
    let error = (experiment.run)(&settings, &mut Reporter::new("elf-media", &mut out)).unwrap_err();
    assert!(
        matches!(&error, BenchError::Setup(text) if text.contains("1.5")),
        "{error}"
    );
}
