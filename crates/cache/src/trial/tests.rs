//! Ways that take given times.

use super::*;

/// Asks so many queries, of which those of way `way` take `nanos(way)`; counts those of each way.
fn ask(trial: &Trial, queries: u64, nanos: impl Fn(u8) -> f64) -> [u64; 4] {
    let mut gone = [0; 4];
    for query in 0..queries / 64 {
        let turn = trial.turn();
        gone[usize::from(turn.way())] += 64;
        // Times that differ by a third from block to block.
        let noise = 1.0 + (query * 7 % 11) as f64 / 30.0;
        let time = nanos(turn.way()) * noise * 64.0;
        trial.note(turn, 64, Duration::from_nanos(time as u64));
        trial.pass(64);
    }
    gone
}

#[test]
fn the_fastest_way_is_gone_and_others_are_tried_rarely() {
    let trial = Trial::new(3);
    assert_eq!(ask(&trial, 100_000, |_| 500.0)[3], 99_968);
    trial.begin(&[0, 1, 3]);
    ask(&trial, 700_000, |way| {
        [500.0, 400.0, 0.0, 450.0][usize::from(way)]
    });
    assert_eq!((trial.best(), trial.turn().way()), (Some(1), 1));
    let gone = ask(&trial, 50_000_000, |way| {
        [500.0, 400.0, 0.0, 450.0][usize::from(way)]
    });
    assert!(gone[0] + gone[3] < 2_000_000, "{gone:?}");
    // What was the fastest becomes slow: that is noticed in time.
    let gone = ask(&trial, 150_000_000, |way| {
        [500.0, 900.0, 0.0, 950.0][usize::from(way)]
    });
    assert_eq!(trial.best(), Some(0));
    assert!(gone[0] > 50_000_000, "{gone:?}");
}

#[test]
fn of_ways_about_as_fast_the_first_is_gone() {
    let trial = Trial::new(1);
    trial.begin(&[0, 1]);
    ask(&trial, 500_000, |way| [500.0, 497.0][usize::from(way)]);
    assert_eq!(trial.best(), Some(0));
    // Soon, not at once.
    trial.begin(&[0, 1]);
    assert!(!trial.turn().is_timed());
    let gone = ask(&trial, 8_000_000, |way| [500.0, 480.0][usize::from(way)]);
    assert_eq!(trial.best(), Some(1), "{gone:?}");
    // What changes to and fro does not begin trials.
    for _ in 0..100 {
        trial.offer(&[0]);
        trial.offer(&[0, 1, 3]);
    }
    assert!(!trial.turn().is_timed());
    ask(&trial, 8_000_000, |way| {
        [500.0, 480.0, 0.0, 300.0][usize::from(way)]
    });
    assert_eq!(trial.best(), Some(3));
    trial.begin(&[0]);
    assert_eq!((trial.turn().way(), trial.turn().is_timed()), (0, false));
    assert_eq!(ask(&trial, 10_000_000, |_| 1.0)[1..], [0; 3]);
}

#[test]
fn long_queries_make_short_stretches_and_late_notes_do_not_count() {
    let trial = Trial::new(1);
    trial.begin(&[0, 1]);
    let second = Duration::from_secs(1);
    let first = trial.turn();
    trial.note(first, 1, second);
    trial.note(first, 1, second);
    assert_ne!(trial.turn(), first);
    trial.note(first, 1, second);
    for _ in 0..2 * 5 {
        assert_eq!(trial.best(), None);
        let time = if trial.turn().way() == 1 {
            second
        } else {
            second * 6 / 5
        };
        trial.note(trial.turn(), 1, time);
    }
    assert_eq!(trial.best(), Some(1));
}

#[test]
fn a_far_slower_way_has_one_round() {
    let trial = Trial::new(1);
    trial.begin(&[0, 1, 2]);
    let gone = ask(&trial, 1_000_000, |way| [900.0, 500.0, 480.0][usize::from(way)]);
    assert_eq!(trial.best(), Some(2));
    let round = BEFORE.0 + COUNTED.0;
    assert_eq!((gone[0], gone[1]), (round, ROUNDS as u64 * round));
}
