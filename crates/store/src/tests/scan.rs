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
use crate::committer::MergeRoom;
use crate::key_range::KeyRange;
use crate::leaf::ENTRIES;
use crate::scan::{Direction, StepEnd, StepSize};
use crate::scan_pairs::ScannedPairs;
use crate::{MAX_VALUE, Store, Stores};

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
    let mut step = ScannedPairs::default();
    while let Some(range) = rest {
        let state = &stores.handle.state;
        let size = StepSize(limit);
        let end = state.scan_step(&store.state, &range, u64::MAX, direction, size, &mut step);
        let mut count = 0;
        while let Some(pair) = step.take_first() {
            let (key, value) = (step.get(&pair.key).to_vec(), step.get(&pair.value).to_vec());
            let follows = match direction {
                Direction::Forward => pairs.last_key_value().is_none_or(|(last, _)| *last < key),
                Direction::Backward => pairs.first_key_value().is_none_or(|(first, _)| *first > key),
            };
            assert!(follows, "{key:?} in {range:?}");
            pairs.insert(key, value);
            count += 1;
        }
        // Of a leaf, those with the slice of the last one are read together.
        assert!(count <= limit + ENTRIES, "{count}");
        rest = end.unwrap().rest(range, direction);
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
            stores.handle.state.committer().merging = Some(MergeRoom::default());
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
        let mut step = ScannedPairs::default();
        let size = StepSize(8);
        let end = state.scan_step(&store.state, &KeyRange::ALL, u64::MAX, direction, size, &mut step);
        assert!(matches!(end, Ok(StepEnd::After(_))));
        assert_eq!(std::iter::from_fn(|| step.take_first()).count(), 8);
    }
    let first = store.scan::<&[u8]>(..).next().unwrap().unwrap();
    assert_eq!(first.0, 0_u32.to_be_bytes());
    let last = store.scan::<&[u8]>(..).next_back().unwrap().unwrap();
    assert_eq!(last.0, 9_999_u32.to_be_bytes());
}

#[test]
fn a_step_reads_a_bounded_number_of_bytes() {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default()).with_pending_records(100_000)).unwrap();
    let store = stores.store("s").unwrap();
    let state = &stores.handle.state;
    // In the memtable, then in leaves; of one record each, then of several.
    for len in [MAX_VALUE, 100_000, 16_000] {
        let value = vec![7; len];
        (0..100_u32).for_each(|number| store.put(number.to_be_bytes(), &value).unwrap());
        for direction in [Direction::Forward, Direction::Backward] {
            let mut step = ScannedPairs::default();
            for (size, bytes) in [(1, 4 << 10), (8, 32 << 10), (256, 1 << 20)] {
                let size = StepSize(size);
                let all = &KeyRange::ALL;
                let end = state.scan_step(&store.state, all, u64::MAX, direction, size, &mut step);
                let is_cut = matches!(end, Ok(StepEnd::After(_) | StepEnd::Leaf(_)));
                assert!(is_cut, "{len} {size:?}");
                let count = std::iter::from_fn(|| step.take_first()).count();
                assert!(
                    count > 0 && (count - 1) * len <= bytes,
                    "{count} values of {len}, {size:?}"
                );
            }
        }
        stores.checkpoint().unwrap();
    }
    let mut scan = store.scan::<&[u8]>(..);
    let pairs = std::iter::from_fn(|| scan.next_ref().map(|pair| pair.unwrap().1.len()));
    assert_eq!(pairs.sum::<usize>(), 1_600_000);
}
