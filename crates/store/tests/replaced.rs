//! The file of the pool is moved or replaced while its stores are open: no commit is acknowledged that nobody
//! would find again.

use std::fs;
use std::time::{Duration, Instant};

use halocline_pool::{Pool, PoolError, PoolOptions};
use halocline_store::{StoreError, Stores, StoresOptions};

/// Time after which a commit must be refused; the documented bound is much less.
const LONG: Duration = Duration::from_secs(30);

#[test]
fn commits_end_when_the_file_is_gone() {
    for (durable, replace) in [(true, true), (true, false), (false, true)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.pool");
        let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
        let options = StoresOptions::default().with_durable_commits(durable);
        let stores = Stores::open_with(&pool, options).unwrap();
        let store = stores.store("s").unwrap();
        store.put("before", "1").unwrap();
        let saved = directory.path().join("saved");
        fs::rename(&path, &saved).unwrap();
        if replace {
            fs::copy(&saved, &path).unwrap();
        }
        let begun = Instant::now();
        let mut refused = None;
        while refused.is_none() && begun.elapsed() < LONG {
            refused = store.put("late", "2").err();
        }
        let Some(StoreError::Pool(error @ PoolError::FileGone { .. })) = refused else {
            panic!("{refused:?}");
        };
        assert!(error.to_string().contains("test.pool"), "{error}");
        assert!(store.put("later", "3").is_err());
        assert_eq!(store.get("before").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(store.get("later").unwrap(), None);
        // Once the file is back, work continues.
        fs::rename(&saved, &path).unwrap();
        store.put("back", "4").unwrap();
    }
}
