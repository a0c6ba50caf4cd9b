//! Scans that lend pairs and scans that return owned ones against a map, from both ends, over values of all
//! sizes in memtables and leaves, as of several snapshots, with expiry.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use halocline_store::{MAX_VALUE, Scan, Store, StoreSnapshot, Stores, StoresOptions, WriteBatch};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::{Keys, dram_pool};

/// Values and their times of expiry in ms since 1970.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// Returns the rounds of each shape of keys, and the first seed.
fn rounds() -> std::ops::Range<u64> {
    let random = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    let seed: u64 =
        std::env::var("HALOCLINE_STORE_SEED").map_or_else(|_| random(), |seed| seed.parse().unwrap());
    let rounds: u64 = std::env::var("HALOCLINE_STORE_ROUNDS").map_or(2, |rounds| rounds.parse().unwrap());
    // Not above the greatest number.
    let seed = seed.min(u64::MAX - rounds);
    seed..seed + rounds
}

fn value(rng: &mut StdRng) -> Vec<u8> {
    let len = match rng.random_range(0..400) {
        0..100 => 0,
        100..390 => rng.random_range(0..300),
        390..395 => rng.random_range(2_000..16_384),
        395..398 => rng.random_range(16_383..16_387),
        398 => rng.random_range(16_384..200_000),
        _ => rng.random_range(MAX_VALUE - 1000..=MAX_VALUE),
    };
    let mut value = vec![rng.random(); len];
    if let Some(last) = value.last_mut() {
        *last = rng.random();
    }
    value
}

fn write(rng: &mut StdRng, keys: Keys, store: &Store, now: u64, model: &mut Model) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for _ in 0..rng.random_range(1..30) {
        let key = keys.draw(rng, 500);
        match rng.random_range(0..10) {
            0..2 => {
                batch.delete(store, &key).unwrap();
                model.remove(&key);
            }
            2 => {
                let (value, ttl) = (value(rng), rng.random_range(1..100));
                let until = UNIX_EPOCH + Duration::from_millis(now + ttl);
                batch.put_until(store, &key, &value, until).unwrap();
                model.insert(key, (value, Some(now + ttl)));
            }
            _ => {
                let value = value(rng);
                batch.put(store, &key, &value).unwrap();
                model.insert(key, (value, None));
            }
        }
    }
    batch
}

fn bound(rng: &mut StdRng, keys: Keys) -> Bound<Vec<u8>> {
    match rng.random_range(0..4) {
        0 => Bound::Included(keys.draw(rng, 500)),
        1 => Bound::Excluded(keys.draw(rng, 500)),
        _ => Bound::Unbounded,
    }
}

/// The probability of each way to take the next pair of a scan.
struct Moves {
    from_back: f64,
    owned: f64,
}

/// Takes pairs from both ends of a scan, lent and owned ones, and compares them with those expected.
fn compare(rng: &mut StdRng, mut scan: Scan, mut expected: VecDeque<(Vec<u8>, Vec<u8>)>, context: &str) {
    let probabilities = [0.0, 0.03, 0.5, 1.0];
    let moves = Moves {
        from_back: probabilities[rng.random_range(0..4)],
        owned: probabilities[rng.random_range(0..4)],
    };
    let stop = rng.random_range(0..600);
    for count in 0..stop {
        let is_back = rng.random_bool(moves.from_back);
        let wanted = if is_back {
            expected.pop_back()
        } else {
            expected.pop_front()
        };
        let is_as_wanted = if rng.random_bool(moves.owned) {
            let found = if is_back { scan.next_back() } else { scan.next() };
            found.transpose().unwrap() == wanted
        } else {
            let found = if is_back {
                scan.next_back_ref()
            } else {
                scan.next_ref()
            };
            let wanted = wanted.as_ref();
            found.transpose().unwrap() == wanted.map(|(key, value)| (key.as_slice(), value.as_slice()))
        };
        assert!(is_as_wanted, "pair {count}, {context}");
        if wanted.is_none() {
            break;
        }
    }
}

