//! The crash explorer on small publish protocols: correct ones pass, and every fault is caught.

use std::sync::Arc;

use halocline_explore::{Crash, CrashPoint, Explorer, Mutation, Tracked, Violation};
use halocline_media::{LINE, MediumAccess, MediumBackend, PAGE};

/// The offset of the pointer, a word with the number of the newest record.
const POINTER: u64 = 0;
/// Bytes of a record, which has no particular alignment.
const RECORD: usize = 100;

fn record_offset(number: u64) -> u64 {
    LINE + 8 + number * (RECORD as u64 + 28)
}

fn record(number: u64) -> Vec<u8> {
    vec![number as u8; RECORD]
}

fn setup(medium: &Arc<Tracked>) {
    medium.grow(PAGE).unwrap();
}

/// Publishes records 1 to 3: the record first, then the pointer to it.
fn publish(medium: &Arc<Tracked>) {
    for number in 1..=3 {
        medium.begin(number);
        medium.store(record_offset(number), &record(number));
        medium.persist(record_offset(number), RECORD as u64).unwrap();
        medium.store_u64(POINTER, number);
        medium.persist(POINTER, 8).unwrap();
        medium.acknowledge(number);
    }
}

fn check(medium: Arc<Tracked>, crash: &Crash<'_>) -> Result<(), String> {
    let newest = medium.load_u64(POINTER);
    let acknowledged = crash.acknowledged.last().copied().unwrap_or(0);
    if newest != acknowledged && Some(newest) != crash.in_flight {
        return Err(format!("{newest} is newest, {acknowledged} was acknowledged"));
    }
    for number in 1..=newest {
        let mut found = [0; RECORD];
        medium.load(record_offset(number), &mut found);
        if found[..] != record(number) {
            return Err(format!("record {number} is torn"));
        }
    }
    Ok(())
}

#[test]
fn every_flush_and_fence_of_a_two_step_publish_is_needed() {
    let report = Explorer::default().mutants(setup, publish, check).unwrap();
    assert_eq!(
        (report.caught, report.missed.len(), report.idle.len()),
        (12, 0, 0),
        "{report}"
    );
    assert!(report.unchanged.exhaustive(), "{report}");
    assert_eq!(
        (report.unchanged.fences, report.unchanged.points),
        (6, 7),
        "{report}"
    );
}

#[test]
fn a_sample_catches_them_too() {
    let explorer = Explorer {
        limit: 8,
        ..Explorer::default()
    };
    let report = explorer.mutants(setup, publish, check).unwrap();
    assert_eq!((report.caught, report.missed.len()), (12, 0), "{report}");
    assert_eq!(report.unchanged.sampled_points, 3, "{report}");
}

#[test]
fn a_violation_tells_where_and_can_be_replayed() {
    let mutation = Some(Mutation::SkipFence(2));
    let explorer = Explorer {
        mutation,
        ..Explorer::default()
    };
    let violation: Box<Violation> = explorer.run(setup, publish, check).unwrap_err();
    assert_eq!(violation.point, CrashPoint::Fence(2));
    assert_eq!(
        (violation.acknowledged.as_slice(), violation.in_flight),
        (&[1][..], Some(2))
    );
    assert_eq!(violation.message, "record 2 is torn");
    assert_eq!(violation.replay(check), Err(violation.message.clone()));
    let story = violation.to_string();
    for part in [
        "crash at fence 2 with fence 2 left out: record 2 is torn",
        "seed 24301",
        "2 in flight",
        "line at 0 arrived (1 of 1)",
    ] {
        assert!(story.contains(part), "{part:?} is not in {story}");
    }
    assert_eq!(
        violation.to_string(),
        explorer.run(setup, publish, check).unwrap_err().to_string()
    );
}

