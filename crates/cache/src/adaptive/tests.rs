//! Tests with strategies of given durations.

use super::*;

/// Runs a number of queries, of which those of strategy `s` take `nanos(s)`; counts the queries of each
/// strategy.
fn ask(trial: &AdaptiveSelector, queries: u64, nanos: impl Fn(u8) -> f64) -> [u64; 4] {
    let mut gone = [0; 4];
    for query in 0..queries / 64 {
        let choice = trial.choice();
        gone[usize::from(choice.strategy())] += 64;
        // Durations that vary by a third from block to block.
        let noise = 1.0 + (query * 7 % 11) as f64 / 30.0;
        let time = nanos(choice.strategy()) * noise * 64.0;
        trial.record(choice, 64, Duration::from_nanos(time as u64));
        trial.pass(64);
    }
    gone
}

#[test]
fn the_fastest_way_is_gone_and_others_are_tried_rarely() {
    let trial = AdaptiveSelector::new(3);
    assert_eq!(ask(&trial, 100_000, |_| 500.0)[3], 99_968);
    trial.begin(&[0, 1, 3]);
    ask(&trial, 700_000, |strategy| {
        [500.0, 400.0, 0.0, 450.0][usize::from(strategy)]
    });
    assert_eq!((trial.best(), trial.choice().strategy()), (Some(1), 1));
    let gone = ask(&trial, 50_000_000, |strategy| {
        [500.0, 400.0, 0.0, 450.0][usize::from(strategy)]
    });
    assert!(gone[0] + gone[3] < 2_000_000, "{gone:?}");
    // The fastest strategy becomes slow, which must be noticed in time.
    let gone = ask(&trial, 150_000_000, |strategy| {
        [500.0, 900.0, 0.0, 950.0][usize::from(strategy)]
    });
    assert_eq!(trial.best(), Some(0));
    assert!(gone[0] > 50_000_000, "{gone:?}");
}

#[test]
fn of_ways_about_as_fast_the_first_is_gone() {
    let trial = AdaptiveSelector::new(1);
    trial.begin(&[0, 1]);
    ask(&trial, 500_000, |strategy| [500.0, 497.0][usize::from(strategy)]);
    assert_eq!(trial.best(), Some(0));
    // The trial begins soon, but not at once.
    trial.begin(&[0, 1]);
    assert!(!trial.choice().is_timed());
    let gone = ask(&trial, 8_000_000, |strategy| {
        [500.0, 480.0][usize::from(strategy)]
    });
    assert_eq!(trial.best(), Some(1), "{gone:?}");
    // Sets that change back and forth must not begin trials.
    for _ in 0..100 {
        trial.offer(&[0]);
        trial.offer(&[0, 1, 3]);
    }
    assert!(!trial.choice().is_timed());
    ask(&trial, 8_000_000, |strategy| {
        [500.0, 480.0, 0.0, 300.0][usize::from(strategy)]
    });
    assert_eq!(trial.best(), Some(3));
    trial.begin(&[0]);
    assert_eq!((trial.choice().strategy(), trial.choice().is_timed()), (0, false));
    assert_eq!(ask(&trial, 10_000_000, |_| 1.0)[1..], [0; 3]);
}

#[test]
fn long_queries_make_short_stretches_and_late_notes_do_not_count() {
    let trial = AdaptiveSelector::new(1);
    trial.begin(&[0, 1]);
    let second = Duration::from_secs(1);
    let first = trial.choice();
    trial.record(first, 1, second);
    trial.record(first, 1, second);
    assert_ne!(trial.choice(), first);
    trial.record(first, 1, second);
    for _ in 0..2 * 5 {
        assert_eq!(trial.best(), None);
        let time = if trial.choice().strategy() == 1 {
            second
        } else {
            second * 6 / 5
        };
        trial.record(trial.choice(), 1, time);
    }
    assert_eq!(trial.best(), Some(1));
}

#[test]
fn a_far_slower_way_has_one_round() {
    let trial = AdaptiveSelector::new(1);
    trial.begin(&[0, 1, 2]);
    let gone = ask(&trial, 1_000_000, |strategy| {
        [900.0, 500.0, 480.0][usize::from(strategy)]
    });
    assert_eq!(trial.best(), Some(2));
    let round = WARMUP.0 + COUNTED.0;
    assert_eq!((gone[0], gone[1]), (round, ROUNDS as u64 * round));
}
