//! Writers that wait for each other, and space returned to the file system.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use halocline_pool::{ObjectKind, Pool, PoolError, PoolOptions};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.pool");
    (directory, path)
}

fn options() -> PoolOptions {
    PoolOptions::default()
}

fn put(pool: &Pool, name: &str, len: usize) {
    let txn = pool.begin().unwrap();
    let mut writer = txn.alloc(len as u64).unwrap();
    writer.append(&vec![7; len]);
    let extent = writer.finish(len as u64).unwrap();
    txn.put(name, ObjectKind::TABLE, b"", vec![extent]).unwrap();
    txn.commit().unwrap();
}

fn remove(pool: &Pool, name: &str) {
    let txn = pool.begin().unwrap();
    txn.remove(name).unwrap();
    txn.commit().unwrap();
}

#[test]
fn writers_of_several_handles_take_turns() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    let txn = pool.begin().unwrap();
    txn.put_log("log", 1 << 20).unwrap();
    txn.commit().unwrap();
    let handles = [Pool::open(&path, &options()).unwrap(), pool.clone(), pool.clone()];
    let start = Barrier::new(handles.len());
    thread::scope(|scope| {
        for handle in &handles {
            scope.spawn(|| {
                start.wait();
                for number in 0..100_u8 {
                    let txn = handle.begin_wait(LONG).unwrap();
                    txn.log_append("log", &[number]).unwrap();
                }
            });
        }
    });
    let records = pool.snapshot().unwrap().log_records("log", 0).unwrap().records;
    let mut numbers: Vec<u8> = records.iter().map(|record| record[0]).collect();
    numbers.sort_unstable();
    assert_eq!(
        numbers,
        (0..100).flat_map(|number| [number; 3]).collect::<Vec<_>>()
    );
}

#[test]
fn waiting_ends_when_the_time_is_over() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    let other = Pool::open(&path, &options()).unwrap();
    let txn = pool.begin().unwrap();
    for waiting in [&pool, &other] {
        for millis in [0, 20] {
            let (start, time) = (Instant::now(), Duration::from_millis(millis));
            let error = waiting.begin_wait(time).unwrap_err();
            assert!(matches!(error, PoolError::Locked { .. }), "{error}");
            assert!(start.elapsed() >= time);
        }
    }
    drop(txn);
    drop(other.begin_wait(Duration::ZERO).unwrap());
}

#[test]
fn space_goes_back_to_the_file_system() {
    let (_directory, path) = place();
    let pool = Pool::create(&path, &options()).unwrap();
    // While another handle is open, the file keeps its length.
    let other = Pool::open(&path, &options()).unwrap();
    let taken = || fs::metadata(&path).unwrap().blocks() * 512;
    put(&pool, "small", 1000);
    put(&pool, "big", 20 << 20);
    let snapshot = pool.snapshot().unwrap();
    remove(&pool, "big");
    let (full, len) = (taken(), pool.info().unwrap().len);
    assert!(full >= 20 << 20);
    let report = pool.vacuum().unwrap();
    assert_eq!(report.allocated, taken());
    assert!(taken() >= 20 << 20, "a snapshot still sees it");
    assert_eq!(
        *snapshot.object("big").unwrap().extent(0).unwrap(),
        *vec![7; 20 << 20]
    );
    drop(snapshot);
    let report = pool.vacuum().unwrap();
    if taken() > 20 << 20 {
        // The file system does not support holes.
        assert_eq!(report.punched, 0);
        return;
    }
    assert!(report.punched >= 19 << 20, "{report:?}");
    assert!(taken() <= 5 << 20, "{}", taken());
    assert_eq!(pool.vacuum().unwrap().punched, 0);
    let info = pool.info().unwrap();
    assert_eq!((info.allocated, info.len), (taken(), len));
    drop((pool, other));
    // Opening does not allocate the blocks again; writing allocates those that it needs.
    let pool = Pool::open(&path, &options()).unwrap();
    assert_eq!(
        *pool
            .snapshot()
            .unwrap()
            .object("small")
            .unwrap()
            .extent(0)
            .unwrap(),
        *vec![7; 1000]
    );
    drop(pool.begin().unwrap());
    assert_eq!(taken(), info.allocated);
    // Together with its block checksums that is 10 MiB.
    put(&pool, "big", (10 << 20) - (24 << 10));
    assert!(
        (10 << 20..=info.allocated + (12 << 20)).contains(&taken()),
        "{} of {len}: no piece more than it needs",
        taken()
    );
    assert_eq!(pool.info().unwrap().len, len);
    assert!(pool.check(|_| ()).unwrap().is_intact());
    let txn = pool.begin().unwrap();
    assert!(matches!(pool.vacuum(), Err(PoolError::Locked { .. })));
    drop(txn);
    let read_only = options().with_read_only(true);
    let reader = Pool::open(&path, &read_only).unwrap();
    assert!(matches!(reader.vacuum(), Err(PoolError::ReadOnly { .. })));
}

#[test]
fn a_file_that_nobody_else_has_open_is_shortened() {
    let (_directory, path) = place();
    let len = || fs::metadata(&path).unwrap().len();
    let pool = Pool::create(&path, &options()).unwrap();
    put(&pool, "first", 20 << 20);
    put(&pool, "last", 3 << 20);
    put(&pool, "small", 100);
    remove(&pool, "first");
    let other = Pool::open(&path, &options()).unwrap();
    let before = len();
    let report = pool.vacuum().unwrap();
    assert!(report.shared && report.moved.is_none(), "{report:?}");
    assert_eq!(len(), before, "the other handle has it mapped");
    drop(other);
    let generation = pool.snapshot().unwrap().generation();
    let snapshot = pool.snapshot().unwrap();
    let report = pool.vacuum().unwrap();
    assert!(!report.shared, "{report:?}");
    assert_eq!(report.moved, Some((generation, generation + 1)));
    assert!(report.len > 20 << 20, "the snapshot sees what was at the end");
    drop(snapshot);
    let report = pool.vacuum().unwrap();
    assert_eq!(report.len, len());
    assert!(report.len <= 6 << 20, "{report:?}");
    // It can grow, be read, and be opened again.
    put(&pool, "more", 10 << 20);
    let bytes = |pool: &Pool, name: &str| {
        let snapshot = pool.snapshot().unwrap();
        snapshot.get(name).unwrap().extent(0).unwrap().to_vec()
    };
    for pool in [pool.clone(), Pool::open(&path, &options()).unwrap()] {
        assert!(bytes(&pool, "last") == [7; 3 << 20] && bytes(&pool, "more") == [7; 10 << 20]);
        assert_eq!(bytes(&pool, "small"), [7; 100]);
        assert!(pool.check(|_| ()).unwrap().is_intact());
    }
    let again = Pool::open(&path, &options()).unwrap();
    remove(&again, "more");
    drop(pool);
    // Free space at the end of the file is returned without a move.
    let report = again.give_back().unwrap();
    assert!(report.moved.is_none() && len() <= 6 << 20, "{report:?}");
    assert!(again.check(|_| ()).unwrap().is_intact());
}
