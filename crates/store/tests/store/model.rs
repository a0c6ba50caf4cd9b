//! Random operations on stores, compared with maps in DRAM.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use halocline_pool::Pool;
use halocline_store::{Store, StoreSnapshot, Stores, StoresOptions, WriteBatch};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::{Keys, dram_pool};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(rng: &mut StdRng) -> StoresOptions {
    StoresOptions::default()
        .with_background(rng.random_bool(0.3))
        .with_pending_records(rng.random_range(1..200))
        .with_pending_bytes(rng.random_range(10_000..1_000_000))
        .with_garbage_percent(rng.random_range(5..60))
        .with_deleted_at_once(rng.random_range(1..20))
}

fn value(rng: &mut StdRng) -> Vec<u8> {
    let len = match rng.random_range(0..100) {
        0 => rng.random_range(16_000..70_000),
        1..5 => 0,
        _ => rng.random_range(0..300),
    };
    let byte = rng.random();
    vec![byte; len]
}

fn bound(rng: &mut StdRng, keys: Keys, count: u64) -> Bound<Vec<u8>> {
    match rng.random_range(0..3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(keys.draw(rng, count)),
        _ => Bound::Excluded(keys.draw(rng, count)),
    }
}

/// Returns the pairs of a range, which may be empty or reversed.
fn range(model: &Model, from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    use std::ops::RangeBounds;
    let contains = |key: &Vec<u8>| (from.clone(), to.clone()).contains(key);
    let pairs = model.iter().filter(|(key, _)| contains(key));
    pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Fails with the first difference of two lists of pairs.
fn compare(found: &[(Vec<u8>, Vec<u8>)], expected: &[(Vec<u8>, Vec<u8>)], context: &str) {
    let show = |pair: Option<&(Vec<u8>, Vec<u8>)>| {
        pair.map(|(key, value)| format!("{} = {} x {:?}", key.escape_ascii(), value.len(), value.first()))
    };
    let longer = found.len().max(expected.len());
    let differs = (0..longer).find(|&at| found.get(at) != expected.get(at));
    if let Some(at) = differs {
        let (found, expected) = (show(found.get(at)), show(expected.get(at)));
        panic!("{context}: pair {at} is {found:?} instead of {expected:?}");
    }
}

fn check(store: &Store, model: &Model, context: &str) {
    assert_eq!(store.len(), model.len() as u64, "{context}");
    let bytes: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert_eq!(store.bytes(), bytes as u64, "{context}");
    let all: Result<Vec<_>, _> = store.scan::<Vec<u8>>(..).collect();
    compare(
        &all.unwrap(),
        &range(model, &Bound::Unbounded, &Bound::Unbounded),
        context,
    );
}

fn run(seed: u64, keys: Keys) {
    let mut rng = StdRng::seed_from_u64(seed);
    let (pool, medium) = dram_pool();
    let mut stores = Some(Stores::open_with(&pool, options(&mut rng)).unwrap());
    drop(pool);
    let names = ["first", "second"];
    let open = |stores: &Stores| names.map(|name| stores.store(name).unwrap());
    let mut open_stores = open(stores.as_ref().unwrap());
    let mut models = [Model::new(), Model::new()];
    let mut snapshots: Vec<(StoreSnapshot, [Model; 2])> = Vec::new();
    let count = rng.random_range(10..3000);
    for step in 0..rng.random_range(50..1500) {
        let context = format!("{keys:?}, step {step}");
        let of = rng.random_range(0..2);
        let (store, model) = (&open_stores[of], &mut models[of]);
        match rng.random_range(0..100) {
            0..45 => {
                let (key, value) = (keys.draw(&mut rng, count), value(&mut rng));
                store.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            45..55 => {
                let key = keys.draw(&mut rng, count);
                store.delete(&key).unwrap();
                model.remove(&key);
            }
            55..70 => {
                let mut batch = WriteBatch::new();
                for _ in 0..rng.random_range(0..50) {
                    let of = rng.random_range(0..2);
                    let (key, value) = (keys.draw(&mut rng, count), value(&mut rng));
                    if rng.random_bool(0.8) {
                        batch.put(&open_stores[of], &key, &value).unwrap();
                        models[of].insert(key, value);
                    } else {
                        batch.delete(&open_stores[of], &key).unwrap();
                        models[of].remove(&key);
                    }
                }
                stores.as_ref().unwrap().write(batch).unwrap();
            }
            70..72 => {
                let (from, to) = (bound(&mut rng, keys, count), bound(&mut rng, keys, count));
                let gone = range(model, &from, &to);
                if gone.len() < model.len() / 3 || rng.random_bool(0.2) {
                    store.delete_range::<Vec<u8>>((from, to)).unwrap();
                    gone.iter().for_each(|(key, _)| {
                        model.remove(key);
                    });
                }
            }
            72..80 => {
                let key = keys.draw(&mut rng, count);
                assert_eq!(store.get(&key).unwrap().as_ref(), model.get(&key), "{context}");
            }
            80..85 => {
                let (from, to) = (bound(&mut rng, keys, count), bound(&mut rng, keys, count));
                let mut expected = range(model, &from, &to);
                let scan = store.scan::<Vec<u8>>((from, to));
                let found: Result<Vec<_>, _> = if rng.random() {
                    scan.collect()
                } else {
                    expected.reverse();
                    scan.rev().collect()
                };
                compare(&found.unwrap(), &expected, &context);
            }
            85..87 => {
                let key = keys.draw(&mut rng, count);
                let (expected, new) = (model.get(&key).cloned(), value(&mut rng));
                let expected = expected.filter(|_| rng.random());
                let swaps = expected.as_ref() == model.get(&key);
                let swapped = store
                    .compare_and_swap(&key, expected.as_deref(), Some(&new))
                    .unwrap();
                assert_eq!(swapped, swaps, "{context}");
                if swapped {
                    model.insert(key, new);
                }
            }
            87..90 => {
                if snapshots.len() > 3 {
                    snapshots.swap_remove(rng.random_range(0..snapshots.len()));
                }
                snapshots.push((stores.as_ref().unwrap().snapshot(), models.clone()));
            }
            90..94 => {
                if let Some((snapshot, models)) = snapshots.last() {
                    let key = keys.draw(&mut rng, count);
                    assert_eq!(
                        snapshot.get(store, &key).unwrap().as_ref(),
                        models[of].get(&key),
                        "{context}"
                    );
                    let found: Result<Vec<_>, _> = snapshot.scan::<Vec<u8>>(store, ..).collect();
                    let expected = range(&models[of], &Bound::Unbounded, &Bound::Unbounded);
                    compare(&found.unwrap(), &expected, &format!("{context}, snapshot"));
                }
            }
            94..96 => stores.as_ref().unwrap().reclaim().unwrap(),
            96 => {
                snapshots.clear();
                drop(open_stores);
                drop(stores.take());
                let pool = Pool::open_on(Arc::clone(&medium)).unwrap();
                stores = Some(Stores::open_with(&pool, options(&mut rng)).unwrap());
                open_stores = open(stores.as_ref().unwrap());
            }
            _ => check(store, model, &context),
        }
    }
    for (of, (store, model)) in open_stores.iter().zip(&models).enumerate() {
        check(store, model, &format!("{keys:?}, store {of} at the end"));
    }
    for (number, (snapshot, models)) in snapshots.iter().enumerate() {
        for (store, model) in open_stores.iter().zip(models) {
            let found: Result<Vec<_>, _> = snapshot.scan::<Vec<u8>>(store, ..).collect();
            let expected = range(model, &Bound::Unbounded, &Bound::Unbounded);
            compare(
                &found.unwrap(),
                &expected,
                &format!("{keys:?}, snapshot {number}"),
            );
        }
    }
    drop(stores);
}

#[test]
fn stores_do_what_maps_do() {
    let random = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    let seed: u64 =
        std::env::var("HALOCLINE_STORE_SEED").map_or_else(|_| random(), |seed| seed.parse().unwrap());
    let rounds = std::env::var("HALOCLINE_STORE_ROUNDS").map_or(6, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let seed = seed.wrapping_add(round);
        println!("seed {seed}");
        Keys::ALL.into_iter().for_each(|keys| run(seed, keys));
    }
}
