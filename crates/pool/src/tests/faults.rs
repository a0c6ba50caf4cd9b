//! Injected faults of publishes: each must be noticed.

use std::sync::Arc;

use halocline_explore::{Explorer, Tracked};
use halocline_media::MediumAccess;

use super::crash;
use super::model::{
    BOOT, ExpectedObjects, PoolStep, SMALL_POOL, find, goes_on, holds_acknowledged, run, states, without_copy,
};
use super::wrapped::Wrapped;
use crate::fault::{self, PoolFault};
use crate::layout::{DATA_START, SLOT_SIZE};
use crate::{Pool, PoolError};

fn explorer() -> Explorer {
    Explorer {
        limit: 300,
        ..Explorer::default()
    }
}

/// Returns true if some crash of the steps, with durable fences, leaves an unacceptable state.
fn noticed(fault: Option<PoolFault>, steps: &[PoolStep]) -> bool {
    let states = states(steps);
    let work = crash::work(steps);
    let result = explorer().run(
        |medium| drop(Pool::create_with(Arc::clone(medium), SMALL_POOL).unwrap()),
        |medium| match fault {
            Some(fault) => fault::with(fault, || work(medium)),
            None => work(medium),
        },
        |medium, crash| {
            let open = || Pool::open_with(Arc::clone(&medium), SMALL_POOL, BOOT);
            let (first, last) = crash.completed(0);
            let at = find(&open().map_err(|error| error.to_string())?, &states, first, last)?;
            for slot in 0..4 {
                without_copy(&*medium, slot, || match open() {
                    Ok(pool) => find(&pool, &states, 0, last).map(drop),
                    Err(PoolError::DamagedSuperblock { .. }) => Ok(()),
                    Err(error) => Err(error.to_string()),
                })?;
            }
            goes_on(&open().map_err(|error| error.to_string())?, &states, at)
        },
    );
    result.is_err()
}

const REPLACE: &[PoolStep] = &[
    PoolStep::Put("a", 1, &[100]),
    PoolStep::Put("a", 2, &[100]),
    PoolStep::Put("a", 3, &[100]),
    PoolStep::Put("a", 4, &[100; 3]),
];

#[test]
fn the_newer_superblock_overwritten() {
    assert!(!noticed(None, REPLACE));
    assert!(noticed(Some(PoolFault::OverwriteNewest), REPLACE));
}

#[test]
fn space_used_again_before_a_second_superblock_names_it_not() {
    assert!(noticed(Some(PoolFault::IgnoreSynced), REPLACE));
}

#[test]
fn space_used_again_under_a_snapshot() {
    let steps = [&[PoolStep::Put("a", 1, &[100]), PoolStep::Pin], REPLACE].concat();
    let work = || {
        let pool = Pool::create_with(Arc::new(Tracked::new(0).unwrap()), SMALL_POOL).unwrap();
        run(&pool, &steps, |_| (), |_| ());
    };
    work();
    let broken = std::panic::catch_unwind(|| fault::with(PoolFault::IgnoreReaders, work));
    assert!(broken.is_err());
}

/// Lets a writer die between the store of the superblock and its flush; the next one builds on the visible
/// state.
fn after_a_death_before_the_flush(fault: Option<PoolFault>) -> Result<(), String> {
    let before = [PoolStep::Put("a", 1, &[100]), PoolStep::Put("a", 2, &[100])];
    let dying = [PoolStep::Put("a", 3, &[100])];
    let after = [PoolStep::Put("a", 4, &[100; 4])];
    let states = states(&[&before[..], &dying, &after].concat());
    let work = |medium: &Arc<Tracked>| {
        let copy = Arc::new(Tracked::from_image(&medium.image()).unwrap());
        run(
            &Pool::open_with(Arc::clone(&copy), SMALL_POOL, BOOT).unwrap(),
            &dying,
            |_| (),
            |_| (),
        );
        let (old, new) = (medium.image(), copy.image());
        medium.begin(0);
        // First the bytes that the dying writer had flushed, then those that it had not.
        let data = DATA_START as usize..old.len();
        medium.store(DATA_START, &new[data]);
        medium.persist(DATA_START, old.len() as u64 - DATA_START).unwrap();
        for slot in 0..2 {
            let start = slot * SLOT_SIZE as usize;
            medium.store(start as u64, &new[start..start + 128]);
        }
        let pool = Pool::open_with(Arc::clone(medium), SMALL_POOL, BOOT).unwrap();
        medium.begin(1);
        run(&pool, &after, |_| (), |_| ());
        medium.acknowledge(1);
    };
    let result = explorer().run(
        |medium| {
            run(
                &Pool::create_with(Arc::clone(medium), SMALL_POOL).unwrap(),
                &before,
                |_| (),
                |_| (),
            )
        },
        |medium| match fault {
            Some(fault) => fault::with(fault, || work(medium)),
            None => work(medium),
        },
        holds_acknowledged(&states, BOOT, (2, 4)),
    );
    result.map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn superblocks_of_a_dead_writer_trusted() {
    after_a_death_before_the_flush(None).unwrap();
    assert!(after_a_death_before_the_flush(Some(PoolFault::TrustSuperblocks)).is_err());
}

/// Publishes with durable fences, then without: power loss must not cost the durable publishes.
fn after_strict_publishes(fault: Option<PoolFault>) -> Result<(), String> {
    // Leave hardly any space; otherwise a sync would be implied.
    let strict = [PoolStep::Put("a", 1, &[100, 100])];
    let lazy = [PoolStep::Put("a", 2, &[100]), PoolStep::Put("a", 3, &[100])];
    let states: Vec<ExpectedObjects> = states(&[&strict[..], &lazy].concat());
    let work = |medium: &Arc<Tracked>| {
        let pool = Pool::open_with(Wrapped::lazy(medium), SMALL_POOL, BOOT).unwrap();
        run(&pool, &lazy, |_| (), |_| ());
        std::mem::forget(pool);
    };
    let result = explorer().run(
        |medium| {
            run(
                &Pool::create_with(Arc::clone(medium), SMALL_POOL).unwrap(),
                &strict,
                |_| (),
                |_| (),
            )
        },
        |medium| match fault {
            Some(fault) => fault::with(fault, || work(medium)),
            None => work(medium),
        },
        |medium, _| {
            let open = || Pool::open_with(Arc::clone(&medium), SMALL_POOL, [9; 16]);
            let pool = open().or_else(|_| Pool::repair_with(&medium, [9; 16], |_| ()).and_then(|_| open()));
            find(&pool.map_err(|error| error.to_string())?, &states, 1, 3).map(drop)
        },
    );
    result.map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn strict_publishes_lost_by_later_ones() {
    after_strict_publishes(None).unwrap();
    assert!(after_strict_publishes(Some(PoolFault::SkipSyncedBase)).is_err());
}
