//! The choices on a recorded grid of joins: `recorded.txt` holds the times of `halocline bench joins`, of a
//! release build on a machine of two CPUs.
//!
//! A line `medium` has a name, read and write bandwidths by number of threads, the access unit, and the times
//! of random reads of DRAM and of the medium by bytes. The lines `cell` behind it have the memory limit, the
//! rows of both sides, the order of the keys, the skew, and the seconds of each algorithm.

use super::{CpuCosts, JoinAlgorithm, JoinChoice, JoinSize, MediumCosts, choose};

const RECORDED: &str = include_str!("recorded.txt");

/// Most that a choice may take longer than the fastest algorithm, and how much more times vary from run to
/// run.
const MOST_REGRET: f64 = 0.10;
const NOISE: f64 = 0.05;

fn pairs(text: &str) -> Vec<(usize, f64)> {
    let pair = |text: &str| {
        let (at, value) = text.split_once(':').unwrap();
        (at.parse().unwrap(), value.parse().unwrap())
    };
    text.split(',').filter(|text| !text.is_empty()).map(pair).collect()
}

fn name(algorithm: JoinAlgorithm) -> String {
    let text = algorithm.to_string();
    match algorithm {
        JoinAlgorithm::Segmented { .. } => "segmented".to_owned(),
        _ => text.replace(' ', "-"),
    }
}

/// Calls `each` with the line of each cell, its choice, and the times of the algorithms.
fn for_each_cell(mut each: impl FnMut(&str, &JoinChoice, &[(String, f64)])) {
    let mut medium = MediumCosts::new(&[], &[], 64, &[], &[]);
    let mut on = "";
    for line in RECORDED.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "medium" {
            on = words[1];
            medium = MediumCosts::new(
                &pairs(words[2]),
                &pairs(words[3]),
                words[4].parse().unwrap(),
                &pairs(words[5]),
                &pairs(words[6]),
            );
            continue;
        }
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let size = JoinSize {
            build_rows: number(2),
            probe_rows: number(3),
            build_stored: 16.0,
            probe_stored: 16.0,
            build_row: 25.0,
            probe_row: 16.0,
            pairs: number(3),
            matching: 1.0,
            dense_columns: (words[4] == "dense").then_some(1),
            rereadable: true,
        };
        let choice = choose(&size, number(1) as usize, 2, &medium, &CpuCosts::default());
        let times = words[6..].iter().map(|word| {
            let (name, time) = word.split_once('=').unwrap();
            (name.to_owned(), time.parse().unwrap())
        });
        each(&format!("{on} {line}"), &choice, &times.collect::<Vec<_>>());
    }
}

#[test]
fn the_choice_is_seldom_slower_than_the_fastest_algorithm() {
    let (mut cells, mut missed) = (0, Vec::new());
    for_each_cell(|line, choice, times| {
        let picked = name(choice.algorithm());
        let fastest = times.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
        // An algorithm of another release is taken for the slowest one.
        let time = times.iter().find(|(name, _)| *name == picked).map_or(f64::INFINITY, |(_, time)| *time);
        cells += 1;
        if time / fastest - 1.0 > MOST_REGRET + NOISE {
            missed.push(format!("{:+.0} % by {picked}: {line}\n{choice}", (time / fastest - 1.0) * 100.0));
        }
    });
    assert!(cells > 20);
    assert!(missed.is_empty(), "{} of {cells}:\n{}", missed.len(), missed.join("\n"));
}
