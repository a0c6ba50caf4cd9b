//! Frozen pools with stores of each version of the format, which must open and hold their contents. They are
//! never regenerated.
//!
//! Each is the image of a pool on persistent memory whose process died: a checkpoint, and commits of all
//! kinds in the log after it.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use halocline_pool::{ObjectKind, Pool, PoolOptions};
use halocline_store::{Store, StoreError, Stores, StoresOptions, WriteBatch};

/// The time at which the pool was made, and the one at which a key of it expires, in ms since 1970.
const MADE: u64 = 1_000_000;
const EXPIRY: u64 = 2_000_000;

/// Key, value and time of expiry in ms of the pairs of a store.
type Pairs = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// The versions of the format of which there is a pool.
const VERSIONS: [u32; 3] = [1, 2, 3];

fn file(version: u32) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden.join(format!("stores-{version}.pool.zst"))
}

fn options(now: u64) -> StoresOptions {
    StoresOptions::default()
        .with_background(false)
        .with_clock(Arc::new(move || now))
}

fn key(number: u32) -> Vec<u8> {
    format!("a/long/common/prefix/{number:04}").into_bytes()
}

/// Returns a value that has no long repetitions.
fn large(len: u32) -> Vec<u8> {
    (0..len).map(|at| (at / 7 * 31 + at / 5003) as u8).collect()
}

/// The contents that the pool had when it was made: of `people`, and of `blobs`.
fn expected() -> [Pairs; 2] {
    let mut people = Pairs::new();
    for number in (0..200).filter(|number| number % 3 != 0) {
        people.insert(key(number), (format!("person {number}").into_bytes(), None));
    }
    people.insert(Vec::new(), (b"the empty key".to_vec(), None));
    people.insert(key(1), (b"changed".to_vec(), None));
    people.insert(key(900), (b"expires".to_vec(), Some(EXPIRY)));
    people.insert(key(901), (Vec::new(), None));
    people.insert(key(902), (b"with a table".to_vec(), None));
    let mut blobs = Pairs::new();
    blobs.insert(b"one".to_vec(), (large(100_000), None));
    blobs.insert(b"two".to_vec(), (large(15 << 10), None));
    blobs.insert(b"three".to_vec(), (large(20_000), Some(EXPIRY)));
    blobs.insert(vec![0xFF; 1024], (b"the longest key".to_vec(), None));
    [people, blobs]
}

fn contents(store: &Store) -> Pairs {
    let pairs = store.scan::<&[u8]>(..).with_expiry();
    pairs
        .map(|pair| {
            let pair = pair.unwrap();
            let since = |time: std::time::SystemTime| time.duration_since(UNIX_EPOCH).unwrap();
            let expires = pair.expires.map(|time| since(time).as_millis() as u64);
            assert_eq!(store.get(&pair.key).unwrap().as_ref(), Some(&pair.value));
            (pair.key, (pair.value, expires))
        })
        .collect()
}

fn unpacked(version: u32, directory: &Path) -> PathBuf {
    let path = directory.join("pool");
    let packed = fs::read(file(version)).unwrap();
    fs::write(&path, zstd::decode_all(&*packed).unwrap()).unwrap();
    path
}

fn of_both(stores: &Stores) -> [Store; 2] {
    assert_eq!(stores.names(), ["blobs", "people"]);
    ["people", "blobs"].map(|name| stores.existing(name).unwrap())
}

#[test]
fn stores_of_all_versions_hold_what_they_held() {
    VERSIONS.into_iter().for_each(hold_what_they_held);
}

fn hold_what_they_held(version: u32) {
    let directory = tempfile::tempdir().unwrap();
    let path = unpacked(version, directory.path());
    {
        let pool = Pool::open(&path, &PoolOptions::default().with_read_only(true)).unwrap();
        let stores = Stores::open_reader_with(&pool, &options(MADE)).unwrap();
        assert!(of_both(&stores).map(|store| contents(&store)) == expected());
    }
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    assert!(pool.check(|_| ()).unwrap().is_intact());
    assert_eq!(pool.snapshot().unwrap().object("table").unwrap().meta(), b"meta");
    let stores = Stores::open_with(&pool, options(MADE)).unwrap();
    let [people, blobs] = of_both(&stores);
    assert!([contents(&people), contents(&blobs)] == expected());
    let counts = expected().map(|pairs| pairs.len() as u64);
    assert_eq!([people.len(), blobs.len()], counts);
    let report = stores.check(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(report.is_intact() && report.uncounted.is_empty(), "{report:?}");
    // The stores can be written, and keys expire.
    for number in 0..1000 {
        people.put(key(number), "new").unwrap();
    }
    blobs.put("one", large(300_000)).unwrap();
    stores.reclaim().unwrap();
    drop((people, blobs, stores));
    let stores = Stores::open_with(&pool, options(EXPIRY)).unwrap();
    let [people, blobs] = of_both(&stores);
    assert!(contents(&people).len() == 1001 && blobs.get("three").unwrap().is_none());
    assert!(blobs.get("one").unwrap().unwrap() == large(300_000));
    let report = stores.check(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(report.is_intact(), "{report:?}");
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
    let stores = Stores::open_with(&pool, options(MADE)).unwrap();
    let [people, blobs] = ["people", "blobs"].map(|name| stores.store(name).unwrap());
    for number in 0..200 {
        people.put(key(number), format!("person {number}")).unwrap();
    }
    people.put("", "the empty key").unwrap();
    blobs.put("one", large(100_000)).unwrap();
    blobs.put("two", large(50_000)).unwrap();
    blobs.put("deleted", large(50_000)).unwrap();
    blobs.put([0xFF; 1024], "the longest key").unwrap();
    blobs.delete("deleted").unwrap();
    stores.checkpoint().unwrap();
    // The later records are in the log after the checkpoint.
    let mut batch = WriteBatch::new();
    for number in (0..200).step_by(3) {
        batch.delete(&people, key(number)).unwrap();
    }
    batch.put(&blobs, "two", large(15 << 10)).unwrap();
    stores.write(batch).unwrap();
    let ttl = Duration::from_millis(EXPIRY - MADE);
    people.put(key(1), "changed").unwrap();
    people.put_with_ttl(key(900), "expires", ttl).unwrap();
    people.put(key(901), "").unwrap();
    blobs.put_with_ttl("three", large(20_000), ttl).unwrap();
    let mut transaction = stores.begin();
    transaction.put(&people, key(902), "with a table").unwrap();
    let txn = pool.begin().unwrap();
    transaction
        .commit_with(|batch| {
            batch.put_into(&txn)?;
            txn.put("table", ObjectKind(77), b"meta", vec![])?;
            txn.commit()?;
            Ok::<(), StoreError>(())
        })
        .unwrap();
    pool.sync().unwrap();
    let image = fs::read(&path).unwrap();
    fs::write(file, zstd::encode_all(&*image, 19).unwrap()).unwrap();
}