fn check(rng: &mut StdRng, keys: Keys, store: &Store, at: &StoreSnapshot, model: &Model, now: u64) {
    let (from, to) = (bound(rng, keys), bound(rng, keys));
    let context = format!("{keys:?} {from:?} {to:?}, commit {}", at.commit());
    let is_within = |key: &Vec<u8>| {
        let range: (Bound<&[u8]>, Bound<&[u8]>) =
            (from.as_ref().map(|key| &key[..]), to.as_ref().map(|key| &key[..]));
        std::ops::RangeBounds::<[u8]>::contains(&range, key)
    };
    let expected = || {
        let found = model.iter().filter(|(key, _)| is_within(key));
        found.filter(|(_, (_, expires))| expires.is_none_or(|expires| expires > now))
    };
    let pairs = || expected().map(|(key, (value, _))| (key.clone(), value.clone()));
    let range = || (from.clone(), to.clone());
    compare(rng, at.scan(store, range()), pairs().collect(), &context);
    // A limit counts pairs from both ends, so it is compared from one of them.
    let limit = rng.random_range(0..80);
    let mut limited = at.scan(store, range()).with_limit(limit);
    let mut wanted = pairs().take(limit);
    while let Some((key, value)) = limited.next_ref().transpose().unwrap() {
        assert_eq!(wanted.next(), Some((key.to_vec(), value.to_vec())), "{context}");
    }
    assert_eq!(wanted.next(), None, "{context}");
    let limited: Vec<_> = at
        .scan(store, range())
        .with_limit(limit)
        .rev()
        .map(Result::unwrap)
        .collect();
    let all: Vec<_> = pairs().collect();
    assert!(limited.iter().eq(all.iter().rev().take(limit)), "{context}");
    let time = |expires: Option<SystemTime>| {
        expires.map(|expires| expires.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64)
    };
    let with_expiry = at.scan(store, range()).with_expiry().map(Result::unwrap);
    let with_expiry = with_expiry.map(|pair| (pair.key, (pair.value, time(pair.expires))));
    let wanted = expected().map(|(key, value)| (key.clone(), value.clone()));
    assert!(with_expiry.eq(wanted), "{context}");
}

fn run(seed: u64, keys: Keys) {
    let mut rng = StdRng::seed_from_u64(seed);
    let clock = Arc::new(AtomicU64::new(1_000_000));
    let now = Arc::clone(&clock);
    let options = StoresOptions::default()
        .with_background(false)
        .with_pending_records(rng.random_range(50..5000))
        .with_clock(Arc::new(move || now.load(Ordering::Relaxed)));
    let (pool, _) = dram_pool();
    let stores = Stores::open_with(&pool, options).unwrap();
    let store = stores.store("s").unwrap();
    let mut model = Model::new();
    let mut snapshots: Vec<(StoreSnapshot, Model)> = Vec::new();
    for _ in 0..150 {
        let now = clock.load(Ordering::Relaxed);
        match rng.random_range(0..20) {
            0 => stores.checkpoint().unwrap(),
            1 => {
                clock.fetch_add(rng.random_range(0..60), Ordering::Relaxed);
            }
            2 => {
                snapshots.push((stores.snapshot(), model.clone()));
                if snapshots.len() > 3 {
                    snapshots.swap_remove(rng.random_range(0..3));
                }
            }
            3 => stores.reclaim().unwrap(),
            4..8 => {
                let latest = (stores.snapshot(), model.clone());
                for (snapshot, model) in snapshots.iter().chain([&latest]) {
                    check(&mut rng, keys, &store, snapshot, model, now);
                }
            }
            _ => {
                let batch = write(&mut rng, keys, &store, now, &mut model);
                stores.write(batch).unwrap();
            }
        }
    }
}

#[test]
fn lent_and_owned_pairs_are_those_of_a_map() {
    for seed in rounds() {
        println!("seed {seed}");
        Keys::ALL.into_iter().for_each(|keys| run(seed, keys));
    }
}

#[test]
fn what_a_scan_lends_outlives_later_writes() {
    let (pool, _) = dram_pool();
    let stores = Stores::open(&pool).unwrap();
    let store = stores.store("s").unwrap();
    (0..300_u32).for_each(|key| store.put(key.to_be_bytes(), [1; 100]).unwrap());
    let mut scan = store.scan::<&[u8]>(..);
    let (key, value) = scan.next_ref().unwrap().unwrap();
    (0..300_u32).for_each(|key| store.put(key.to_be_bytes(), [2; 100]).unwrap());
    stores.checkpoint().unwrap();
    stores.reclaim().unwrap();
    assert_eq!((key, value), (&[0; 4][..], &[1; 100][..]));
    let mut count = 1;
    while let Some((_, value)) = scan.next_back_ref().transpose().unwrap() {
        assert_eq!(value, [1; 100]);
        count += 1;
    }
    assert_eq!(count, 300);
    drop(scan);
    let mut scan = store.scan::<&[u8]>(..);
    stores.drop_store("s").unwrap();
    assert!(matches!(
        scan.next_ref(),
        Some(Err(halocline_store::StoreError::Dropped { .. }))
    ));
    assert!(scan.next_ref().is_none() && scan.next().is_none());
}
