//! Readers beside a writer: other handles, and other processes. The test runs itself as the other process.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use halocline_pool::{Pool, PoolOptions};
use halocline_store::{Store, StoreError, StoreSnapshot, Stores, StoresOptions, WriteBatch};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::Keys;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Options with which everything is used again soon.
fn options() -> StoresOptions {
    StoresOptions::default()
        .with_pending_records(60)
        .with_pending_bytes(100_000)
        .with_garbage_percent(10)
}

fn create(path: &Path) -> Pool {
    Pool::create(path, &PoolOptions::default()).unwrap()
}

/// Opens the pool as another process would, read-only.
fn open_reader(path: &Path) -> Stores {
    let pool = Pool::open(path, &PoolOptions::default().with_read_only(true)).unwrap();
    Stores::open_reader_with(&pool, &options()).unwrap()
}

fn contents(store: &Store, snapshot: &StoreSnapshot, backward: bool) -> Result<Model, StoreError> {
    let scan = snapshot.scan::<Vec<u8>>(store, ..);
    if backward {
        scan.rev().collect()
    } else {
        scan.collect()
    }
}

#[test]
fn a_reader_sees_what_was_committed_and_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let pool = create(&path);
    let read_only = || Pool::open(&path, &PoolOptions::default().with_read_only(true)).unwrap();
    assert!(matches!(
        Stores::open_reader(&read_only()),
        Err(StoreError::NoStores { .. })
    ));
    let stores = Stores::open_with(&pool, options()).unwrap();
    let store = stores.store("s").unwrap();
    (0..100).for_each(|key| store.put(format!("{key:03}"), "old").unwrap());
    store.put("large", vec![7; 50_000]).unwrap();
    let reader = open_reader(&path);
    let seen = reader.existing("s").unwrap();
    assert_eq!((seen.len(), reader.names()), (101, vec!["s".to_owned()]));
    stores.store("later").unwrap();
    store.put("003", "new").unwrap();
    store.delete("large").unwrap();
    assert_eq!(seen.get("003").unwrap().unwrap(), b"old");
    assert_eq!(seen.get("large").unwrap().unwrap(), vec![7; 50_000]);
    assert!(matches!(
        reader.existing("later"),
        Err(StoreError::NoSuchStore { .. })
    ));
    let before = reader.snapshot();
    reader.refresh().unwrap();
    assert_eq!(seen.get("003").unwrap().unwrap(), b"new");
    assert_eq!((seen.get("large").unwrap(), seen.len()), (None, 100));
    assert_eq!(before.get(&seen, "003").unwrap().unwrap(), b"old");
    assert!(reader.existing("later").unwrap().is_empty());

    let is_refused = |result: Result<(), StoreError>| matches!(result, Err(StoreError::ReadOnly { .. }));
    assert!(reader.is_reader() && !stores.is_reader());
    assert!(is_refused(seen.put("a", "b")) && is_refused(seen.delete("003")));
    assert!(is_refused(reader.checkpoint()) && is_refused(reader.reclaim()));
    assert!(is_refused(reader.store("new").map(|_| ())) && is_refused(reader.drop_store("s")));
    let mut transaction = reader.begin();
    assert_eq!(transaction.get(&seen, "003").unwrap().unwrap(), b"new");
    transaction.put(&seen, "003", "newer").unwrap();
    assert!(is_refused(transaction.commit()));

    stores.drop_store("s").unwrap();
    reader.refresh().unwrap();
    assert!(matches!(seen.get("003"), Err(StoreError::Dropped { .. })));
}

#[test]
fn what_an_earlier_writer_kept_is_stale() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let stores = Stores::open(&create(&path)).unwrap();
    let store = stores.store("s").unwrap();
    store.put("k", "1").unwrap();
    let reader = open_reader(&path);
    let seen = reader.existing("s").unwrap();
    let snapshot = reader.snapshot();
    drop((store, stores));
    // Nobody writes: everything is as it was.
    assert_eq!(snapshot.get(&seen, "k").unwrap().unwrap(), b"1");
    let stores = Stores::open(&Pool::open(&path, &PoolOptions::default()).unwrap()).unwrap();
    stores.store("s").unwrap().put("k", "2").unwrap();
    assert!(matches!(seen.get("k"), Err(StoreError::Stale { .. })));
    let first = seen.scan::<&str>(..).next().unwrap();
    assert!(matches!(first, Err(StoreError::Stale { .. })));
    reader.refresh().unwrap();
    assert_eq!(seen.get("k").unwrap().unwrap(), b"2");
    assert!(matches!(snapshot.get(&seen, "k"), Err(StoreError::Stale { .. })));
}

