//! Scans over ranges whose keys are deleted and not yet removed.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use halocline_media::Dram;
use halocline_pool::Pool;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::workload::options;
use crate::fault::{self, StoreFault};
use crate::key_range::KeyRange;
use crate::room::SegmentClaim;
use crate::scan::{Direction, StepSize};
use crate::scan_pairs::ScannedPairs;
use crate::{Store, StoreSnapshot, Stores, WriteBatch};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Deletes the ranges of a batch, and leaves their keys hidden.
fn hide(stores: &Stores, batch: WriteBatch) {
    let state = &stores.handle.state;
    let committed = state.commit_batch(batch.ops, None, SegmentClaim::Deletions);
    committed.unwrap();
}

fn open(medium: &Arc<Dram>) -> (Stores, Store) {
    let pool = Pool::open_on(Arc::clone(medium)).unwrap();
    let stores = Stores::open_with(&pool, options(&Arc::default()).with_pending_records(1 << 20)).unwrap();
    let store = stores.store("s").unwrap();
    (stores, store)
}

fn key(rng: &mut StdRng) -> Vec<u8> {
    let number: u32 = rng.random_range(0..600);
    match number % 3 {
        0 => format!("tenant/{number:03}").into_bytes(),
        1 => format!("tenant/the-same-bytes-{number:03}").into_bytes(),
        _ => vec![0; (number % 40) as usize],
    }
}

fn range(rng: &mut StdRng) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let mut bound = || match rng.random_range(0..4) {
        0 => Bound::Unbounded,
        1 => Bound::Excluded(key(rng)),
        _ => Bound::Included(key(rng)),
    };
    (bound(), bound())
}

fn is_in(range: &(Bound<Vec<u8>>, Bound<Vec<u8>>), key: &Vec<u8>) -> bool {
    std::ops::RangeBounds::contains(range, key)
}

/// Compares a scan of a random range, from random ends, with the model.
fn compare(rng: &mut StdRng, snapshot: &StoreSnapshot, store: &Store, model: &Model) -> Result<(), String> {
    let range = range(rng);
    let within = model.iter().filter(|(key, _)| is_in(&range, key));
    let mut left: std::collections::VecDeque<_> = within.collect();
    let mut scan = snapshot.scan(store, range.clone());
    let limit = match rng.random_range(0..3) {
        0 => rng.random_range(1..20),
        _ => usize::MAX,
    };
    if limit < usize::MAX {
        scan = scan.with_limit(limit);
    }
    let backward = [0.0, 1.0, 0.5][rng.random_range(0..3)];
    for _ in 0..limit {
        let is_backward = rng.random_bool(backward);
        let (found, expected) = if is_backward {
            (scan.next_back_ref(), left.pop_back())
        } else {
            (scan.next_ref(), left.pop_front())
        };
        let found = found.transpose().map_err(|error| error.to_string())?;
        if found != expected.map(|(key, value)| (key.as_slice(), value.as_slice())) {
            let found = found.map(|(key, _)| key.escape_ascii().to_string());
            let expected = expected.map(|(key, _)| key.escape_ascii().to_string());
            return Err(format!(
                "{range:?}, backward {is_backward}: {found:?}, expected {expected:?}"
            ));
        }
        if found.is_none() {
            break;
        }
    }
    Ok(())
}

/// Runs random operations, and compares what scans find with the model.
fn run(seed: u64, steps: usize) -> Result<(), String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let medium = Arc::new(Dram::new(0).unwrap());
    drop(Pool::create_on(Arc::clone(&medium)).unwrap());
    let (mut stores, mut store) = open(&medium);
    let mut model = Model::new();
    let mut kept: Vec<(StoreSnapshot, Model)> = Vec::new();
    for step in 0..steps {
        let context = |error: String| format!("seed {seed}, step {step}: {error}");
        match rng.random_range(0..100) {
            0..45 => {
                let count = [1, 3, 60][rng.random_range(0..3)];
                let mut batch = WriteBatch::new();
                for _ in 0..count {
                    let (key, value) = (key(&mut rng), vec![rng.random(); rng.random_range(0..9)]);
                    batch.put(&store, &key, &value).unwrap();
                    model.insert(key, value);
                }
                stores.write(batch).unwrap();
            }
            45..55 => {
                let key = key(&mut rng);
                store.delete(&key).unwrap();
                model.remove(&key);
            }
            55..70 => {
                let mut batch = WriteBatch::new();
                for _ in 0..rng.random_range(1..3) {
                    let range = range(&mut rng);
                    batch.delete_range(&store, range.clone()).unwrap();
                    model.retain(|key, _| !is_in(&range, key));
                    // A key that the batch sets after it has deleted the range.
                    if rng.random_bool(0.3) {
                        let key = key(&mut rng);
                        batch.put(&store, &key, "same").unwrap();
                        model.insert(key, b"same".to_vec());
                    }
                }
                hide(&stores, batch);
            }
            70..80 => {
                let state = &stores.handle.state;
                for _ in 0..rng.random_range(1..20) {
                    state.delete_step(&store.state).unwrap();
                }
            }
            80..88 => stores.checkpoint().unwrap(),
            88..91 => stores.reclaim().unwrap(),
            91..94 => {
                kept.clear();
                drop((stores, store));
                (stores, store) = open(&medium);
            }
            94..96 => {
                let reader = Stores::open_reader(&Pool::open_on(Arc::clone(&medium)).unwrap()).unwrap();
                let read = reader.existing("s").unwrap();
                for _ in 0..4 {
                    compare(&mut rng, &reader.snapshot(), &read, &model).map_err(context)?;
                }
            }
            _ if kept.len() < 4 => kept.push((stores.snapshot(), model.clone())),
            _ => drop(kept.swap_remove(rng.random_range(0..4))),
        }
        compare(&mut rng, &stores.snapshot(), &store, &model).map_err(context)?;
        for (snapshot, model) in &kept {
            compare(&mut rng, snapshot, &store, model).map_err(context)?;
        }
    }
    Ok(())
}

