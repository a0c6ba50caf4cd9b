//! Every crash of small workloads with durable fences, and with each flush and fence left out.

use std::sync::Arc;

use halocline_explore::{Crash, Explorer, MutantReport, Report, Tracked, Violation};

use super::model::{
    BOOT, ExpectedObjects, PoolStep, SMALL_POOL, counts, find, goes_on, run, states, without_copy,
};
use crate::{Pool, PoolError};

/// Accepts an image if it holds what was acknowledged (the operation in flight wholly or not at all), if
/// losing a superblock copy costs at most the newest generation and never yields a wrong byte, and if writing
/// can continue.
fn check(
    medium: &Arc<Tracked>,
    crash: &Crash<'_>,
    states: &[ExpectedObjects],
    done: usize,
) -> Result<(), String> {
    let open = || Pool::open_with(Arc::clone(medium), SMALL_POOL, BOOT);
    let (first, last) = crash.completed(done);
    let pool = open().map_err(|error| error.to_string())?;
    let at = find(&pool, states, first, last)?;
    let generation = pool.snapshot().map_err(|error| error.to_string())?.generation();
    for slot in 0..4 {
        without_copy(&**medium, slot, || match open() {
            Ok(pool) => {
                find(&pool, states, 0, last)?;
                let found = pool.snapshot().map_err(|error| error.to_string())?.generation();
                if found + 1 < generation {
                    Err(format!("back from {generation} to {found}"))
                } else {
                    Ok(())
                }
            }
            Err(PoolError::DamagedSuperblock { .. }) if slot < 2 => Ok(()),
            Err(error) => Err(error.to_string()),
        })
        .map_err(|error| format!("without copy {slot}: {error}"))?;
    }
    counts(&pool, &states[at], 1 + at - first)?;
    goes_on(&pool, states, at)
}

/// Creates a pool and performs the steps of a setup.
fn prepare(steps: &[PoolStep]) -> impl Fn(&Arc<Tracked>) {
    |medium| {
        let pool = Pool::create_with(Arc::clone(medium), SMALL_POOL).unwrap();
        run(&pool, steps, |_| (), |_| ());
    }
}

/// Opens the pool and performs the steps to explore.
pub(crate) fn work(steps: &[PoolStep]) -> impl Fn(&Arc<Tracked>) {
    |medium| {
        let pool = Pool::open_with(Arc::clone(medium), SMALL_POOL, BOOT).unwrap();
        run(
            &pool,
            steps,
            |step| medium.begin(step),
            |step| medium.acknowledge(step),
        );
    }
}

fn explorer() -> Explorer {
    Explorer {
        limit: 1024,
        ..Explorer::default()
    }
}

/// Explores the steps on a pool after the steps of the setup.
pub(crate) fn explore_work(setup: &[PoolStep], steps: &[PoolStep]) -> Result<Report, Box<Violation>> {
    let states = states(&[setup, steps].concat());
    explorer().run(prepare(setup), work(steps), |medium, crash| {
        check(&medium, crash, &states, setup.len())
    })
}

/// Explores the steps on a pool after the steps of the setup, with every flush and fence left out in turn.
pub(crate) fn explore(setup: &[PoolStep], steps: &[PoolStep]) -> MutantReport {
    let states = states(&[setup, steps].concat());
    let report = explorer().mutants(prepare(setup), work(steps), |medium, crash| {
        check(&medium, crash, &states, setup.len())
    });
    let report = report.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.missed.is_empty(), "{report}");
    report
}

#[test]
fn creation() {
    let report = Explorer::default().mutants(
        |_| (),
        |medium| {
            medium.begin(0);
            let pool = Pool::create_with(Arc::clone(medium), SMALL_POOL).unwrap();
            medium.acknowledge(0);
            drop(pool);
        },
        |medium, crash| {
            let opened = Pool::open_with(Arc::clone(&medium), SMALL_POOL, BOOT);
            match opened {
                Ok(pool) => goes_on(&pool, &[ExpectedObjects::new()], 0),
                Err(error) if crash.acknowledged.is_empty() => {
                    let typed = matches!(
                        error,
                        PoolError::NotAPool { .. }
                            | PoolError::DamagedSuperblock { .. }
                            | PoolError::DamagedDirectory { .. }
                    );
                    if typed { Ok(()) } else { Err(error.to_string()) }
                }
                Err(error) => Err(error.to_string()),
            }
        },
    );
    let report = report.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.missed.is_empty(), "{report}");
}

#[test]
fn objects_put_replaced_and_removed() {
    explore(
        &[],
        &[
            PoolStep::Put("a", 1, &[100, 60]),
            PoolStep::Put("b", 2, &[64]),
            PoolStep::Put("a", 3, &[130]),
            PoolStep::Remove("b"),
        ],
    );
}

#[test]
fn growth_and_long_extents() {
    explore(
        &[PoolStep::Put("a", 1, &[100])],
        &[
            PoolStep::Put("b", 2, &[5000, 20_000]),
            PoolStep::Put("c", 3, &[30_000]),
        ],
    );
}

#[test]
fn freed_space_is_used_again() {
    let fill: &[PoolStep] = &[
        PoolStep::Put("a", 1, &[4000]),
        PoolStep::Put("b", 2, &[100]),
        PoolStep::Remove("a"),
    ];
    explore(
        fill,
        &[
            PoolStep::Put("c", 3, &[100]),
            PoolStep::Put("d", 4, &[200]),
            PoolStep::Put("c", 5, &[300]),
            PoolStep::Remove("d"),
        ],
    );
    let replace: &[PoolStep] = &[
        PoolStep::Put("a", 1, &[100]),
        PoolStep::Put("a", 2, &[100]),
        PoolStep::Rollback(5000),
        PoolStep::Put("a", 3, &[100]),
        PoolStep::Put("a", 4, &[100]),
        PoolStep::Put("a", 5, &[100]),
        PoolStep::Put("a", 6, &[100]),
    ];
    let report = explore(&[], replace);
    assert_eq!(
        report.unchanged.growths, 0,
        "all of it found room in four blocks: {report}"
    );
}

#[test]
fn freed_space_waits_for_snapshots() {
    explore(
        &[PoolStep::Put("a", 1, &[100])],
        &[
            PoolStep::Pin,
            PoolStep::Put("a", 2, &[200]),
            PoolStep::Put("a", 3, &[100]),
            PoolStep::Put("a", 4, &[60]),
            PoolStep::Unpin,
            // Use all free space, including that of the previous generation: without its superblock, a lost
            // synced copy shows.
            PoolStep::Put("a", 5, &[120; 7]),
            PoolStep::Sync,
            PoolStep::Put("a", 6, &[120; 3]),
        ],
    );
}
