//! Tests of the cost model.

use super::{Algorithm, JoinAlgorithm, JoinChoice, JoinSize, choose, choose_filtered};
use crate::machine::{CpuCosts, MediumCosts};

/// Returns costs roughly like the first generation of persistent memory with 2 threads.
fn optane() -> MediumCosts {
    MediumCosts::new(
        &[(1, 4.1e9), (2, 8e9), (12, 32e9)],
        &[(1, 7e9), (2, 8.5e9), (12, 6e9)],
        256,
        &[
            (32 << 10, 1e-9),
            (1 << 20, 2e-9),
            (32 << 20, 5e-9),
            (1 << 30, 20e-9),
        ],
        &[(1 << 20, 3e-9), (1 << 30, 80e-9)],
    )
}

fn size(build_rows: u64, dense: bool) -> JoinSize {
    JoinSize {
        build_rows,
        probe_rows: 64 << 20,
        build_stored: 8.0,
        probe_stored: 8.0,
        build_row: 25.0,
        probe_row: 16.0,
        pairs: 64 << 20,
        matching: 1.0,
        dense_columns: dense.then_some(1),
        rereadable: true,
    }
}

fn pick(build_rows: u64, memory: usize, dense: bool) -> JoinChoice {
    choose(
        &size(build_rows, dense),
        memory,
        12,
        &optane(),
        &CpuCosts::default(),
    )
}

#[test]
fn what_fits_is_joined_in_dram() {
    let choice = pick(1 << 20, 64 << 20, false);
    assert!(
        matches!(
            choice.algorithm(),
            JoinAlgorithm::Hashed(Algorithm::Hash | Algorithm::Hybrid)
        ),
        "{choice}"
    );
    assert_eq!(choice.estimates()[0].spilled, 0.0);
}

#[test]
fn spilling_grows_with_the_build_side_until_arrays_win() {
    let hybrid = |rows| {
        *pick(rows, 64 << 20, false)
            .estimate(JoinAlgorithm::Hashed(Algorithm::Hybrid))
            .unwrap()
    };
    let mut before = 0.0;
    for rows in [1 << 20, 2 << 20, 3 << 20, 4 << 20, 8 << 20, 64 << 20] {
        let seconds = hybrid(rows).seconds();
        assert!(seconds > before, "{rows}");
        before = seconds;
    }
    let choice = pick(64 << 20, 64 << 20, true);
    assert_eq!(choice.algorithm(), JoinAlgorithm::Array, "{choice}");
    // Passes over the probe side pay only while they are few.
    let nested = |rows| {
        *pick(rows, 64 << 20, false)
            .estimate(JoinAlgorithm::Hashed(Algorithm::NestedLoops))
            .unwrap()
    };
    assert!(
        nested(3 << 20).seconds()
            < pick(3 << 20, 64 << 20, false)
                .estimate(JoinAlgorithm::Hashed(Algorithm::Grace))
                .unwrap()
                .seconds()
    );
    assert!(nested(64 << 20).seconds() > hybrid(64 << 20).seconds());
}

#[test]
fn inputs_that_are_read_once_rule_out_passes() {
    let mut size = size(64 << 20, false);
    size.rereadable = false;
    let choice = choose(&size, 64 << 20, 2, &optane(), &CpuCosts::default());
    assert_eq!(choice.estimates().len(), 2);
    assert!(
        choice
            .estimate(JoinAlgorithm::Hashed(Algorithm::NestedLoops))
            .is_none()
    );
    assert!(
        choice
            .estimates()
            .iter()
            .all(|estimate| estimate.seconds().is_finite())
    );
}

#[test]
fn estimates_are_shown_as_a_table() {
    let text = pick(64 << 20, 64 << 20, true).to_string();
    let mut lines = text.lines();
    assert_eq!(
        lines
            .next()
            .map(|line| line.split_whitespace().collect::<Vec<_>>()),
        Some(vec![
            "join", "ms", "transfer", "compute", "passes", "spilled", "MiB"
        ])
    );
    let widths: Vec<_> = text.lines().map(str::len).collect();
    assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
    assert_eq!(lines.count(), 5);
}

#[test]
fn nothing_is_divided_by_zero() {
    for (build_rows, memory) in [(0, 0), (0, 1 << 20), (1 << 20, 0)] {
        let choice = pick(build_rows, memory, true);
        assert!(
            choice
                .estimates()
                .iter()
                .all(|estimate| estimate.seconds().is_finite()),
            "{choice}"
        );
    }
}

#[test]
fn a_dynamic_filter_leaves_few_rows_to_join() {
    let few = JoinSize {
        pairs: 1 << 20,
        matching: 1.0 / 64.0,
        ..size(1 << 20, false)
    };
    let of = |size: &JoinSize| choose(size, 64 << 20, 2, &optane(), &CpuCosts::default());
    let filtered = |size: &JoinSize| choose_filtered(size, 64 << 20, 2, &optane(), &CpuCosts::default());
    let seconds = |choice: JoinChoice| {
        choice
            .estimate(JoinAlgorithm::Hashed(Algorithm::Hash))
            .unwrap()
            .seconds()
    };
    assert!(seconds(filtered(&few)) < seconds(of(&few)));
    // A filter that drops few rows is not counted on.
    let many = size(1 << 20, false);
    assert_eq!(filtered(&many), of(&many));
}

#[test]
fn an_array_join_must_be_clearly_the_cheapest() {
    assert!(pick(64 << 20, 64 << 20, true).prefers_array());
    assert!(!pick(64 << 20, 64 << 20, false).prefers_array());
    let choice = pick(64 << 20, 64 << 20, true);
    let mut array = *choice.estimate(JoinAlgorithm::Array).unwrap();
    array.compute = choice
        .estimate(JoinAlgorithm::Hashed(Algorithm::Hybrid))
        .unwrap()
        .seconds();
    assert!(!choice.with(array).prefers_array());
}
