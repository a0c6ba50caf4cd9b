//! Every crash around a vacuum, what it must leave alone, and a disk that is full when its holes are needed.

use std::sync::Arc;

use halocline_media::explore::Explorer;
use halocline_media::{MediumAccess, MediumBackend, Tracked};

use super::crash;
use super::model::{BOOT, SMALL, State, Step, contents, find, run, write};
use super::power;
use super::wrapped::Wrapped;
use crate::mistake::{self, Mistake};
use crate::{ObjectKind, Pool, PoolError};

const STEPS: &[Step] = &[
    Step::Put("a", 2, &[100]),
    Step::Put("a", 3, &[100]),
    Step::Vacuum,
    Step::Append(30),
    Step::Fold("b", 4),
    Step::Vacuum,
    Step::Append(40),
];

const SETUP: &[Step] = &[
    Step::Put("big", 9, &[60_000]),
    Step::Remove("big"),
    Step::Put("a", 1, &[100]),
    Step::Log(4096),
    Step::Sync,
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
    assert!(mistake::with(Mistake::VacuumUnsynced, explore).is_err());
}

/// Something at the end of the file, behind space that is free.
const TAIL: &[Step] = &[
    Step::Log(4096),
    Step::Put("big", 9, &[120_000]),
    Step::Put("tail", 5, &[9000, 100, 70_000]),
    Step::Remove("big"),
    Step::Append(50),
    Step::Sync,
];

const SHORTEN: &[Step] = &[
    Step::Append(30),
    Step::Vacuum,
    Step::Append(20),
    Step::Vacuum,
    Step::Fold("b", 4),
];

#[test]
fn what_is_moved_and_cut_off_survives_every_crash() {
    crash::explore_work(TAIL, SHORTEN).unwrap_or_else(|violation| panic!("{violation}"));
    let cut = || crash::explore_work(TAIL, SHORTEN);
    assert!(mistake::with(Mistake::ShortenFirst, cut).is_err());
}

#[test]
fn what_is_moved_and_cut_off_survives_power_loss() {
    let explorer = Explorer {
        limit: 300,
        ..Explorer::default()
    };
    // Without records, so that the log moves as well.
    let (mut setup, mut steps) = (TAIL.to_vec(), SHORTEN.to_vec());
    setup.retain(|step| !matches!(step, Step::Append(_)));
    steps.remove(0);
    let explore = || power::explore(&explorer, &setup, &steps, false);
    explore().unwrap_or_else(|violation| panic!("{violation}"));
    assert!(mistake::with(Mistake::ShortenFirst, explore).is_err());
}

#[test]
fn a_vacuum_under_a_snapshot() {
    let work = || {
        let pool = Pool::create_with(Arc::new(Tracked::new(0).unwrap()), SMALL).unwrap();
        run(
            &pool,
            &[
                Step::Put("a", 1, &[100]),
                Step::Pin,
                Step::Put("a", 2, &[100]),
                Step::Vacuum,
            ],
            |_| (),
            |_| (),
        );
    };
    work();
    assert!(std::panic::catch_unwind(|| mistake::with(Mistake::VacuumLimbo, work)).is_err());
}

/// Two handles write in turns; each vacuums, and stores to what the other one has left without blocks.
fn in_turns() {
    let tracked = Arc::new(Tracked::new(0).unwrap());
    let medium = Wrapped::new(&tracked);
    let one = Pool::create_with(Arc::clone(&medium), SMALL).unwrap();
    let other = Pool::open_with(Arc::clone(&medium), SMALL, BOOT).unwrap();
    let rounds = |pool: &Pool, seed: u8| {
        run(
            pool,
            &[
                Step::Put("a", seed, &[9000, 100]),
                Step::Remove("a"),
                Step::Vacuum,
            ],
            |_| (),
            |_| (),
        );
    };
    for seed in 1..6 {
        rounds(&one, seed);
        assert!(medium.allocated().unwrap() < medium.len());
        // Of the same generation, so that only the vacuum tells the other handle.
        drop(other.begin().unwrap());
        one.vacuum().unwrap();
        rounds(&other, seed);
    }
    assert!(one.check(|_| ()).unwrap().is_intact());
}

#[test]
fn holes_get_blocks_before_they_are_written() {
    in_turns();
    assert!(std::panic::catch_unwind(|| mistake::with(Mistake::TrustBlocks, in_turns)).is_err());
}

#[test]
fn a_hole_that_gets_no_blocks_is_a_full_disk() {
    let medium = Wrapped::new(&Arc::new(Tracked::new(0).unwrap()));
    let pool = Pool::create_with(Arc::clone(&medium), SMALL).unwrap();
    run(
        &pool,
        &[
            Step::Put("a", 1, &[100]),
            Step::Put("big", 2, &[60_000]),
            Step::Remove("big"),
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
    find(&pool, &[State::from([("a", (3, vec![5000]))])], 0, 0).unwrap();
}
