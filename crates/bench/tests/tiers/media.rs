//! `elf-media`.

use halocline_bench::{BenchError, DataKind, Reporter, experiments};

use crate::support::{run, tiny};

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
        "over volatile",
        "paper",
        "+223 %",
        "lines",
        "units",
        "DRAM taken",
        "published in DRAM",
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
    let outcome = run("elf-media", tiny());
    for layout in ["packed", "published"] {
        let lines = |placement: &str, question: &str| {
            let mut found = outcome.of("lines").filter(|value| {
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
            assert_eq!(lines("volatile", question), 0.0);
            assert_eq!(lines("hybrid", question), 0.0);
        }
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
    for metric in ["time", "over volatile", "over volatile, paper", "reopen"] {
        assert!(outcome.of(metric).next().is_some(), "{metric}");
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
