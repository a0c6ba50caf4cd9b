//! Steps of scans over leaves, frozen and active memtables.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use halocline_media::Dram;
use halocline_pool::Pool;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::workload::options;
use crate::key_range::KeyRange;
use crate::leaf::ENTRIES;
use crate::scan::Direction;
use crate::{Store, Stores};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns a random key. Many have the same eight bytes after the prefix of their leaf.
fn key(rng: &mut StdRng) -> Vec<u8> {
    let number: u32 = rng.random_range(0..900);
    match number % 3 {
        0 => format!("tenant/{number:03}").into_bytes(),
        1 => format!("tenant/the-same-bytes-{number:03}").into_bytes(),
        _ => vec![0; (number % 40) as usize],
    }
}

fn write(rng: &mut StdRng, store: &Store, model: &mut Model, count: usize) {
    for _ in 0..count {
        let key = key(rng);
        if rng.random_bool(0.2) {
            store.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = vec![rng.random(); rng.random_range(0..20)];
            store.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

fn bound(rng: &mut StdRng) -> Bound<Vec<u8>> {
    match rng.random_range(0..3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key(rng)),
        _ => Bound::Excluded(key(rng)),
    }
}

/// Reads a range in steps; returns the pairs in ascending order.
fn scan(stores: &Stores, store: &Store, range: &KeyRange, direction: Direction, limit: usize) -> Model {
    let mut pairs = Model::new();
    let mut rest = Some(range.clone());
    while let Some(range) = rest {
        let state = &stores.handle.state;
        let step = state.scan_step(&store.state, &range, u64::MAX, direction, limit);
        let step = step.unwrap();
        // Of a leaf, those with the slice of the last one are read together.
        assert!(step.pairs.len() <= 3 * limit + ENTRIES, "{}", step.pairs.len());
        let follows = |key: &Vec<u8>| match direction {
            Direction::Forward => pairs.last_key_value().is_none_or(|(last, _)| last < key),
            Direction::Backward => pairs.first_key_value().is_none_or(|(first, _)| first > key),
        };
        assert!(step.pairs.iter().all(|pair| follows(&pair.key)));
        pairs.extend(step.pairs.into_iter().map(|pair| (pair.key, pair.value)));
        rest = step.rest;
    }
    pairs
}

#[test]
fn steps_are_short_and_miss_nothing() {
    let random = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    let seed: u64 =
        std::env::var("HALOCLINE_STORE_SEED").map_or_else(|_| random(), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default()).with_pending_records(100_000)).unwrap();
    let store = stores.store("s").unwrap();
    let mut model = Model::new();
    for round in 0..4 {
        write(&mut rng, &store, &mut model, 300);
        if round % 2 == 0 {
            stores.checkpoint().unwrap();
        } else if round == 3 {
            // As while a checkpoint merges them.
            let mut trees = store.state.write();
            trees.frozen = Some(Arc::new(std::mem::take(&mut trees.active)));
            drop(trees);
            stores.handle.state.committer().merging = true;
            write(&mut rng, &store, &mut model, 300);
        }
        for _ in 0..60 {
            let range = KeyRange {
                from: bound(&mut rng),
                to: bound(&mut rng),
            };
            let expected = model.iter().filter(|(key, _)| range.contains(key));
            let expected: Model = expected
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            let limit = [1, 2, 8, 40, 300][rng.random_range(0..5)];
            for direction in [Direction::Forward, Direction::Backward] {
                let found = scan(&stores, &store, &range, direction, limit);
                assert!(found == expected, "{range:?} {direction:?}, {limit} per step");
            }
        }
    }
}

#[test]
fn a_short_scan_of_a_young_store_reads_little() {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default()).with_pending_records(100_000)).unwrap();
    let store = stores.store("s").unwrap();
    let mut batch = crate::WriteBatch::new();
    (0..10_000_u32).for_each(|number| batch.put(&store, number.to_be_bytes(), "").unwrap());
    stores.write(batch).unwrap();
    let state = &stores.handle.state;
    for direction in [Direction::Forward, Direction::Backward] {
        let step = state.scan_step(&store.state, &KeyRange::ALL, u64::MAX, direction, 8);
        assert_eq!(step.unwrap().pairs.len(), 8);
    }
    let first = store.scan::<&[u8]>(..).next().unwrap().unwrap();
    assert_eq!(first.0, 0_u32.to_be_bytes());
    let last = store.scan::<&[u8]>(..).next_back().unwrap().unwrap();
    assert_eq!(last.0, 9_999_u32.to_be_bytes());
}