#[test]
fn a_version_behind_two_of_one_batch_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let stores = Stores::open_with(&create(&path), options()).unwrap();
    let store = stores.store("s").unwrap();
    store.put("k", "old").unwrap();
    // The writer has not noticed the reader when it commits both versions.
    let reader = open_reader(&path);
    let seen = reader.existing("s").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&store, "k", "new").unwrap();
    batch.delete(&store, "k").unwrap();
    stores.write(batch).unwrap();
    for round in 0..3000_u32 {
        store.put((round % 20).to_be_bytes(), vec![7; 500]).unwrap();
    }
    assert_eq!(seen.get("k").unwrap().unwrap(), b"old");
    assert_eq!(store.get("k").unwrap(), None);
}

/// A reader and what it sees.
struct Seen {
    stores: Stores,
    store: Store,
    model: Model,
    snapshots: Vec<(StoreSnapshot, Model)>,
}

fn run(seed: u64, keys: Keys) {
    let mut rng = StdRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let pool = create(&path);
    let options = options().with_background(rng.random_bool(0.3));
    let mut stores = Some(Stores::open_with(&pool, options.clone()).unwrap());
    let mut store = stores.as_ref().unwrap().store("s").unwrap();
    let mut model = Model::new();
    let mut readers: Vec<Seen> = Vec::new();
    let mut local: Vec<(StoreSnapshot, Model)> = Vec::new();
    let count = rng.random_range(5..400);
    for step in 0..1500 {
        let context = format!("{keys:?}, step {step}");
        match rng.random_range(0..100) {
            0..50 => {
                let mut batch = WriteBatch::new();
                for _ in 0..rng.random_range(1..6) {
                    let key = keys.draw(&mut rng, count);
                    if rng.random_bool(0.8) {
                        let len = match rng.random_range(0..60) {
                            0 => rng.random_range(15_000..40_000),
                            _ => rng.random_range(0..500),
                        };
                        let value = vec![rng.random(); len];
                        batch.put(&store, &key, &value).unwrap();
                        model.insert(key, value);
                    } else {
                        batch.delete(&store, &key).unwrap();
                        model.remove(&key);
                    }
                }
                stores.as_ref().unwrap().write(batch).unwrap();
            }
            50..53 => stores.as_ref().unwrap().reclaim().unwrap(),
            53..56 if readers.len() < 3 => {
                let stores = open_reader(&path);
                let store = stores.existing("s").unwrap();
                assert_eq!(store.len(), model.len() as u64, "{context}");
                readers.push(Seen {
                    stores,
                    store,
                    model: model.clone(),
                    snapshots: Vec::new(),
                });
            }
            56 if !readers.is_empty() => {
                readers.swap_remove(rng.random_range(0..readers.len()));
            }
            57 => local.push((stores.as_ref().unwrap().snapshot(), model.clone())),
            58 => local.clear(),
            59 if rng.random_bool(0.2) => {
                local.clear();
                drop(store);
                drop(stores.take());
                stores = Some(Stores::open_with(&pool, options.clone()).unwrap());
                store = stores.as_ref().unwrap().store("s").unwrap();
                for reader in &mut readers {
                    assert!(
                        matches!(reader.store.get("k"), Err(StoreError::Stale { .. })),
                        "{context}"
                    );
                    reader.snapshots.clear();
                    reader.stores.refresh().unwrap();
                    reader.model.clone_from(&model);
                }
            }
            kind => {
                let Some(at) = readers.len().checked_sub(1) else {
                    continue;
                };
                let reader = &mut readers[rng.random_range(0..=at)];
                match kind {
                    60..64 => {
                        reader.stores.refresh().unwrap();
                        reader.model.clone_from(&model);
                        assert_eq!(reader.store.len(), model.len() as u64, "{context}");
                    }
                    64..66 => {
                        let snapshot = reader.stores.snapshot();
                        reader.snapshots.push((snapshot, reader.model.clone()));
                        if reader.snapshots.len() > 3 {
                            reader.snapshots.swap_remove(rng.random_range(0..3));
                        }
                    }
                    66..90 => {
                        let key = keys.draw(&mut rng, count);
                        let found = reader.store.get(&key).unwrap();
                        assert!(found.as_ref() == reader.model.get(&key), "{context}");
                    }
                    _ => {
                        let now = (reader.stores.snapshot(), reader.model.clone());
                        for (snapshot, model) in reader.snapshots.iter().chain([&now]) {
                            let found = contents(&reader.store, snapshot, rng.random()).unwrap();
                            assert!(found == *model, "{context}, commit {}", snapshot.commit());
                        }
                    }
                }
            }
        }
        if step % 50 == 0 {
            let found = contents(&store, &stores.as_ref().unwrap().snapshot(), rng.random()).unwrap();
            assert!(found == model, "{context}");
            assert_eq!(store.len(), model.len() as u64, "{context}");
            for (snapshot, model) in &local {
                assert!(
                    contents(&store, snapshot, rng.random()).unwrap() == *model,
                    "{context}"
                );
            }
        }
    }
}

