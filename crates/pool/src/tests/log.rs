//! Every crash while a log is appended to and folded, where fences are durable and where they are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use halocline_media::explore::Explorer;
use halocline_media::{MediumAccess, Tracked};

use super::crash;
use super::model::{BOOT, LOG, SMALL, Step, run};
use super::power;
use super::wrapped::Wrapped;
use crate::Pool;

#[test]
fn records_are_there_when_they_are_acknowledged() {
    crash::explore(
        &[Step::Log(4096)],
        &[
            Step::Append(20),
            Step::Append(0),
            Step::Append(150),
            Step::Append(64),
        ],
    );
}

#[test]
fn a_log_is_folded_into_an_object() {
    let steps = [
        Step::Append(40),
        Step::Append(7),
        Step::Fold("a", 2),
        Step::Append(100),
        Step::Fold("b", 3),
        // Nothing to fold: the log stays where it is.
        Step::Put("a", 4, &[100]),
        Step::Append(33),
    ];
    // Space in plenty, so that no sync is implied.
    let setup = [
        Step::Put("big", 9, &[60_000]),
        Step::Remove("big"),
        Step::Put("a", 1, &[100]),
        Step::Log(4096),
        Step::Sync,
    ];
    crash::explore(&setup, &steps);
}

#[test]
fn a_log_begins_with_records_of_the_one_before() {
    let setup = [
        Step::Log(4096),
        Step::Append(40),
        Step::Append(100),
        Step::Append(7),
    ];
    let steps = [
        Step::Carry("b", 3),
        Step::Append(7),
        Step::Fold("a", 2),
        Step::Append(33),
    ];
    crash::explore(&setup, &steps);
}

#[test]
fn snapshots_keep_their_log_while_others_are_filled() {
    crash::explore(
        &[Step::Log(4096), Step::Append(20)],
        &[
            Step::Pin,
            Step::Fold("a", 1),
            Step::Append(30),
            Step::Fold("b", 2),
            Step::Append(20),
            Step::Unpin,
            Step::Fold("c", 3),
            Step::Append(50),
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
        Step::Append(20),
        Step::Append(90),
        Step::Append(20),
        Step::Sync,
        Step::Append(64),
        Step::Fold("a", 1),
        Step::Append(64),
        Step::Append(10),
        Step::Sync,
        Step::Append(30),
        Step::Fold("b", 2),
        Step::Fold("b", 3),
        Step::Append(30),
    ];
    let setup = [Step::Log(4096), Step::Sync];
    let report =
        power::explore(&explorer, &setup, &steps, true).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.missed.is_empty(), "{report}");
}

#[test]
fn records_stored_at_the_same_time_share_fences() {
    const WRITERS: usize = 8;
    let medium = Wrapped::new(&Arc::new(Tracked::new(0).unwrap()));
    let pool = Pool::create_with(Arc::clone(&medium), SMALL).unwrap();
    run(&pool, &[Step::Log(4096)], |_| (), |_| ());
    let stored = Arc::new(AtomicUsize::new(0));
    let all = Arc::clone(&stored);
    // The first one that fences finds, when it is done, that all others have stored their records.
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
    let pool = Pool::open_with(copy, SMALL, BOOT).unwrap();
    let records = pool.snapshot().unwrap().log_records(LOG, 0).unwrap().records;
    assert_eq!(records.len(), WRITERS);
}
