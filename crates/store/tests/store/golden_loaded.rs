//! Frozen pools with a loaded store of each version of the format that has them, which must open and hold
//! their contents. They are never regenerated.
//!
//! Each is the image of a pool on persistent memory whose process died: a loaded store of records without
//! `prev`, some of which were replaced, and copies of them in the log after the checkpoint.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use halocline_pool::{Pool, PoolOptions};
use halocline_store::{Store, Stores, StoresOptions};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The versions of the format of which there is a pool.
const VERSIONS: [u32; 2] = [2, 3];

fn file(version: u32) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden.join(format!("stores-{version}-loaded.pool.zst"))
}

fn options() -> StoresOptions {
    StoresOptions::default()
        .with_background(false)
        .with_garbage_percent(5)
}

fn key(number: u32) -> Vec<u8> {
    format!("a/long/common/prefix/{number:05}").into_bytes()
}

/// The pairs that were loaded.
fn loaded() -> Pairs {
    let mut pairs: Pairs = (0..700)
        .map(|number| (key(number), format!("row {number}{:400}", "").into_bytes()))
        .collect();
    pairs.insert(Vec::new(), b"the empty key".to_vec());
    pairs.insert(b"empty".to_vec(), Vec::new());
    let large = (0..100_000_u32).map(|at| (at / 7 * 31 + at / 5003) as u8);
    pairs.insert(b"large".to_vec(), large.collect());
    pairs.insert(vec![0xFF; 1024], b"the longest key".to_vec());
    pairs
}

fn expected() -> Pairs {
    let mut pairs = loaded();
    for number in (0..700).filter(|number| number % 5 != 0) {
        pairs.insert(key(number), format!("changed {number}").into_bytes());
    }
    pairs.remove(&key(5));
    pairs
}

fn contents(store: &Store) -> Pairs {
    let pairs = store.scan::<&[u8]>(..).map(Result::unwrap);
    pairs
        .inspect(|(key, value)| assert_eq!(store.get(key).unwrap().as_ref(), Some(value)))
        .collect()
}

#[test]
fn a_store_that_an_earlier_program_loaded_holds_what_it_held() {
    VERSIONS.into_iter().for_each(holds_what_it_held);
}

fn holds_what_it_held(version: u32) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let packed = fs::read(file(version)).unwrap();
    fs::write(&path, zstd::decode_all(&*packed).unwrap()).unwrap();
    {
        let pool = Pool::open(&path, &PoolOptions::default().with_read_only(true)).unwrap();
        let stores = Stores::open_reader_with(&pool, &options()).unwrap();
        assert!(contents(&stores.existing("loaded").unwrap()) == expected());
    }
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    let stores = Stores::open_with(&pool, options()).unwrap();
    assert_eq!(stores.names(), ["loaded"]);
    let store = stores.existing("loaded").unwrap();
    assert!(contents(&store) == expected());
    assert_eq!(store.len(), expected().len() as u64);
    let intact = || {
        let report = stores.check(&mut |_| ControlFlow::Continue(())).unwrap();
        assert!(report.is_intact() && report.uncounted.is_empty(), "{report:?}");
    };
    intact();
    for number in 0..700 {
        store.put(key(number), "new").unwrap();
    }
    stores.reclaim().unwrap();
    intact();
    assert_eq!(contents(&store).len(), 704);
}

#[test]
#[ignore = "golden pools are made once"]
fn make() {
    let file = file(VERSIONS[VERSIONS.len() - 1]);
    assert!(!file.exists(), "a golden pool is never made again");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    // Other files are refused after a restart of the machine, if their stores were not closed.
    let pool = Pool::create(&path, &PoolOptions::default().with_assume_dax(true)).unwrap();
    let stores = Stores::open_with(&pool, options()).unwrap();
    let mut loader = stores.load_sorted("loaded").unwrap();
    for (key, value) in loaded() {
        loader.push(key, value).unwrap();
    }
    let store = loader.finish().unwrap();
    for number in (0..700).filter(|number| number % 5 != 0) {
        store.put(key(number), format!("changed {number}")).unwrap();
    }
    // Copies of loaded records are in the log before and after the checkpoint.
    let appended = stores.stats().appended_bytes;
    stores.reclaim().unwrap();
    store.delete(key(5)).unwrap();
    assert!(stores.stats().appended_bytes > appended + 1000);
    assert!(contents(&store) == expected());
    pool.sync().unwrap();
    let image = fs::read(&path).unwrap();
    fs::write(file, zstd::encode_all(&*image, 19).unwrap()).unwrap();
}
