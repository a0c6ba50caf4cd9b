//! A frozen pool of format version 3 with a deleted range, which must open and hold its contents. It is never
//! regenerated.
//!
//! It is the image of a pool on persistent memory whose process died while it deleted the keys of the range
//! one by one. Its catalog has several parts.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use halocline_pool::{Pool, PoolOptions};
use halocline_store::{Store, Stores, StoresOptions, WriteBatch};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/stores-3-ranges.pool.zst")
}

fn options() -> StoresOptions {
    StoresOptions::default().with_background(false)
}

fn key(number: u32) -> Vec<u8> {
    format!("a/long/common/prefix/{number:04}").into_bytes()
}

/// The keys that are left: those between are in the deleted range, and one of them was set again.
fn expected() -> Pairs {
    let left = (0..50)
        .chain(150..200)
        .map(|number| (key(number), b"first".to_vec()));
    left.chain([(key(60), b"again".to_vec())]).collect()
}

fn contents(store: &Store) -> Pairs {
    let pairs = store.scan::<&[u8]>(..).map(Result::unwrap);
    pairs
        .inspect(|(key, value)| assert_eq!(store.get(key).unwrap().as_ref(), Some(value)))
        .collect()
}

#[test]
fn a_range_that_an_earlier_program_deleted_stays_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let packed = fs::read(file()).unwrap();
    fs::write(&path, zstd::decode_all(&*packed).unwrap()).unwrap();
    let expected = expected();
    {
        let pool = Pool::open(&path, &PoolOptions::default().with_read_only(true)).unwrap();
        let stores = Stores::open_reader_with(&pool, &options()).unwrap();
        let people = stores.existing("people").unwrap();
        assert!(contents(&people) == expected);
        assert_eq!(people.len(), expected.len() as u64);
        let report = stores.check(&mut |_| ControlFlow::Continue(())).unwrap();
        assert!(report.is_intact() && report.uncounted.is_empty(), "{report:?}");
    }
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    let stores = Stores::open_with(&pool, options()).unwrap();
    let people = stores.existing("people").unwrap();
    assert!(contents(&people) == expected);
    people.put(key(70), "again").unwrap();
    assert_eq!(people.len(), expected.len() as u64 + 1);
    stores.reclaim().unwrap();
    let report = stores.check(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(report.is_intact() && report.uncounted.is_empty(), "{report:?}");
}

#[test]
#[ignore = "golden pools are made once"]
fn make() {
    assert!(!file().exists(), "a golden pool is never made again");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    // Other files are refused after a restart of the machine, if their stores were not closed.
    let pool = Pool::create(&path, &PoolOptions::default().with_assume_dax(true)).unwrap();
    // The clock is read when a checkpoint becomes due amid the deletions. Then the process dies.
    let image = Arc::new(Mutex::new(None));
    let is_deleting = Arc::new(AtomicBool::new(false));
    let clock = {
        let (image, is_deleting, path) = (Arc::clone(&image), Arc::clone(&is_deleting), path.clone());
        move || {
            if is_deleting.load(Ordering::Relaxed) {
                let bytes = || fs::read(&path).unwrap();
                image.lock().unwrap().get_or_insert_with(bytes);
            }
            1_000_000
        }
    };
    let options = options()
        .with_clock(Arc::new(clock))
        .with_deleted_at_once(10)
        .with_pending_records(30);
    let stores = Stores::open_with(&pool, options).unwrap();
    let people = stores.store("people").unwrap();
    for number in 0..200 {
        people.put(key(number), "first").unwrap();
    }
    stores.store("dropped").unwrap();
    stores.drop_store("dropped").unwrap();
    for number in 50..75 {
        people.put(key(number), "second").unwrap();
    }
    is_deleting.store(true, Ordering::Relaxed);
    let mut batch = WriteBatch::new();
    batch.delete_range(&people, key(50)..key(150)).unwrap();
    batch.put(&people, key(60), "again").unwrap();
    stores.write(batch).unwrap();
    let image = image.lock().unwrap().take().unwrap();
    fs::write(file(), zstd::encode_all(&*image, 19).unwrap()).unwrap();
}