#[test]
fn scans_over_hidden_ranges_miss_nothing() {
    let random = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    let seed: u64 =
        std::env::var("HALOCLINE_STORE_SEED").map_or_else(|_| random(), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    for round in 0..4 {
        run(seed.wrapping_add(round), 250).unwrap();
    }
}

/// Keys that are not noted are missing, and deletions with the commit of the newest range uncover what an
/// older one hides.
#[test]
fn broken_rules_are_noticed() {
    let faults = [
        StoreFault::ForgetNewer,
        StoreFault::TrustCarried,
        StoreFault::OweNewest,
    ];
    for fault in faults {
        let is_noticed = |seed| fault::with(fault, || run(seed, 250)).is_err();
        assert!((0..20).any(is_noticed), "{fault:?}");
    }
    assert!(fault::with(StoreFault::ReadHidden, || run(0, 250)).is_ok());
}

/// A key that was set again stays hidden from a snapshot between two ranges when the older one is done.
#[test]
fn a_snapshot_between_two_ranges_sees_no_key() {
    let finds_nothing = || {
        let medium = Arc::new(Dram::new(0).unwrap());
        drop(Pool::create_on(Arc::clone(&medium)).unwrap());
        let (stores, store) = open(&medium);
        for number in 0..9 {
            store.put([number], "").unwrap();
        }
        let whole = || {
            let mut batch = WriteBatch::new();
            batch.delete_range::<&[u8]>(&store, ..).unwrap();
            hide(&stores, batch);
        };
        whole();
        let between = stores.snapshot();
        whole();
        store.put([7], "again").unwrap();
        while stores.handle.state.delete_step(&store.state).unwrap() {}
        between.scan::<&[u8]>(&store, ..).count() == 0 && between.get(&store, [7]).unwrap().is_none()
    };
    assert!(finds_nothing());
    assert!(!fault::with(StoreFault::OweNewest, finds_nothing));
}

/// Returns the number of entries that a seek reads on the way to its first pair.
fn entries_of_seek(stores: &Stores, store: &Store, direction: Direction) -> usize {
    let mut step = ScannedPairs::default();
    let mut rest = Some(KeyRange::ALL);
    while let Some(range) = rest.take_if(|_| step.is_empty()) {
        let (state, size) = (&stores.handle.state, StepSize(8));
        let end = state.scan_step(&store.state, &range, u64::MAX, direction, size, &mut step);
        rest = end.unwrap().rest(range, direction);
    }
    step.space.entries
}

#[test]
fn a_seek_reads_little_of_a_hidden_range() {
    const KEYS: u32 = 100_000;
    let medium = Arc::new(Dram::new(0).unwrap());
    drop(Pool::create_on(Arc::clone(&medium)).unwrap());
    let (stores, store) = open(&medium);
    let key = |number: u32| number.to_be_bytes();
    let fill = |from: u32| {
        let mut batch = WriteBatch::new();
        (from..KEYS)
            .step_by(2)
            .for_each(|number| batch.put(&store, key(number), "value").unwrap());
        stores.write(batch).unwrap();
    };
    // Half of the keys are in leaves and half in the memtable.
    fill(0);
    stores.checkpoint().unwrap();
    fill(1);
    let mut batch = WriteBatch::new();
    batch.delete_range(&store, key(1)..key(KEYS - 1)).unwrap();
    hide(&stores, batch);
    let directions = [Direction::Forward, Direction::Backward];
    // The first and the last key are deleted one by one, so that all that a seek meets is hidden or is one
    // that was set again.
    store.delete(key(0)).unwrap();
    store.delete(key(KEYS - 1)).unwrap();
    for direction in directions {
        let read = || entries_of_seek(&stores, &store, direction);
        let before = fault::with(StoreFault::ReadHidden, read);
        println!("{direction:?}: {before} entries before, {} with seeks", read());
        assert_eq!(before, KEYS as usize);
        assert!(read() <= 9, "{}", read());
    }
    store.put(key(KEYS / 2), "again").unwrap();
    stores.checkpoint().unwrap();
    let found = store.scan::<&[u8]>(..).next().unwrap().unwrap();
    assert_eq!(found.0, key(KEYS / 2));
    for direction in directions {
        assert!(entries_of_seek(&stores, &store, direction) <= 20);
    }
    drop((stores, store));
    // The checkpoint does not tell which keys were set again, so that the first scan looks for them.
    let (stores, store) = open(&medium);
    let first = entries_of_seek(&stores, &store, Direction::Forward);
    let second = entries_of_seek(&stores, &store, Direction::Forward);
    println!("after an opening: {first} entries, then {second}");
    assert!(first > KEYS as usize / 2 && second <= 30, "{first}, {second}");
    drop((stores, store));
    let reader = Stores::open_reader(&Pool::open_on(medium).unwrap()).unwrap();
    let store = reader.existing("s").unwrap();
    for direction in directions {
        assert!(entries_of_seek(&reader, &store, direction) <= 30);
    }
}
