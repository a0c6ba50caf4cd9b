//! Every crash around a vacuum, the space it must spare, and a disk that is full when its holes are needed.

use std::sync::Arc;

use halocline_explore::{Explorer, Tracked};
use halocline_media::{MediumAccess, MediumBackend};

use super::crash;
use super::model::{BOOT, ExpectedObjects, PoolStep, SMALL_POOL, contents, find, run, write};
use super::power;
use super::wrapped::Wrapped;
use crate::fault::{self, PoolFault};
use crate::{ObjectKind, Pool, PoolError};

const STEPS: &[PoolStep] = &[
    PoolStep::Put("a", 2, &[100]),
    PoolStep::Put("a", 3, &[100]),
    PoolStep::Vacuum,
    PoolStep::Append(30),
    PoolStep::Fold("b", 4),
    PoolStep::Vacuum,
    PoolStep::Append(40),
];

const SETUP: &[PoolStep] = &[
    PoolStep::Put("big", 9, &[60_000]),
    PoolStep::Remove("big"),
    PoolStep::Put("a", 1, &[100]),
    PoolStep::Log(4096),
    PoolStep::Sync,
];

#[test]
fn a_vacuum_takes_nothing_that_is_needed() {
    crash::explore_work(SETUP, STEPS).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn a_vacuum_takes_nothing_that_is_needed_after_power_loss() {
    let explorer = Explorer {
        limit: 500,
        ..Explorer::default()
    };
    let explore = || power::explore(&explorer, SETUP, STEPS, false);
    explore().unwrap_or_else(|violation| panic!("{violation}"));
    assert!(fault::with(PoolFault::VacuumUnsynced, explore).is_err());
}

/// An object at the end of the file, after free space.
const TAIL: &[PoolStep] = &[
    PoolStep::Log(4096),
    PoolStep::Put("big", 9, &[120_000]),
    PoolStep::Put("tail", 5, &[9000, 100, 70_000]),
    PoolStep::Remove("big"),
    PoolStep::Append(50),
    PoolStep::Sync,
];

const SHORTEN: &[PoolStep] = &[
    PoolStep::Append(30),
    PoolStep::Vacuum,
    PoolStep::Append(20),
    PoolStep::Vacuum,
    PoolStep::Fold("b", 4),
];

#[test]
fn what_is_moved_and_cut_off_survives_every_crash() {
    crash::explore_work(TAIL, SHORTEN).unwrap_or_else(|violation| panic!("{violation}"));
    let cut = || crash::explore_work(TAIL, SHORTEN);
    assert!(fault::with(PoolFault::ShortenFirst, cut).is_err());
}

#[test]
fn what_is_moved_and_cut_off_survives_power_loss() {
    let explorer = Explorer {
        limit: 300,
        ..Explorer::default()
    };
    // An empty log moves as well.
    let (mut setup, mut steps) = (TAIL.to_vec(), SHORTEN.to_vec());
    setup.retain(|step| !matches!(step, PoolStep::Append(_)));
    steps.remove(0);
    let explore = || power::explore(&explorer, &setup, &steps, false);
    explore().unwrap_or_else(|violation| panic!("{violation}"));
    assert!(fault::with(PoolFault::ShortenFirst, explore).is_err());
}

#[test]
fn a_vacuum_under_a_snapshot() {
    let work = || {
        let pool = Pool::create_with(Arc::new(Tracked::new(0).unwrap()), SMALL_POOL).unwrap();
        run(
            &pool,
            &[
                PoolStep::Put("a", 1, &[100]),
                PoolStep::Pin,
                PoolStep::Put("a", 2, &[100]),
                PoolStep::Vacuum,
            ],
            |_| (),
            |_| (),
        );
    };
    work();
    assert!(std::panic::catch_unwind(|| fault::with(PoolFault::VacuumLimbo, work)).is_err());
}

/// Lets two handles write alternately; each vacuums, and stores to space that the other has left without
/// blocks.
fn in_turns() {
    let tracked = Arc::new(Tracked::new(0).unwrap());
    let medium = Wrapped::new(&tracked);
    let one = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
    let other = Pool::open_with(Arc::clone(&medium), SMALL_POOL, BOOT).unwrap();
    let rounds = |pool: &Pool, seed: u8| {
        run(
            pool,
            &[
                PoolStep::Put("a", seed, &[9000, 100]),
                PoolStep::Remove("a"),
                PoolStep::Vacuum,
            ],
            |_| (),
            |_| (),
        );
    };
    for seed in 1..6 {
        rounds(&one, seed);
        assert!(medium.allocated().unwrap() < medium.len());
        // The generation is the same, so only the vacuum count informs the other handle.
        drop(other.begin().unwrap());
        one.vacuum().unwrap();
        rounds(&other, seed);
    }
    assert!(one.check(|_| ()).unwrap().is_intact());
}

#[test]
fn holes_get_blocks_before_they_are_written() {
    in_turns();
    assert!(std::panic::catch_unwind(|| fault::with(PoolFault::TrustBlocks, in_turns)).is_err());
}

#[test]
fn a_hole_that_gets_no_blocks_is_a_full_disk() {
    let medium = Wrapped::new(&Arc::new(Tracked::new(0).unwrap()));
    let pool = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
    run(
        &pool,
        &[
            PoolStep::Put("a", 1, &[100]),
            PoolStep::Put("big", 2, &[60_000]),
            PoolStep::Remove("big"),
        ],
        |_| (),
        |_| (),
    );
    let report = pool.vacuum().unwrap();
    assert!(report.punched >= 60_000, "{report:?}");
    assert_eq!(report.allocated, pool.info().unwrap().allocated);
    medium.limit(0);
    let txn = pool.begin().unwrap();
    assert!(matches!(txn.alloc(5000), Err(PoolError::DiskFull { .. })));
    drop(txn);
    medium.limit(u64::MAX);
    let txn = pool.begin().unwrap();
    let extent = write(&txn, &contents(3, 0, 5000));
    txn.put("a", ObjectKind::TABLE, &[3; 20], vec![extent]).unwrap();
    txn.commit().unwrap();
    find(&pool, &[ExpectedObjects::from([("a", (3, vec![5000]))])], 0, 0).unwrap();
}