#[test]
fn a_flush_that_forgets_the_last_line_is_caught() {
    let violation = Explorer::default().run(
        setup,
        |medium| {
            medium.begin(1);
            medium.store(record_offset(1), &record(1));
            for line in 0..RECORD as u64 / LINE {
                medium.flush(record_offset(1) + line * LINE, 1);
            }
            medium.fence().unwrap();
            medium.store_u64(POINTER, 1);
            medium.persist(POINTER, 8).unwrap();
            medium.acknowledge(1);
        },
        check,
    );
    assert_eq!(violation.unwrap_err().message, "record 1 is torn");
}

#[test]
fn an_early_acknowledgement_and_a_late_fence_are_caught() {
    let early = |medium: &Arc<Tracked>| {
        medium.begin(1);
        medium.store(record_offset(1), &record(1));
        medium.persist(record_offset(1), RECORD as u64).unwrap();
        medium.store_u64(POINTER, 1);
        medium.acknowledge(1);
        medium.persist(POINTER, 8).unwrap();
    };
    assert_eq!(
        Explorer::default().run(setup, early, check).unwrap_err().message,
        "0 is newest, 1 was acknowledged"
    );
    let late = Explorer {
        mutation: Some(Mutation::DelayFence(0)),
        ..Explorer::default()
    };
    assert_eq!(
        late.run(setup, publish, check).unwrap_err().message,
        "record 1 is torn"
    );
}

#[test]
fn idle_calls_and_panics_are_told_apart() {
    let idle = |medium: &Arc<Tracked>| {
        medium.begin(1);
        medium.store(record_offset(1), &record(1));
        medium.persist(record_offset(1), RECORD as u64).unwrap();
        medium.persist(record_offset(1), 8).unwrap();
        medium.store_u64(POINTER, 1);
        medium.persist(POINTER, 8).unwrap();
        medium.acknowledge(1);
        // Nothing depends on this one.
        medium.store(2048, b"a hint");
        medium.persist(2048, 6).unwrap();
    };
    let report = Explorer::default().mutants(setup, idle, check).unwrap();
    let names = |list: &[(Mutation, String)]| list.iter().map(|(mutation, _)| *mutation).collect::<Vec<_>>();
    assert_eq!(
        names(&report.idle),
        [Mutation::SkipFlush(1), Mutation::SkipFence(1)],
        "{report}"
    );
    // The idle fence replaces the one before it.
    let missed = [
        Mutation::SkipFence(0),
        Mutation::SkipFlush(3),
        Mutation::SkipFence(3),
    ];
    assert_eq!(names(&report.missed), missed, "{report}");
    assert_eq!(report.caught, 3, "{report}");
    assert!(
        report
            .to_string()
            .contains("missed: flush 3 (6 bytes at 2048 in operation 1)"),
        "{report}"
    );

    let panics = |medium: Arc<Tracked>, _: &Crash<'_>| -> Result<(), String> {
        assert_eq!(medium.load_u64(POINTER), 0, "published");
        Ok(())
    };
    let violation = Explorer::default().run(setup, publish, panics).unwrap_err();
    assert!(violation.message.starts_with("panic: "), "{violation}");
}

#[test]
fn a_crash_while_growing_leaves_either_length_and_zeroes() {
    let mut lens = Vec::new();
    let report = Explorer::default().run(
        setup,
        |medium| {
            medium.store_u64(8, 1);
            medium.grow(3 * PAGE).unwrap();
            medium.store_u64(2 * PAGE, 2);
            medium.sync().unwrap();
        },
        |medium, crash| -> Result<(), String> {
            lens.push((
                crash.point,
                medium.len(),
                medium.load_u64(8),
                medium.len() > PAGE && medium.load_u64(2 * PAGE) == 2,
            ));
            Ok(())
        },
    );
    assert_eq!((report.unwrap().growths, lens.len()), (1, 6));
    let grow = CrashPoint::Grow(0);
    for len in [PAGE, 3 * PAGE] {
        assert!(
            lens.contains(&(grow, len, 0, false)) && lens.contains(&(grow, len, 1, false)),
            "{lens:?}"
        );
    }
    assert!(
        lens.contains(&(CrashPoint::Sync(0), 3 * PAGE, 0, true)),
        "{lens:?}"
    );
}
