//! Power loss of stores whose commits need not be durable when they return: what is left is the state after
//! one of the commits, and none that a flush has made durable is missing.

use std::sync::Arc;

use halocline_explore::{Crash, Report, Tracked, TrackedPageCache, Violation};
use halocline_media::{Counting, Dram, Medium, MediumAccess, MediumBackend};
use halocline_pool::Pool;

use super::workload::StoreStep::{Batch, Checkpoint, Delete, DeleteRange, Flush, Put, Reclaim, Together};
use super::workload::{MediumOf, Running, StoreStep, Visible, explorer, goes_on, states};
use crate::fault::{self, StoreFault};
use crate::{StoresOptions, WriteBatch};

const MEDIA: [MediumOf; 2] = [
    |memory| Medium::from(memory),
    |memory| Medium::from(TrackedPageCache::new(memory, true)),
];

fn deferred(options: StoresOptions) -> StoresOptions {
    options.with_durable_commits(false)
}

/// Returns the number of steps whose effects a crash must not undo when `returned` steps have returned.
fn durable(steps: &[StoreStep], returned: usize) -> usize {
    let is_durable = |step: &StoreStep| matches!(step, Flush | Checkpoint | Reclaim | Together(_));
    let last = steps[..returned].iter().rposition(is_durable);
    last.map_or(0, |last| last + 1)
}

fn check(
    medium: Arc<Tracked>,
    on: MediumOf,
    crash: &Crash<'_>,
    setup: usize,
    steps: &[StoreStep],
    states: &[Visible],
) -> Result<(), String> {
    let (first, last) = crash.completed(setup);
    let least = setup + durable(steps, first - setup);
    let pool = Pool::open_on(on(&medium)).map_err(|error| error.to_string())?;
    let running = Running::open(&pool)?;
    let found = running.contents()?;
    if !states[least..=last].contains(&found) {
        return Err(format!("no state from {least} to {last}"));
    }
    goes_on(&pool, running, 0, &found)
}

fn explore(on: MediumOf, setup: &[StoreStep], steps: &[StoreStep]) -> Result<Report, Box<Violation>> {
    let states = states(&[setup, steps].concat());
    let run = |medium: &Arc<Tracked>, pool: &Pool, from: usize, steps: &[StoreStep]| {
        let mut running = Running::open_with(pool, deferred).unwrap();
        for (at, step) in steps.iter().enumerate() {
            medium.begin(at as u64);
            running.step(from + at, step).unwrap();
            medium.acknowledge(at as u64);
        }
        running
    };
    explorer().run(
        |medium| drop(run(medium, &Pool::create_on(on(medium)).unwrap(), 0, setup)),
        |medium| {
            let pool = Pool::open_on(on(medium)).unwrap();
            // Whatever closing does is no part of the workload.
            std::mem::forget(run(medium, &pool, setup.len(), steps));
        },
        |medium, crash| check(medium, on, crash, setup.len(), steps, &states),
    )
}

fn puts(keys: std::ops::Range<u32>) -> Vec<StoreStep> {
    keys.map(|key| Put(key, 30)).collect()
}

/// Returns steps with new values, new keys and deletions, with and without flushes and checkpoints between
/// them.
fn workload() -> Vec<StoreStep> {
    vec![
        Put(3, 11),
        Put(50, 12),
        Flush,
        Delete(4),
        Put(3, 13),
        Batch(vec![1, 2, 60], vec![5]),
        Checkpoint,
        Put(3, 14),
        Put(60, 15),
        Flush,
        Put(3, 16),
        DeleteRange(0, 4),
        Put(70, 20_000),
        Put(1, 40_000),
        Flush,
        Put(1, 1),
    ]
}

#[test]
fn a_prefix_of_the_commits_is_left() {
    let setup = [puts(0..20), vec![Checkpoint]].concat();
    for on in MEDIA {
        let report = explore(on, &setup, &workload()).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(report.images > 100, "{report}");
    }
}

#[test]
fn segments_are_emptied_and_used_again() {
    let rewrite = |from: u32| (from..from + 3).map(|key| Put(key % 5, 15_000));
    let setup: Vec<_> = puts(100..110)
        .into_iter()
        .chain(rewrite(0))
        .chain(rewrite(3))
        .collect();
    let mut steps = Vec::new();
    for from in [6, 9, 12] {
        steps.extend(rewrite(from));
        steps.push(Reclaim);
    }
    steps.extend(rewrite(15));
    for on in MEDIA {
        let report = explore(on, &setup, &steps).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(report.images > 100, "{report}");
    }
}

