//! The file of the pool is deleted, moved or replaced while its stores are open: no commit is acknowledged
//! that nobody would find again.

use std::fs;
use std::time::{Duration, Instant};

use halocline_pool::{Pool, PoolError, PoolOptions};
use halocline_store::{StoreError, Stores, StoresOptions};

/// Time after which a commit must be refused; the documented bound is much less.
const LONG: Duration = Duration::from_secs(30);

/// Something that happens to the file of an open pool.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    Deleted,
    Moved,
    Replaced,
}

#[test]
fn commits_end_when_the_file_is_gone() {
    for change in [Change::Deleted, Change::Moved, Change::Replaced] {
        for durable in [true, false] {
            commits_end(change, durable);
        }
    }
}

fn commits_end(change: Change, durable: bool) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let options = StoresOptions::default().with_durable_commits(durable);
    let stores = Stores::open_with(&pool, options).unwrap();
    let store = stores.store("s").unwrap();
    store.put("before", "1").unwrap();
    let saved = directory.path().join("saved");
    match change {
        Change::Deleted => fs::remove_file(&path).unwrap(),
        Change::Moved => fs::rename(&path, &saved).unwrap(),
        Change::Replaced => {
            fs::rename(&path, &saved).unwrap();
            fs::copy(&saved, &path).unwrap();
        }
    }
    let begun = Instant::now();
    let mut refused = None;
    while refused.is_none() && begun.elapsed() < LONG {
        refused = store.put("late", "2").err();
    }
    let Some(StoreError::Pool(error @ PoolError::FileGone { .. })) = refused else {
        panic!("{change:?}, durable: {durable}: {refused:?}");
    };
    assert!(error.to_string().contains("test.pool"), "{error}");
    assert!(store.put("later", "3").is_err(), "{change:?}");
    assert_eq!(store.get("before").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(store.get("later").unwrap(), None);
    if change != Change::Deleted {
        // Once the file is back, work continues.
        fs::rename(&saved, &path).unwrap();
        store.put("back", "4").unwrap();
    }
}