#[test]
fn readers_see_what_maps_were() {
    let random = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    let seed: u64 =
        std::env::var("HALOCLINE_STORE_SEED").map_or_else(|_| random(), |seed| seed.parse().unwrap());
    // A round takes as long as eight of other tests.
    let rounds = std::env::var("HALOCLINE_STORE_ROUNDS").map_or(2, |rounds| {
        let rounds: u64 = rounds.parse().unwrap();
        rounds.div_ceil(8)
    });
    for round in 0..rounds {
        let seed = seed.wrapping_add(round);
        println!("seed {seed}");
        Keys::ALL.into_iter().for_each(|keys| run(seed, keys));
    }
}

/// Number of keys that each commit of the writer sets to one number.
const TOGETHER: u32 = 300;

/// Number of reads by the other process.
const ROUNDS: u64 = 60;

const POOL: &str = "HALOCLINE_STORE_TEST_POOL";

/// Reads while the process that started this one writes: each commit is seen whole, and none is forgotten.
#[test]
#[ignore = "run by another test, as a process of its own"]
fn child() {
    let path = std::env::var_os(POOL).unwrap();
    let reader = open_reader(path.as_ref());
    let store = reader.existing("s").unwrap();
    let number = |value: Vec<u8>| u64::from_le_bytes(value[..8].try_into().unwrap());
    let mut last = 0;
    for _ in 0..ROUNDS {
        reader.refresh().unwrap();
        let first = number(store.get(0_u32.to_be_bytes()).unwrap().unwrap());
        assert!(first >= last, "{first} after {last}");
        for backward in [false, true] {
            let pairs = contents(&store, &reader.snapshot(), backward).unwrap();
            assert_eq!(pairs.len(), TOGETHER as usize);
            assert!(pairs.into_values().all(|value| number(value) == first));
        }
        last = first;
    }
}

#[test]
fn another_process_sees_whole_commits() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let stores = Stores::open_with(&create(&path), options()).unwrap();
    let store = stores.store("s").unwrap();
    let write = |number: u64| {
        let mut batch = WriteBatch::new();
        for key in 0..TOGETHER {
            let mut value = number.to_le_bytes().to_vec();
            value.resize(8 + (number % 300) as usize, 1);
            batch.put(&store, key.to_be_bytes(), value).unwrap();
        }
        stores.write(batch).unwrap();
    };
    write(1);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (2..)
                .take_while(|_| !done.load(Ordering::Acquire))
                .for_each(write)
        });
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "readers::child", "--ignored", "--nocapture"])
            .env(POOL, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output();
        done.store(true, Ordering::Release);
        let output = child.unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
    });
}