/// A transaction that is durable with a generation of the pool, amid commits that wait for a fence.
fn together() -> Vec<StoreStep> {
    vec![Put(1, 10), Put(2, 20), Together(vec![2, 3]), Put(1, 11)]
}

#[test]
fn a_commit_together_with_the_pool_does_not_outlive_those_before() {
    let setup = [Put(9, 9), Checkpoint];
    for on in MEDIA {
        let report = explore(on, &setup, &together()).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(report.images > 10, "{report}");
    }
    let unfenced = || explore(MEDIA[0], &setup, &together());
    assert!(fault::with(StoreFault::DecideUnfenced, unfenced).is_err());
}

#[test]
fn broken_rules_are_noticed() {
    let setup = [puts(0..20), vec![Checkpoint]].concat();
    for fault in [StoreFault::ForgetDeferred, StoreFault::ApplyEarly] {
        let found = fault::with(fault, || explore(MEDIA[0], &setup, &workload()));
        assert!(found.is_err(), "{fault:?}");
    }
}

/// Runs steps on the stores of an image in a process that is killed afterwards. Returns what is visible then,
/// durable or not.
fn kill_after(image: &[u8], steps: &[StoreStep]) -> Vec<u8> {
    let medium = Arc::new(Tracked::from_image(image).unwrap());
    let pool = match image {
        [] => Pool::create_on(&medium).unwrap(),
        _ => Pool::open_on(&medium).unwrap(),
    };
    let mut running = Running::open_with(&pool, deferred).unwrap();
    for (at, step) in steps.iter().enumerate() {
        running.step(at, step).unwrap();
    }
    std::mem::forget(running);
    medium.image()
}

/// Opens stores that a killed process has left. What was read then must not be lost any more.
fn explore_reopening() -> Result<Report, Box<Violation>> {
    let steps = [Put(1, 10), Put(2, 20_000), Put(3, 60_000), Delete(1)];
    let states = states(&steps);
    let before = kill_after(&[], &[]);
    let left = kill_after(&before, &steps);
    assert_eq!(before.len(), left.len(), "growth is durable by itself");
    explorer().run(
        |medium| {
            medium.grow(before.len() as u64).unwrap();
            medium.store(0, &before);
        },
        |medium| {
            for (line, (old, new)) in before.chunks(64).zip(left.chunks(64)).enumerate() {
                if old != new {
                    medium.store(line as u64 * 64, new);
                }
            }
            let again = Running::open(&Pool::open_on(medium).unwrap()).unwrap();
            assert_eq!(again.contents().unwrap(), states[steps.len()]);
            medium.begin(0);
            medium.acknowledge(0);
            medium.fence().unwrap();
            std::mem::forget(again);
        },
        |medium, crash| {
            let running = Running::open(&Pool::open_on(medium).map_err(|error| error.to_string())?)?;
            let found = running.contents()?;
            let least = if crash.acknowledged.is_empty() {
                0
            } else {
                steps.len()
            };
            if states[least..].contains(&found) {
                Ok(())
            } else {
                Err(format!("no state from {least} on"))
            }
        },
    )
}

#[test]
fn what_a_killed_process_has_left_is_durable_when_it_is_read() {
    let report = explore_reopening().unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.images > 10, "{report}");
    assert!(fault::with(StoreFault::TrustUnfenced, explore_reopening).is_err());
}

#[test]
fn commits_wait_for_no_fence() {
    let medium = Arc::new(Counting::new(Dram::new(0).unwrap()));
    let pool = Pool::create_on(&medium).unwrap();
    let running = Running::open_with(&pool, deferred).unwrap();
    let before = medium.counts();
    for number in 0..10_u8 {
        let mut batch = WriteBatch::new();
        batch.put(&running.open[0], [number], [number; 20]).unwrap();
        running.stores.write(batch).unwrap();
        assert_eq!(running.open[0].get([number]).unwrap(), Some(vec![number; 20]));
    }
    assert_eq!((medium.counts() - before).fences, 0);
    let fences = running.stores.stats().log_fences;
    running.stores.flush().unwrap();
    running.stores.flush().unwrap();
    assert_eq!((medium.counts() - before).fences, 1);
    assert_eq!(running.stores.stats().log_fences, fences + 1);
}
