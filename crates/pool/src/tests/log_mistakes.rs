//! Rules of logs broken on purpose: each must be noticed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use halocline_media::explore::Explorer;
use halocline_media::{Medium, Tracked};

use super::model::{BOOT, LOG, SMALL, State, Step, append, find, run, states};
use super::power;
use crate::Pool;
use crate::layout::RECORD_OVERHEAD;
use crate::mistake::{self, Mistake};

fn explorer() -> Explorer {
    Explorer {
        limit: 300,
        ..Explorer::default()
    }
}

/// Whether a snapshot that is held notices what comes after it.
fn disturbs_a_snapshot(mistake: Mistake, steps: &[Step]) -> bool {
    let work = || {
        let pool = Pool::create_with(Arc::new(Tracked::new(0).unwrap()), SMALL).unwrap();
        run(&pool, steps, |_| (), |_| ());
    };
    work();
    catch_unwind(|| mistake::with(mistake, work)).is_err()
}

#[test]
fn a_log_with_records_used_by_the_next_generation() {
    let steps = [
        Step::Log(4096),
        Step::Append(20),
        Step::Pin,
        Step::Fold("a", 1),
        Step::Append(50),
    ];
    assert!(disturbs_a_snapshot(Mistake::KeepFullLog, &steps));
}

#[test]
fn a_log_that_stays_where_it_is_without_a_new_start() {
    let steps = [
        Step::Log(4096),
        Step::Pin,
        Step::Put("a", 1, &[100]),
        Step::Append(50),
    ];
    assert!(disturbs_a_snapshot(Mistake::KeepLogStart, &steps));
}

#[test]
fn a_sync_that_overlooks_the_log() {
    let (setup, steps) = ([Step::Log(4096), Step::Sync], [Step::Append(20), Step::Sync]);
    let lost = |mistake| {
        mistake::with(mistake, || {
            power::explore(&explorer(), &setup, &steps, false).is_err()
        })
    };
    assert!(lost(Mistake::SkipLogSync));
}

/// A record is lost, others that had come after it are not; then another of its length takes its place.
fn a_record_in_the_place_of_a_lost_one() -> Result<(), String> {
    const LEN: usize = 40;
    let before = [
        Step::Log(4096),
        Step::Append(LEN),
        Step::Append(LEN),
        Step::Append(LEN),
    ];
    let all: Vec<State> = states(&before);
    let result = explorer().run(
        |medium| {
            let pool = Pool::create_with(Arc::clone(medium), SMALL).unwrap();
            run(&pool, &before, |_| (), |_| ());
            let log = pool.snapshot().unwrap().object(LOG).unwrap().extent_ref(0).offset;
            let second = log + RECORD_OVERHEAD + LEN as u64;
            medium.store_u64(second + 16, 0);
            drop(pool);
            let pool = Pool::open_with(Arc::clone(medium), SMALL, BOOT).unwrap();
            find(&pool, &all, 2, 2).unwrap();
            assert!(
                !pool.check(|_| ()).unwrap().is_intact(),
                "the third one proves the loss"
            );
        },
        |medium| {
            let pool = Pool::open_with(Arc::clone(medium), SMALL, BOOT).unwrap();
            medium.begin(0);
            append(&pool, LEN).unwrap();
            medium.acknowledge(0);
            assert!(pool.check(|_| ()).unwrap().is_intact());
        },
        |medium, crash| {
            let first = 2 + crash.acknowledged.len();
            let pool = Pool::open_with(medium, SMALL, BOOT).map_err(|error| error.to_string())?;
            find(&pool, &all, first, 3).map(drop)
        },
    );
    result.map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn records_that_come_back_behind_others() {
    a_record_in_the_place_of_a_lost_one().unwrap();
    for mistake in [
        Mistake::SaltNothing,
        Mistake::UnchainedRecords,
        Mistake::LeaveLostRecord,
    ] {
        let noticed = mistake::with(mistake, || {
            catch_unwind(AssertUnwindSafe(a_record_in_the_place_of_a_lost_one))
        });
        assert!(
            noticed.is_err() || noticed.is_ok_and(|result| result.is_err()),
            "{mistake:?}"
        );
    }
}

/// A writer dies between the store of a record and its flush; the next one appends to what it sees.
fn after_a_death_before_the_flush() -> Result<(), String> {
    let before = [Step::Log(4096), Step::Append(20)];
    let all = [&before[..], &[Step::Append(100), Step::Append(30)]].concat();
    let states = states(&all);
    let result = explorer().run(
        |medium| {
            run(
                &Pool::create_with(Arc::clone(medium), SMALL).unwrap(),
                &before,
                |_| (),
                |_| (),
            )
        },
        |medium| {
            let copy = Arc::new(Tracked::from_image(&medium.image()).unwrap());
            append(&Pool::open_with(Arc::clone(&copy), SMALL, BOOT).unwrap(), 100).unwrap();
            medium.begin(0);
            medium.store(0, &copy.image());
            let pool = Pool::open_with(Arc::clone(medium), SMALL, BOOT).unwrap();
            medium.begin(1);
            append(&pool, 30).unwrap();
            medium.acknowledge(1);
        },
        |medium, crash| {
            let first = if crash.acknowledged.is_empty() { 2 } else { 4 };
            let pool = Pool::open_with(medium, SMALL, BOOT).map_err(|error| error.to_string())?;
            find(&pool, &states, first, 4).map(drop)
        },
    );
    result.map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn records_of_a_dead_writer_trusted() {
    after_a_death_before_the_flush().unwrap();
    assert!(mistake::with(Mistake::TrustLogTail, after_a_death_before_the_flush).is_err());
}
