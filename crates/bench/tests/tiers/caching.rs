//! `elf-policies`, `elf-warmup` and `elf-parallel`.

use std::collections::BTreeSet;

use crate::support::{run, tiny};

#[test]
fn throughput_is_followed_for_every_placement_and_question() {
    let mut settings = tiny();
    settings.tiers.placements = vec!["static".parse().unwrap(), "static:2".parse().unwrap()];
    settings.tiers.warm_up = Some(4_000);
    let outcome = run("elf-warmup", settings);
    outcome.insist_on_configurations();
    for placement in ["slow-only", "static", "static:2"] {
        for question in ["exact", "range 2 %", "partial 2 %"] {
            let points = outcome.values_of("throughput").filter(|value| {
                value["system"] == placement
                    && value["config"]["question"] == question
                    && value["config"]["layout"] == "packed"
            });
            let queries: Vec<f64> = points
                .map(|value| value["config"]["queries"].as_f64().unwrap())
                .collect();
            assert!(
                queries.len() > 1 && queries.is_sorted(),
                "{placement}, {question}: {queries:?}"
            );
        }
    }
    let figures = [
        "elf-warmup-uniform-packed-exact-0.5",
        "elf-warmup-uniform-packed-partial-2-0.5",
        "elf-warmup-uniform-packed-range-2-0.5",
        "elf-warmup-uniform-published-exact-0.5",
        "elf-warmup-uniform-published-partial-2-0.5",
        "elf-warmup-uniform-published-range-2-0.5",
    ];
    outcome.insist_on_figures(&figures, &["queries run", "queries/s", "slow-only", "static:2"]);
}

#[test]
fn policies_stand_between_the_baselines() {
    let mut settings = tiny();
    // One that the layout `packed` lacks is left out with a note; a baseline is there anyway.
    settings.tiers.placements = ["static", "dynamic:hashed-lru", "volatile"]
        .map(|placement| placement.parse().unwrap())
        .to_vec();
    settings.tiers.warm_up = Some(500);
    // Lines that the modelled cache holds take no time on the virtual clock.
    settings.tiers.cache_model = Some(16 << 10);
    let outcome = run("elf-policies", settings);
    let left_out = |what: &str| {
        let lines = outcome.text.lines().filter(|line| line.starts_with("left out: "));
        lines.filter(|line| line.contains(what)).count()
    };
    assert!(left_out("layout packed") > 0 && left_out("hashed") > 0 && left_out("volatile") == 0);
    assert!(outcome.values_of("throughput").all(|value| {
        let config = &value["config"];
        config["placement"] != "dynamic:hashed-lru" || config["layout"] == "published"
    }));
    let capacities = outcome
        .values_of("throughput")
        .map(|value| &value["config"]["budget_percent"]);
    assert!(capacities.filter(|percent| percent.as_f64() == Some(4.0)).count() > 0);
    outcome.insist_on_configurations();
    for word in [
        "volatile, emulated DRAM",
        "slow-only",
        "static",
        " 15 ",
        "theta 0.99",
        "range 2 %",
    ] {
        assert!(
            outcome.text.contains(word),
            "`{word}` is not in\n{}",
            outcome.text
        );
    }
    let figures = ["published", "packed"].map(|layout| {
        ["exact-0.0", "exact-0.5", "exact-0.99", "range-2-0.5"]
            .map(|question| format!("elf-policies-uniform-{layout}-{question}"))
    });
    let mut figures = figures.concat();
    figures.sort();
    let figures: Vec<&str> = figures.iter().map(String::as_str).collect();
    outcome.insist_on_figures(
        &figures,
        &["queries/s", "volatile, emulated DRAM", "% of the index"],
    );
}

/// With real delays both kinds of DRAM are there, by names that tell them apart, and throughput over the slow
/// tier alone is that of a placement on it.
#[test]
fn baselines_in_dram_are_told_apart() {
    let mut settings = tiny();
    settings.rows = Some(500);
    settings.tiers.medium = Some("emulated:cxl:delay:absolute:cache=1".parse().unwrap());
    settings.tiers.placements = vec!["static".parse().unwrap()];
    settings.tiers.warm_up = Some(100);
    settings.tiers.thetas = vec![0.5];
    for name in ["elf-policies", "elf-warmup"] {
        let outcome = run(name, settings.clone());
        let memories = |system: &str| {
            let found = outcome
                .values_of("throughput")
                .filter(|value| value["system"] == system);
            let found = found.map(|value| value["config"]["memory"].as_str().unwrap().to_owned());
            let found: BTreeSet<String> = found.collect();
            found.into_iter().collect::<Vec<_>>().join("; ")
        };
        for (system, memory) in [
            (
                "volatile, emulated DRAM",
                "emulated dram, absolute, delay, cache 1 MiB",
            ),
            ("volatile, host DRAM", "DRAM of this host"),
            ("slow-only", "emulated cxl, absolute, delay, cache 1 MiB"),
            ("static", "emulated cxl, absolute, delay, cache 1 MiB"),
            ("volatile", ""),
        ] {
            let found = memories(system);
            // A busy machine can be so late with all delays that no time is left to measure.
            let is_late = found.is_empty() && memory.starts_with("emulated");
            assert!(is_late || found == memory, "{name}, {system}: {found}");
        }
    }
}

#[test]
fn every_way_to_run_a_selection_answers_alike() {
    let mut settings = tiny();
    settings.rows = Some(1_000);
    let outcome = run("elf-parallel", settings);
    outcome.insist_on_configurations();
    for word in ["sequential", "parallel", "chosen", "316", "over sequential"] {
        assert!(
            outcome.text.contains(word),
            "`{word}` is not in\n{}",
            outcome.text
        );
    }
    outcome.insist_on_figures(
        &["elf-parallel-uniform-packed", "elf-parallel-uniform-published"],
        &["cardinality", "range size", "sequential", "chosen"],
    );
}

#[test]
fn caches_that_follow_the_queries_answer_alike() {
    let mut settings = tiny();
    settings.tiers.warm_up = Some(1_000);
    settings.tiers.budgets = vec![halocline_bench::Budget::Bytes(128 << 10)];
    for name in ["elf-policies", "elf-warmup"] {
        let outcome = run(name, settings.clone());
        outcome.insist_on_configurations();
        for placement in ["dynamic:lla", "static+dynamic:lla", "dynamic:hashed-lru"] {
            assert!(
                outcome.text.contains(placement),
                "{placement} is not in\n{}",
                outcome.text
            );
        }
    }
}
