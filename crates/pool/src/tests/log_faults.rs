//! Injected faults of logs: each must be noticed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use halocline_explore::{Explorer, Tracked};
use halocline_media::MediumAccess;

use super::model::{
    BOOT, ExpectedObjects, LOG, LOG_SEED, NEXT_BOOT, PoolStep, SMALL_POOL, append, contents, find,
    holds_acknowledged, run, states,
};
use super::wrapped::Wrapped;
use super::{crash, power};
use crate::fault::{self, PoolFault};
use crate::layout::RECORD_OVERHEAD;
use crate::{Pool, PoolError};

fn explorer() -> Explorer {
    Explorer {
        limit: 300,
        ..Explorer::default()
    }
}

/// Returns true if a snapshot that is held is disturbed by later steps.
fn disturbs_a_snapshot(fault: PoolFault, steps: &[PoolStep]) -> bool {
    let work = || {
        let pool = Pool::create_with(Arc::new(Tracked::new(0).unwrap()), SMALL_POOL).unwrap();
        run(&pool, steps, |_| (), |_| ());
    };
    work();
    catch_unwind(|| fault::with(fault, work)).is_err()
}

#[test]
fn a_log_with_records_used_by_the_next_generation() {
    let steps = [
        PoolStep::Log(4096),
        PoolStep::Append(20),
        PoolStep::Pin,
        PoolStep::Fold("a", 1),
        PoolStep::Append(50),
    ];
    assert!(disturbs_a_snapshot(PoolFault::KeepFullLog, &steps));
}

#[test]
fn a_log_that_stays_where_it_is_without_a_new_start() {
    let steps = [
        PoolStep::Log(4096),
        PoolStep::Pin,
        PoolStep::Put("a", 1, &[100]),
        PoolStep::Append(50),
    ];
    assert!(disturbs_a_snapshot(PoolFault::KeepLogStart, &steps));
}

#[test]
fn a_sync_that_overlooks_the_log() {
    let (setup, steps) = (
        [PoolStep::Log(4096), PoolStep::Sync],
        [PoolStep::Append(20), PoolStep::Sync],
    );
    let lost = |fault| {
        fault::with(fault, || {
            power::explore(&explorer(), &setup, &steps, false).is_err()
        })
    };
    assert!(lost(PoolFault::SkipLogSync));
}

#[test]
fn records_that_a_log_begins_with_but_a_crash_takes() {
    let (setup, steps) = (
        [PoolStep::Log(4096), PoolStep::Append(20)],
        [PoolStep::Carry("b", 3)],
    );
    let lost = |fault| fault::with(fault, || crash::explore_work(&setup, &steps).is_err());
    assert!(lost(PoolFault::PublishFirstRecordsEarly));
    crash::explore_work(&setup, &steps).unwrap();
}

