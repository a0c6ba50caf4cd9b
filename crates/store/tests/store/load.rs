//! Stores that are loaded from sorted pairs, compared with maps in DRAM.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use halocline_media::{Dram, MediumAccess};
use halocline_pool::{Pool, PoolOptions};
use halocline_store::{LoadOptions, Store, StoreError, Stores, StoresOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::{Keys, dram_pool};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns the seed of a test, which it prints: a given one, or a random one.
fn seed() -> u64 {
    let random = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    let given = std::env::var("HALOCLINE_STORE_SEED");
    let seed = given.map_or_else(|_| random(), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    seed
}

fn options() -> StoresOptions {
    StoresOptions::default()
        .with_background(false)
        .with_pending_records(500)
        .with_garbage_percent(10)
}

fn value(rng: &mut StdRng) -> Vec<u8> {
    let len = match rng.random_range(0..300) {
        0 => rng.random_range(16_000..70_000),
        1..9 => 0,
        _ => rng.random_range(0..60),
    };
    let byte = rng.random();
    vec![byte; len]
}

fn pairs(rng: &mut StdRng, keys: Keys, count: u64) -> Model {
    (0..count)
        .map(|_| (keys.draw(rng, 2 * count), value(rng)))
        .collect()
}

fn load(stores: &Stores, name: &str, pairs: &Model) -> Store {
    let mut loader = stores.load_sorted(name).unwrap();
    for (key, value) in pairs {
        loader.push(key, value).unwrap();
    }
    assert_eq!(loader.len(), pairs.len() as u64);
    assert_eq!(loader.last_key(), pairs.keys().last().map(Vec::as_slice));
    loader.finish().unwrap()
}

fn contents(store: &Store) -> Model {
    store.scan::<Vec<u8>>(..).map(Result::unwrap).collect()
}

/// Compares a store with a model by all ways to read it.
fn compare(stores: &Stores, store: &Store, model: &Model, rng: &mut StdRng, keys: Keys) {
    assert!(contents(store) == *model);
    let backward: Vec<_> = store.scan::<Vec<u8>>(..).rev().map(Result::unwrap).collect();
    assert!(backward.into_iter().rev().eq(model.clone()));
    for key in model.keys().step_by(7) {
        assert_eq!(store.get(key).unwrap().as_ref(), model.get(key));
    }
    for _ in 0..200 {
        let key = keys.draw(rng, 2 * model.len() as u64 + 2);
        assert_eq!(store.get(&key).unwrap().as_ref(), model.get(&key));
    }
    let bytes: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert_eq!((store.len(), store.bytes()), (model.len() as u64, bytes as u64));
    let report = stores.check(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(report.is_intact() && report.uncounted.is_empty(), "{report:?}");
}

fn change(store: &Store, model: &mut Model, rng: &mut StdRng, keys: Keys) {
    for _ in 0..model.len() + 50 {
        let key = keys.draw(rng, 2 * model.len() as u64 + 9);
        if rng.random_bool(0.7) {
            let value = value(rng);
            store.put(&key, &value).unwrap();
            model.insert(key, value);
        } else {
            store.delete(&key).unwrap();
            model.remove(&key);
        }
    }
}

/// Returns a copy of a medium, as a process leaves it that is killed now.
fn killed(medium: &Dram) -> Arc<Dram> {
    let mut bytes = vec![0; medium.len() as usize];
    medium.load(0, &mut bytes);
    let copy = Dram::new(medium.len()).unwrap();
    copy.store(0, &bytes);
    Arc::new(copy)
}

fn reopened(medium: &Arc<Dram>) -> (Pool, Stores) {
    let pool = Pool::open_on(Arc::clone(medium)).unwrap();
    let stores = Stores::open_with(&pool, options()).unwrap();
    (pool, stores)
}

#[test]
fn loaded_stores_are_as_others() {
    let seed = seed();
    let mut rng = StdRng::seed_from_u64(seed);
    for keys in Keys::ALL {
        for count in [0, 1, 46, 47, 500, 12_000] {
            let (pool, medium) = dram_pool();
            let stores = Stores::open_with(&pool, options()).unwrap();
            let other = stores.store("other").unwrap();
            other.put("before", "the load").unwrap();
            let mut model = pairs(&mut rng, keys, count);
            let store = load(&stores, "loaded", &model);
            compare(&stores, &store, &model, &mut rng, keys);
            let (before, snapshot) = (model.clone(), stores.snapshot());
            change(&store, &mut model, &mut rng, keys);
            stores.reclaim().unwrap();
            compare(&stores, &store, &model, &mut rng, keys);
            let seen: Model = snapshot.scan::<Vec<u8>>(&store, ..).map(Result::unwrap).collect();
            assert!(seen == before);
            drop((snapshot, other, store, stores, pool));
            let (_pool, stores) = reopened(&medium);
            let store = stores.existing("loaded").unwrap();
            compare(&stores, &store, &model, &mut rng, keys);
            change(&store, &mut model, &mut rng, keys);
            stores.reclaim().unwrap();
            compare(&stores, &store, &model, &mut rng, keys);
            let other = stores.existing("other").unwrap();
            assert_eq!(other.get("before").unwrap().unwrap(), b"the load");
        }
    }
}

/// Segments with loaded records are emptied, and the copies are replayed after a crash.
#[test]
fn loaded_records_are_moved() {
    let (pool, medium) = dram_pool();
    let stores = Stores::open_with(&pool, options()).unwrap();
    let key = |number: u32| number.to_be_bytes().to_vec();
    let mut model: Model = (0..20_000).map(|number| (key(number), vec![1; 20])).collect();
    let store = load(&stores, "loaded", &model);
    for number in (0..20_000).filter(|number| number % 4 != 0) {
        store.put(key(number), "new").unwrap();
        model.insert(key(number), b"new".to_vec());
    }
    while stores.stats().log_bytes > 2 * stores.stats().live_bytes {
        stores.reclaim().unwrap();
    }
    store.put(key(3), "newer").unwrap();
    model.insert(key(3), b"newer".to_vec());
    assert!(contents(&store) == model);
    let (_pool, stores) = reopened(&killed(&medium));
    assert!(contents(&stores.existing("loaded").unwrap()) == model);
    let report = stores.check(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(report.is_intact(), "{report:?}");
}

#[test]
fn misplaced_pairs_and_taken_names_are_refused() {
    let (pool, _medium) = dram_pool();
    let stores = Stores::open_with(&pool, options()).unwrap();
    let mut loader = stores.load_sorted("s").unwrap();
    loader.push("b", "1").unwrap();
    assert!(matches!(
        loader.push("b", "2"),
        Err(StoreError::DuplicateKey { .. })
    ));
    assert!(matches!(
        loader.push("a", "2"),
        Err(StoreError::NotAscending { .. })
    ));
    assert!(matches!(
        loader.push([b'c'; 1025], ""),
        Err(StoreError::KeyTooLong { .. })
    ));
    let long = vec![0; halocline_store::MAX_VALUE + 1];
    assert!(matches!(
        loader.push("c", long),
        Err(StoreError::ValueTooLong { .. })
    ));
    loader.push("c", vec![3; halocline_store::MAX_VALUE]).unwrap();
    assert!(matches!(
        stores.load_sorted(""),
        Err(StoreError::InvalidName { .. })
    ));
    // Nobody finds the store before it is there, and handles to it are of no use.
    let early = loader.store();
    assert!(matches!(early.get("b"), Err(StoreError::Dropped { .. })));
    assert!(matches!(early.put("b", "9"), Err(StoreError::Dropped { .. })));
    assert!(matches!(
        stores.existing("s"),
        Err(StoreError::NoSuchStore { .. })
    ));
    let other = stores.store("s").unwrap();
    other.put("x", "y").unwrap();
    assert!(matches!(loader.finish(), Err(StoreError::StoreExists { .. })));
    assert!(matches!(
        stores.load_sorted("s"),
        Err(StoreError::StoreExists { .. })
    ));
    assert_eq!(other.get("x").unwrap().unwrap(), b"y");
    drop(other);
    stores.drop_store("s").unwrap();
    let mut loader = stores.load_sorted("s").unwrap();
    loader.push("k", "v").unwrap();
    let early = loader.store();
    assert_eq!(loader.finish().unwrap().get("k").unwrap().unwrap(), b"v");
    assert_eq!(early.get("k").unwrap().unwrap(), b"v");
}

#[test]
fn loads_that_are_given_up_leave_their_space() {
    let (pool, medium) = dram_pool();
    let stores = Stores::open_with(&pool, options()).unwrap();
    let begun = |stores: &Stores| {
        let mut loader = stores.load_sorted("given up").unwrap();
        for number in 0..50_000_u64 {
            loader.push(number.to_be_bytes(), [7; 40]).unwrap();
        }
        loader
    };
    drop(begun(&stores));
    let bytes = stores.stats().pool_bytes;
    for _ in 0..3 {
        drop(begun(&stores));
        stores.checkpoint().unwrap();
    }
    assert_eq!(stores.stats().pool_bytes, bytes);
    // A crash in the middle.
    let _begun = begun(&stores);
    let (_pool, stores) = reopened(&killed(&medium));
    assert_eq!(stores.names(), Vec::<String>::new());
    drop(begun(&stores));
    assert_eq!(stores.stats().pool_bytes, bytes);
}

#[test]
fn pairs_are_read_back() {
    let seed = seed();
    let mut rng = StdRng::seed_from_u64(seed);
    let (pool, _medium) = dram_pool();
    let stores = Stores::open_with(&pool, options()).unwrap();
    for count in [0, 3, 20_000] {
        let model = pairs(&mut rng, Keys::Urls, count);
        let mut loader = stores.load_sorted("s").unwrap();
        model
            .iter()
            .for_each(|(key, value)| loader.push(key, value).unwrap());
        let pairs = loader.restart().unwrap();
        loader.push("a", "new").unwrap();
        assert!(pairs.map(Result::unwrap).eq(model));
        assert_eq!(contents(&loader.finish().unwrap()).len(), 1);
        stores.drop_store("s").unwrap();
    }
}

#[test]
fn readers_see_loaded_stores() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let stores = Stores::open_with(&pool, options()).unwrap();
    let read_only = Pool::open(&path, &PoolOptions::default().with_read_only(true)).unwrap();
    let reader = Stores::open_reader(&read_only).unwrap();
    let model: Model = (0..5000_u32)
        .map(|number| (number.to_be_bytes().to_vec(), vec![5; 9]))
        .collect();
    load(&stores, "loaded", &model);
    assert!(matches!(
        reader.existing("loaded"),
        Err(StoreError::NoSuchStore { .. })
    ));
    reader.refresh().unwrap();
    assert!(contents(&reader.existing("loaded").unwrap()) == model);
}

/// Commits go on during a load, and checkpoints are made.
#[test]
fn others_write_meanwhile() {
    let (pool, medium) = dram_pool();
    let stores = Stores::open_with(&pool, options()).unwrap();
    let other = stores.store("other").unwrap();
    let mut loader = stores.load_sorted("loaded").unwrap();
    for number in 0..20_000_u32 {
        loader.push(number.to_be_bytes(), "loaded").unwrap();
        if number % 10 == 0 {
            other
                .put((number % 700).to_be_bytes(), number.to_be_bytes())
                .unwrap();
        }
    }
    assert!(stores.stats().checkpoints > 1);
    let loaded = loader.finish().unwrap();
    other.put("last", "1").unwrap();
    let expected = [contents(&loaded), contents(&other)];
    assert_eq!((expected[0].len(), expected[1].len()), (20_000, 71));
    let (_pool, stores) = reopened(&killed(&medium));
    let found = ["loaded", "other"].map(|name| contents(&stores.existing(name).unwrap()));
    assert!(found == expected);
}

/// Orders in which pairs are given, from sorted to shuffled.
fn orders(rng: &mut StdRng, model: &Model) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    use rand::seq::SliceRandom;
    let sorted: Vec<_> = model.clone().into_iter().collect();
    // Two threads hand over parts in turn.
    let mut turns = Vec::new();
    for parts in sorted.chunks(200) {
        let (first, second) = parts.split_at(parts.len() / 2);
        turns.extend([second, first].concat());
    }
    // Two sorted files, one after the other.
    let every = |rest: usize| sorted.iter().skip(rest).step_by(2).cloned();
    let files = every(0).chain(every(1)).collect();
    let mut late = sorted.clone();
    if let Some(first) = (!late.is_empty()).then(|| late.remove(0)) {
        late.push(first);
    }
    let backward = sorted.iter().rev().cloned().collect();
    let mut shuffled = sorted.clone();
    shuffled.shuffle(rng);
    vec![sorted, turns, files, late, backward, shuffled]
}

fn sorting(memory: usize) -> LoadOptions {
    LoadOptions::new(memory, Arc::new(tempfile::tempfile))
}

#[test]
fn pairs_in_any_order_are_loaded() {
    let seed = seed();
    let mut rng = StdRng::seed_from_u64(seed);
    for (keys, count) in [
        (Keys::Numbers, 30_000),
        (Keys::Urls, 9_000),
        (Keys::Short, 50),
        (Keys::Short, 0),
    ] {
        let model = pairs(&mut rng, keys, count);
        for (at, order) in orders(&mut rng, &model).into_iter().enumerate() {
            for memory in [0, 300_000, 100 << 20] {
                let (pool, _medium) = dram_pool();
                let stores = Stores::open_with(&pool, options()).unwrap();
                let mut loader = stores.load("s", sorting(memory)).unwrap();
                order
                    .iter()
                    .for_each(|(key, value)| loader.push(key, value).unwrap());
                assert_eq!(loader.len(), order.len() as u64);
                let store = loader.finish().unwrap();
                assert!(contents(&store) == model, "order {at}, memory {memory}");
                let report = stores.check(&mut |_| ControlFlow::Continue(())).unwrap();
                assert!(report.is_intact(), "order {at}, memory {memory}: {report:?}");
            }
        }
    }
}

#[test]
fn duplicates_in_any_order_are_named() {
    let seed = seed();
    let mut rng = StdRng::seed_from_u64(seed);
    let model: Model = (0..20_000_u32)
        .map(|number| (number.to_be_bytes().to_vec(), vec![0; 9]))
        .collect();
    for (at, mut order) in orders(&mut rng, &model).into_iter().enumerate() {
        let first = rng.random_range(0..order.len() - 1);
        let second = rng.random_range(first + 1..order.len());
        let key = order[first].0.clone();
        order.insert(second, order[first].clone());
        for memory in [0, 100 << 20] {
            let (pool, _medium) = dram_pool();
            let stores = Stores::open_with(&pool, options()).unwrap();
            let mut loader = stores.load("s", sorting(memory)).unwrap();
            let pushed = order.iter().try_for_each(|(key, value)| loader.push(key, value));
            let error = pushed.and_then(|()| loader.finish().map(drop)).unwrap_err();
            let context = format!("order {at}, memory {memory}: {error}");
            let StoreError::DuplicateKey { key: found, pair, .. } = error else {
                panic!("{context}");
            };
            assert_eq!(found, key, "{context}");
            assert_eq!(pair, second as u64 + 1, "{context}");
            assert_eq!(stores.names(), Vec::<String>::new());
        }
    }
}

#[test]
fn errors_of_temporary_files_are_told() {
    let (pool, _medium) = dram_pool();
    let stores = Stores::open_with(&pool, options()).unwrap();
    let full = || Err(std::io::Error::other("no room here"));
    let mut loader = stores.load("s", LoadOptions::new(0, Arc::new(full))).unwrap();
    let mut pairs = (0..10_000_u32).rev();
    let error = pairs
        .find_map(|number| loader.push(number.to_be_bytes(), "").err())
        .unwrap();
    assert!(error.to_string().contains("no room here"), "{error}");
    drop(loader);
    assert!(stores.names().is_empty());
}

#[test]
fn loads_are_cancelled() {
    let (pool, _medium) = dram_pool();
    let stores = Stores::open_with(&pool, options()).unwrap();
    let cancel = std::sync::atomic::AtomicBool::new(true);
    for pairs in [10_u32, 10_000] {
        let mut loader = stores.load("s", sorting(0)).unwrap();
        (0..pairs)
            .rev()
            .for_each(|number| loader.push(number.to_be_bytes(), "v").unwrap());
        assert!(matches!(
            loader.finish_unless(&cancel),
            Err(StoreError::Cancelled)
        ));
        assert!(stores.names().is_empty());
    }
}

/// A transaction that replaces a store is refused, or ends all commits to it. Older snapshots see neither.
#[test]
fn a_loaded_store_takes_the_place_of_another_one() {
    let (pool, _medium) = dram_pool();
    let stores = Stores::open_with(&pool, options()).unwrap();
    let [old, list] = ["old", "list"].map(|name| stores.store(name).unwrap());
    let mut loader = stores.load_sorted("new").unwrap();
    loader.push("k", "loaded").unwrap();
    let new = loader.finish().unwrap();
    let replace = |then: &dyn Fn()| {
        let mut transaction = stores.begin();
        assert!(transaction.scan::<&str>(&old, ..).next().is_none());
        transaction.put(&list, "table", "new").unwrap();
        then();
        transaction.replace(&old, &new);
        transaction.commit()
    };
    let conflict = replace(&|| {
        old.put("k", "v").unwrap();
        old.delete("k").unwrap();
    });
    assert!(
        matches!(conflict, Err(StoreError::Conflict { .. })),
        "{conflict:?}"
    );
    old.put("k", "v").unwrap();
    old.delete("k").unwrap();
    let before = stores.snapshot();
    let (mut reads, mut scans) = (stores.begin(), stores.begin());
    replace(&|| ()).unwrap();
    assert!(matches!(old.put("k", "v"), Err(StoreError::Dropped { .. })));
    assert_eq!(old.get("k").unwrap(), None);
    assert_eq!(list.get("table").unwrap().unwrap(), b"new");
    for _ in 0..2 {
        assert_eq!(before.get(&new, "k").unwrap(), None);
        assert_eq!(before.scan::<&str>(&new, ..).count(), 0);
        assert_eq!(before.scan::<&str>(&new, ..).rev().count(), 0);
        new.put("k", "newer").unwrap();
    }
    assert_eq!(new.scan::<&str>(..).count(), 1);
    // What has seen nothing in it depends on that.
    assert_eq!(reads.get(&new, "x").unwrap(), None);
    assert!(scans.scan::<&str>(&new, ..).next().is_none());
    for mut transaction in [reads, scans] {
        transaction.put(&list, "other", "1").unwrap();
        assert!(matches!(transaction.commit(), Err(StoreError::Conflict { .. })));
    }
    stores.drop_store("old").unwrap();
    assert_eq!(stores.names(), ["list", "new"]);
}
