//! Keys that expire: their space comes back whatever is beside them, and what somebody sees stays.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use halocline_media::Dram;
use halocline_pool::Pool;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::workload::options;
use crate::fault::{self, StoreFault};
use crate::{Store, StoreSnapshot, Stores};

const DAY: u64 = 86_400_000;

fn ttl(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// However many keys expire at once, a checkpoint comes after a limited number of them.
#[test]
fn few_expired_keys_are_purged_between_checkpoints() {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let clock = Arc::default();
    let stores = Stores::open_with(&pool, options(&clock).with_pending_records(50)).unwrap();
    let store = stores.store("s").unwrap();
    for number in 0..3000_u32 {
        let key = number.to_be_bytes();
        store.put_with_ttl(key, vec![1; 500], ttl(10)).unwrap();
    }
    stores.checkpoint().unwrap();
    clock.store(20, Ordering::Relaxed);
    let state = &stores.handle.state;
    assert!(state.collect_garbage().unwrap());
    let purged = state.committer().pending_records;
    assert!((50..200).contains(&purged), "{purged}");
    while state.maintain().unwrap() {}
    // Those in the current segment stay.
    assert!(stores.stats().keys < 200, "{}", stores.stats().keys);
}

/// Of a hundred keys one lives for a day, the others for a second. The stores are opened again now and then.
#[test]
fn the_space_for_mixed_times_of_expiry_stays_flat() {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let clock = Arc::new(AtomicU64::new(1_000_000));
    let open = || {
        let options = options(&clock).with_pending_records(2000);
        let stores = Stores::open_with(&pool, options).unwrap();
        (stores.store("s").unwrap(), stores)
    };
    let (mut store, mut stores) = open();
    let (mut number, mut sizes) = (0_u32, Vec::new());
    for tick in 0..400 {
        for _ in 0..100 {
            number += 1;
            let (key, lives) = match number % 100 {
                // Few keys are written again and again.
                0 => (number / 100 % 50, DAY),
                _ => (1000 + number, 1000),
            };
            store
                .put_with_ttl(key.to_be_bytes(), vec![1; 500], ttl(lives))
                .unwrap();
        }
        clock.fetch_add(100, Ordering::Relaxed);
        stores.reclaim().unwrap();
        if tick % 90 == 60 {
            drop((store, stores));
            (store, stores) = open();
        }
        sizes.push(stores.stats().pool_bytes);
    }
    let of = |ticks: std::ops::Range<usize>| sizes[ticks].iter().max().copied().unwrap();
    assert!(of(200..400) <= of(0..200), "{sizes:?}");
    assert!(of(0..400) < 6 << 20, "{} bytes", of(0..400));
    // Those of a second have expired, and of the others none.
    clock.fetch_add(2000, Ordering::Relaxed);
    (0..4).for_each(|_| stores.reclaim().unwrap());
    assert!(store.len() < 300, "{} keys", store.len());
    let alive = store.scan::<&[u8]>(..).map(|pair| pair.unwrap().0);
    assert_eq!(alive.count(), 50);
}

/// Returns true if a snapshot still sees a key that has expired meanwhile, when the clock goes back.
fn is_kept_for_a_snapshot() -> bool {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let clock = Arc::new(AtomicU64::new(1000));
    let stores = Stores::open_with(&pool, options(&clock)).unwrap();
    let store = stores.store("s").unwrap();
    for key in 0..40_u32 {
        store
            .put_with_ttl(key.to_be_bytes(), vec![1; 9000], ttl(100))
            .unwrap();
    }
    let snapshot = stores.snapshot();
    let reader = Stores::open_reader_with(&pool, &options(&clock)).unwrap();
    let seen = reader.existing("s").unwrap();
    clock.store(5000, Ordering::Relaxed);
    (0..3).for_each(|_| stores.reclaim().unwrap());
    assert_eq!(store.scan::<&[u8]>(..).count(), 0);
    clock.store(1050, Ordering::Relaxed);
    let in_snapshot = snapshot.scan::<&[u8]>(&store, ..).flatten().count();
    let in_reader = seen.scan::<&[u8]>(..).flatten().count();
    in_snapshot == 40 && in_reader == 40
}

#[test]
fn what_a_snapshot_sees_is_not_purged_when_the_clock_goes_back() {
    assert!(is_kept_for_a_snapshot());
    assert!(!fault::with(StoreFault::PurgeSeen, is_kept_for_a_snapshot));
}

/// A reader that begins when a key has expired does not keep it.
#[test]
fn snapshots_of_later_do_not_keep_expired_keys() {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let clock = Arc::new(AtomicU64::new(1000));
    let stores = Stores::open_with(&pool, options(&clock)).unwrap();
    let store = stores.store("s").unwrap();
    for key in 0..100_u32 {
        store
            .put_with_ttl(key.to_be_bytes(), vec![1; 9000], ttl(100))
            .unwrap();
    }
    clock.store(5000, Ordering::Relaxed);
    stores.reclaim().unwrap();
    store.put("later", "1").unwrap();
    let _snapshot = stores.snapshot();
    let reader = Stores::open_reader_with(&pool, &options(&clock)).unwrap();
    clock.store(6000, Ordering::Relaxed);
    (0..3).for_each(|_| stores.reclaim().unwrap());
    // Those in the current segment stay.
    assert!(store.len() < 20, "{} keys", store.len());
    drop(reader);
}

/// A value of the model.
#[derive(Debug, Clone)]
struct ModelValue {
    value: Vec<u8>,
    expires: Option<u64>,
    /// True if the key had expired at some time, so that it may be gone although the clock has gone back.
    was_over: bool,
}

type Model = BTreeMap<u32, ModelValue>;

/// Compares what is visible of a store with the model at a time.
fn compare(found: impl Fn(u32) -> Option<Vec<u8>>, model: &Model, now: u64, context: &str) {
    for key in 0..400 {
        let (found, expected) = (found(key), model.get(&key));
        let alive = expected.filter(|value| value.expires.is_none_or(|expires| expires > now));
        match (&found, alive) {
            (None, None) => {}
            (None, Some(value)) => assert!(value.was_over, "{context}: key {key} is gone"),
            (Some(found), Some(value)) => assert_eq!(found, &value.value, "{context}: key {key}"),
            (Some(_), None) => panic!("{context}: key {key} is there, of {expected:?}"),
        }
    }
}

fn run(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let clock = Arc::new(AtomicU64::new(1_000_000));
    let options = |rng: &mut StdRng| {
        options(&clock)
            .with_pending_records(rng.random_range(10..500))
            .with_pending_bytes(rng.random_range(10_000..1_000_000))
            .with_garbage_percent(rng.random_range(5..40))
    };
    let names = ["a", "b"];
    let mut stores = Stores::open_with(&pool, options(&mut rng)).unwrap();
    let mut open = names.map(|name| stores.store(name).unwrap());
    let mut models = [Model::new(), Model::new()];
    let mut snapshots: Vec<(StoreSnapshot, [Model; 2], [u32; 2])> = Vec::new();
    let mut reader: Option<([Store; 2], [Model; 2], [u32; 2])> = None;
    let mut drops = [0_u32; 2];
    for step in 0..rng.random_range(200..1500) {
        let of = rng.random_range(0..2);
        let now = clock.load(Ordering::Relaxed);
        match rng.random_range(0..100) {
            0..60 => {
                let key = rng.random_range(0..400_u32);
                let len = if rng.random_ratio(1, 30) {
                    20_000
                } else {
                    rng.random_range(0..2000)
                };
                let value = vec![rng.random(); len];
                let lives = match rng.random_range(0..4) {
                    0 => None,
                    1 => Some(rng.random_range(50_000..200_000)),
                    _ => Some(rng.random_range(10..500)),
                };
                match lives {
                    None => open[of].put(key.to_be_bytes(), &value).unwrap(),
                    Some(lives) => open[of]
                        .put_with_ttl(key.to_be_bytes(), &value, ttl(lives))
                        .unwrap(),
                }
                let expires = lives.map(|lives| now + lives);
                let value = ModelValue {
                    value,
                    expires,
                    was_over: false,
                };
                models[of].insert(key, value);
            }
            60..66 => {
                let key = rng.random_range(0..400_u32);
                open[of].delete(key.to_be_bytes()).unwrap();
                models[of].remove(&key);
            }
            66..78 => {
                let now = match rng.random_range(0..4) {
                    0 => now - rng.random_range(0..2000),
                    1 => now + rng.random_range(0..100_000),
                    _ => now + rng.random_range(0..300),
                };
                clock.store(now, Ordering::Relaxed);
                for value in models.iter_mut().flat_map(|model| model.values_mut()) {
                    value.was_over |= value.expires.is_some_and(|expires| expires <= now);
                }
            }
            78..86 => stores.reclaim().unwrap(),
            86..88 => drop(stores.give_back(Duration::ZERO).unwrap()),
            88..90 => {
                stores.drop_store(names[of]).unwrap();
                open[of] = stores.store(names[of]).unwrap();
                models[of].clear();
                drops[of] += 1;
            }
            90..93 => {
                if snapshots.len() > 2 {
                    snapshots.swap_remove(rng.random_range(0..snapshots.len()));
                }
                snapshots.push((stores.snapshot(), models.clone(), drops));
            }
            93..95 => {
                let stores = Stores::open_reader_with(&pool, &options(&mut rng)).unwrap();
                let open = names.map(|name| stores.existing(name).unwrap());
                reader = Some((open, models.clone(), drops));
            }
            95 => {
                (snapshots, reader) = (Vec::new(), None);
                drop((open, stores));
                stores = Stores::open_with(&pool, options(&mut rng)).unwrap();
                open = names.map(|name| stores.store(name).unwrap());
            }
            _ => {
                let context = format!("step {step}, store {of}");
                let get = |key: u32| open[of].get(key.to_be_bytes()).unwrap();
                compare(get, &models[of], now, &context);
                for (snapshot, models, dropped) in snapshots.iter().filter(|(.., seen)| seen[of] == drops[of])
                {
                    let get = |key: u32| snapshot.get(&open[of], key.to_be_bytes()).unwrap();
                    compare(
                        get,
                        &models[of],
                        now,
                        &format!("{context}, snapshot of {dropped:?}"),
                    );
                }
                if let Some((stores, models, _)) = reader.as_ref().filter(|(.., seen)| seen[of] == drops[of])
                {
                    let get = |key: u32| stores[of].get(key.to_be_bytes()).unwrap();
                    compare(get, &models[of], now, &format!("{context}, reader"));
                }
            }
        }
    }
    let report = stores
        .check(&mut |_| std::ops::ControlFlow::Continue(()))
        .unwrap();
    assert!(report.is_intact(), "{:?}", report.problems);
}

#[test]
fn stores_with_expiring_keys_and_drops_do_what_maps_do() {
    let random = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    let seed: u64 =
        std::env::var("HALOCLINE_STORE_SEED").map_or_else(|_| random(), |seed| seed.parse().unwrap());
    let rounds = std::env::var("HALOCLINE_STORE_ROUNDS").map_or(8, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let seed = seed.wrapping_add(round);
        println!("seed {seed}");
        run(seed);
    }
}
