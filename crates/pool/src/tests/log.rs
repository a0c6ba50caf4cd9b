//! Every crash while a log is appended to and folded, with and without durable fences.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use halocline_explore::{Explorer, Tracked};

use super::crash;
use super::model::{BOOT, LOG, PoolStep, SMALL_POOL, run};
use super::power;
use super::wrapped::Wrapped;
use crate::Pool;

#[test]
fn records_are_there_when_they_are_acknowledged() {
    crash::explore(
        &[PoolStep::Log(4096)],
        &[
            PoolStep::Append(20),
            PoolStep::Append(0),
            PoolStep::Append(150),
            PoolStep::Append(64),
        ],
    );
}

#[test]
fn a_log_is_folded_into_an_object() {
    let steps = [
        PoolStep::Append(40),
        PoolStep::Append(7),
        PoolStep::Fold("a", 2),
        PoolStep::Append(100),
        PoolStep::Fold("b", 3),
        // Nothing to fold, so the log stays in place.
        PoolStep::Put("a", 4, &[100]),
        PoolStep::Append(33),
    ];
    // Provide ample space, so that no sync is implied.
    let setup = [
        PoolStep::Put("big", 9, &[60_000]),
        PoolStep::Remove("big"),
        PoolStep::Put("a", 1, &[100]),
        PoolStep::Log(4096),
        PoolStep::Sync,
    ];
    crash::explore(&setup, &steps);
}

#[test]
fn a_log_begins_with_records_of_the_one_before() {
    let setup = [
        PoolStep::Log(4096),
        PoolStep::Append(40),
        PoolStep::Append(100),
        PoolStep::Append(7),
    ];
    let steps = [
        PoolStep::Carry("b", 3),
        PoolStep::Append(7),
        PoolStep::Fold("a", 2),
        PoolStep::Append(33),
    ];
    crash::explore(&setup, &steps);
}

#[test]
fn snapshots_keep_their_log_while_others_are_filled() {
    crash::explore(
        &[PoolStep::Log(4096), PoolStep::Append(20)],
        &[
            PoolStep::Pin,
            PoolStep::Fold("a", 1),
            PoolStep::Append(30),
            PoolStep::Fold("b", 2),
            PoolStep::Append(20),
            PoolStep::Unpin,
            PoolStep::Fold("c", 3),
            PoolStep::Append(50),
        ],
    );
}

#[test]
fn synced_records_survive_power_loss_and_others_are_a_prefix() {
    let explorer = Explorer {
        limit: 500,
        ..Explorer::default()
    };
    let steps = [
        PoolStep::Append(20),
        PoolStep::Append(90),
        PoolStep::Append(20),
        PoolStep::Sync,
        PoolStep::Append(64),
        PoolStep::Fold("a", 1),
        PoolStep::Append(64),
        PoolStep::Append(10),
        PoolStep::Sync,
        PoolStep::Append(30),
        PoolStep::Fold("b", 2),
        PoolStep::Fold("b", 3),
        PoolStep::Append(30),
    ];
    let setup = [PoolStep::Log(4096), PoolStep::Sync];
    let report =
        power::explore(&explorer, &setup, &steps, true).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.missed.is_empty(), "{report}");
}

#[test]
fn records_stored_at_the_same_time_share_fences() {
    const WRITERS: usize = 8;
    let medium = Wrapped::new(&Arc::new(Tracked::new(0).unwrap()));
    let pool = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
    run(&pool, &[PoolStep::Log(4096)], |_| (), |_| ());
    let stored = Arc::new(AtomicUsize::new(0));
    let all = Arc::clone(&stored);
    // While the first thread fences, all others store their records.
    medium.within_fence(Box::new(move || {
        while all.load(Ordering::SeqCst) < WRITERS {
            thread::yield_now();
        }
    }));
    let before = medium.fences();
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                let txn = pool.begin_wait(Duration::from_secs(60)).unwrap();
                let end = txn.log_store(LOG, &[7; 20]).unwrap();
                let snapshot = pool.snapshot().unwrap();
                drop(txn);
                stored.fetch_add(1, Ordering::SeqCst);
                snapshot.log_persist(LOG, end).unwrap();
            });
        }
    });
    let fences = medium.fences() - before;
    assert!((1..=2).contains(&fences), "{fences} fences");
    let copy = Arc::new(Tracked::from_image(&medium.image()).unwrap());
    let pool = Pool::open_with(copy, SMALL_POOL, BOOT).unwrap();
    let records = pool.snapshot().unwrap().log_records(LOG, 0).unwrap().records;
    assert_eq!(records.len(), WRITERS);
}