/// Loses a record that was not synced in a power failure, while later records survive, and stores another
/// record of its length in its place.
fn a_record_in_the_place_of_a_lost_one() -> Result<(), String> {
    const LEN: usize = 40;
    let before = [
        PoolStep::Log(4096),
        PoolStep::Append(LEN),
        PoolStep::Sync,
        PoolStep::Append(LEN),
        PoolStep::Append(LEN),
    ];
    let all: Vec<ExpectedObjects> = states(&before);
    let result = explorer().run(
        |medium| {
            let pool = Pool::create_with(Wrapped::lazy(medium), SMALL_POOL).unwrap();
            run(&pool, &before, |_| (), |_| ());
            let log = pool.snapshot().unwrap().object(LOG).unwrap().extent_ref(0).offset;
            let second = log + RECORD_OVERHEAD + LEN as u64;
            medium.store_u64(second + 16, 0);
            std::mem::forget(pool);
            let pool = Pool::open_with(Arc::clone(medium), SMALL_POOL, NEXT_BOOT).unwrap();
            find(&pool, &all, 2, 2).unwrap();
            assert!(
                !pool.check(|_| ()).unwrap().is_intact(),
                "the third one proves the loss"
            );
        },
        |medium| {
            let pool = Pool::open_with(Arc::clone(medium), SMALL_POOL, NEXT_BOOT).unwrap();
            medium.begin(0);
            append(&pool, LEN).unwrap();
            medium.acknowledge(0);
            assert!(pool.check(|_| ()).unwrap().is_intact());
        },
        holds_acknowledged(&all, NEXT_BOOT, (2, 4)),
    );
    result.map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn records_that_come_back_behind_others() {
    a_record_in_the_place_of_a_lost_one().unwrap();
    for fault in [
        PoolFault::SaltNothing,
        PoolFault::UnchainedRecords,
        PoolFault::LeaveLostRecord,
    ] {
        let noticed = fault::with(fault, || {
            catch_unwind(AssertUnwindSafe(a_record_in_the_place_of_a_lost_one))
        });
        assert!(
            noticed.is_err() || noticed.is_ok_and(|result| result.is_err()),
            "{fault:?}"
        );
    }
}

/// Lets a writer die between the store of a record and its flush; the next one appends to the visible state.
fn after_a_death_before_the_flush() -> Result<(), String> {
    let before = [PoolStep::Log(4096), PoolStep::Append(20)];
    let all = [&before[..], &[PoolStep::Append(100), PoolStep::Append(30)]].concat();
    let states = states(&all);
    let result = explorer().run(
        |medium| {
            run(
                &Pool::create_with(Arc::clone(medium), SMALL_POOL).unwrap(),
                &before,
                |_| (),
                |_| (),
            )
        },
        |medium| {
            let copy = Arc::new(Tracked::from_image(&medium.image()).unwrap());
            let dying = Pool::open_with(Arc::clone(&copy), SMALL_POOL, BOOT).unwrap();
            let record = contents(LOG_SEED, 1, 100);
            dying.begin().unwrap().log_store(LOG, &record).unwrap();
            medium.begin(0);
            medium.store(0, &copy.image());
            let pool = Pool::open_with(Arc::clone(medium), SMALL_POOL, BOOT).unwrap();
            medium.begin(1);
            append(&pool, 30).unwrap();
            medium.acknowledge(1);
        },
        holds_acknowledged(&states, BOOT, (2, 4)),
    );
    result.map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn records_of_a_dead_writer_trusted() {
    after_a_death_before_the_flush().unwrap();
    assert!(fault::with(PoolFault::TrustLogTail, after_a_death_before_the_flush).is_err());
}

#[test]
fn a_count_ahead_of_its_records() {
    let setup = [PoolStep::Log(4096), PoolStep::Append(20), PoolStep::Sync];
    let steps = [
        PoolStep::Append(30),
        PoolStep::Append(20),
        PoolStep::Sync,
        PoolStep::Append(10),
    ];
    let work = || power::explore(&explorer(), &setup, &steps, false);
    work().unwrap_or_else(|violation| panic!("{violation}"));
    for fault in [PoolFault::CountBeforeSync, PoolFault::TrustSeenCount] {
        assert!(fault::with(fault, work).is_err(), "{fault:?}");
    }
    let noticed = fault::with(PoolFault::CountBeforeFence, || {
        catch_unwind(|| crash::explore(&setup, &steps))
    });
    assert!(noticed.is_err());
}

#[test]
fn a_count_used_again_under_a_reader() {
    let steps = [
        PoolStep::Log(4096),
        PoolStep::Pin,
        PoolStep::Put("a", 1, &[100]),
        PoolStep::Put("a", 2, &[100]),
        PoolStep::Append(50),
        PoolStep::Append(50),
    ];
    let work = || {
        let pool = Pool::create_with(Arc::new(Tracked::new(0).unwrap()), SMALL_POOL).unwrap();
        run(&pool, &steps[..2], |_| (), |_| ());
        let pinned = pool.snapshot().unwrap();
        run(&pool, &steps[2..], |_| (), |_| ());
        let counts = pinned.log_counts(LOG).unwrap().unwrap();
        assert!(counts, "the reader's count is whole");
    };
    work();
    assert!(catch_unwind(|| fault::with(PoolFault::RestartPinnedLog, work)).is_err());
}

/// Damages a record after it was acknowledged, and appends another.
fn damage_and_append() -> Result<u64, PoolError> {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
    run(
        &pool,
        &[PoolStep::Log(4096), PoolStep::Append(20), PoolStep::Append(20)],
        |_| (),
        |_| (),
    );
    let log = pool.snapshot().unwrap().object(LOG).unwrap().extent_ref(0).offset;
    drop(pool);
    let last = log + 2 * (RECORD_OVERHEAD + 24) - 16;
    medium.store_u64(last, !medium.load_u64(last));
    let pool = Pool::open_with(medium, SMALL_POOL, BOOT).unwrap();
    pool.begin().unwrap().log_append(LOG, b"hides it")
}

#[test]
fn damage_hidden_by_an_append() {
    let error = damage_and_append().unwrap_err();
    assert!(matches!(error, PoolError::DamagedLog { .. }), "{error}");
    assert!(fault::with(PoolFault::IgnoreCount, damage_and_append).is_ok());
}
