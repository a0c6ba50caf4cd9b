//! A full disk: values are refused, and everything else goes on: deletions, drops, checkpoints, openings.
//!
//! The steps are random where they say so. A failure names its seed; `HALOCLINE_FULL_DISK_SEED` replays it.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use halocline_explore::{Explorer, Tracked};
use halocline_media::MediumAccess;
use halocline_pool::Pool;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::page_cache::strict;
use super::workload::options;
use crate::committer::MergeRoom;
use crate::fault::{self, StoreFault};
use crate::room::SegmentClaim;
use crate::{Store, Stores, StoresOptions, WriteBatch};

fn small() -> StoresOptions {
    options(&Arc::default()).with_pending_records(500)
}

fn key(number: u32) -> Vec<u8> {
    format!("key-{number:06}").into_bytes()
}

/// Puts values until the disk is full, and returns their number.
fn fill(store: &Store, from: u32, len: usize) -> u32 {
    let mut number = from;
    loop {
        match store.put(key(number), vec![number as u8; len]) {
            Ok(()) => number += 1,
            Err(error) if error.is_full() => return number,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Fills a disk, and deletes everything again, with stores that are opened again in between.
fn emptied(background: bool, len: usize) {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    medium.limit(6 << 20);
    let open = || Stores::open_with(&pool, small().with_background(background)).unwrap();
    let stores = open();
    let (store, other) = (stores.store("s").unwrap(), stores.store("other").unwrap());
    other.put("kept", "value").unwrap();
    let count = fill(&store, 0, len);
    assert!(count > 100, "{count}");
    drop((store, other, stores));
    for round in 0..3 {
        let stores = open();
        let store = stores.store("s").unwrap();
        assert_eq!(
            store.get(key(count / 3 * round)).unwrap(),
            Some(vec![(count / 3 * round) as u8; len])
        );
        for number in count / 3 * round..count / 3 * (round + 1) {
            store.delete(key(number)).unwrap();
        }
    }
    let stores = open();
    let store = stores.store("s").unwrap();
    assert_eq!(store.len() as u32, count - count / 3 * 3);
    stores.reclaim().unwrap();
    let again = fill(&store, 1_000_000, len) - 1_000_000;
    assert!(
        again > count / 2,
        "{again} of {count} values, as the space is there again"
    );
    let mut batch = WriteBatch::new();
    batch.put(&store, "small", "and needed").unwrap();
    batch.use_reserve();
    stores.write(batch).unwrap();
    stores.drop_store("s").unwrap();
    assert_eq!(
        stores.store("other").unwrap().get("kept").unwrap(),
        Some(b"value".to_vec())
    );
    let report = stores
        .check(&mut |_| std::ops::ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(report.problems, vec![]);
}

#[test]
fn everything_can_be_deleted_on_a_full_disk() {
    for background in [false, true] {
        for len in [20, 3000] {
            emptied(background, len);
        }
    }
}

#[test]
fn segments_for_deletions_are_kept() {
    let spent = || fault::with(StoreFault::KeepNothing, || emptied(false, 20));
    assert!(std::panic::catch_unwind(spent).is_err());
}

/// A store that is killed when its disk is full opens again, and its keys can be deleted.
#[test]
fn stores_on_a_full_disk_open_after_a_kill() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    medium.limit(5 << 20);
    let stores = Stores::open_with(&pool, small()).unwrap();
    let store = stores.store("s").unwrap();
    let count = fill(&store, 0, 200);
    let killed = Arc::new(Tracked::from_image(&medium.image()).unwrap());
    killed.limit(killed.len());
    let pool = Pool::open_on(Arc::clone(&killed)).unwrap();
    let stores = Stores::open_with(&pool, small()).unwrap();
    let store = stores.store("s").unwrap();
    for number in 0..count {
        assert_eq!(store.get(key(number)).unwrap(), Some(vec![number as u8; 200]));
        store.delete(key(number)).unwrap();
    }
    assert!(store.is_empty());
}

/// Keys all over the tree expire on a full disk, which has no room for copies of all their leaves.
#[test]
fn expired_keys_leave_a_full_disk() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    medium.limit(5 << 20);
    let clock = Arc::new(AtomicU64::new(0));
    let stores = Stores::open_with(&pool, options(&clock).with_pending_records(2000)).unwrap();
    let store = stores.store("s").unwrap();
    let mut count = 0_u32;
    loop {
        let key = count.wrapping_mul(0x9E37_79B1).to_be_bytes();
        match store.put_with_ttl(key, [7; 100], Duration::from_millis(10)) {
            Ok(()) => count += 1,
            Err(error) if error.is_full() => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(count > 1000, "{count}");
    clock.store(20, Ordering::Relaxed);
    (0..200).for_each(|_| stores.reclaim().unwrap());
    assert!(store.len() < u64::from(count / 2), "{} of {count}", store.len());
    store.put("again", vec![1; 3000]).unwrap();
    let report = stores
        .check(&mut |_| std::ops::ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(report.problems, vec![]);
}

/// A checkpoint that fails leaves as much log to be replayed as there was.
#[test]
fn a_checkpoint_that_fails_stays_due() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let stores = Stores::open_with(&pool, small()).unwrap();
    let store = stores.store("s").unwrap();
    store.put("key", vec![7; 1000]).unwrap();
    let state = &stores.handle.state;
    let pending = || {
        let committer = state.committer();
        (committer.pending_records, committer.pending_bytes)
    };
    let before = pending();
    assert!(before.0 == 1 && before.1 > 1000, "{before:?}");
    medium.limit(medium.len());
    let taken: Vec<u64> = std::iter::from_fn(|| state.slab.alloc().ok()).collect();
    assert!(stores.checkpoint().unwrap_err().is_full());
    assert_eq!(pending(), before);
    taken.into_iter().for_each(|segment| state.slab.free(segment));
    stores.checkpoint().unwrap();
    assert_eq!(pending(), (0, 0));
}

/// Sets keys on a full disk with little room for copies: maintenance gains what there is to gain, and ends.
#[test]
fn maintenance_comes_to_an_end_on_a_full_disk() {
    for seed in 0..2 {
        let medium = Arc::new(Tracked::new(0).unwrap());
        let pool = Pool::create_on(strict(&medium)).unwrap();
        medium.limit(7 << 20);
        let stores = Stores::open_with(&pool, options(&Arc::default()).with_pending_records(20_000)).unwrap();
        let store = stores.store("s").unwrap();
        let mut random = StdRng::seed_from_u64(seed);
        let mut failed = 0;
        while failed < 300 {
            let len = [15, 300, 3000][random.random_range(0..3)];
            match store.put(key(random.random_range(0..4000)), vec![7; len]) {
                Ok(()) => continue,
                Err(error) if error.is_full() => failed += 1,
                Err(error) => panic!("{error}"),
            }
            let state = &stores.handle.state;
            let rounds = (0..100).take_while(|_| state.maintain().unwrap()).count();
            assert!(rounds < 100, "each of them says that segments were emptied");
        }
    }
}

/// Returns the seeds of a random test.
fn seeds() -> Vec<u64> {
    let seeds = match std::env::var("HALOCLINE_FULL_DISK_SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) => vec![1, 2, 3],
    };
    println!("HALOCLINE_FULL_DISK_SEED: one of {seeds:?}");
    seeds
}

/// Overwrites, deletions and drops at random, on a disk that is full most of the time, beside a model.
#[test]
fn a_full_disk_loses_nothing() {
    for seed in seeds() {
        let mut random = StdRng::seed_from_u64(seed);
        let medium = Arc::new(Tracked::new(0).unwrap());
        let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
        medium.limit(4 << 20);
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for _ in 0..4 {
            let stores = Stores::open_with(&pool, small().with_background(random.random_bool(0.5))).unwrap();
            let store = stores.store("s").unwrap();
            for _ in 0..1500 {
                let key = key(random.random_range(0..2500));
                if random.random_range(0..10) < 7 {
                    let value = vec![random.random(); random.random_range(0..2000)];
                    match store.put(&key, &value) {
                        Ok(()) => drop(model.insert(key, value)),
                        Err(error) => assert!(error.is_full(), "seed {seed}: {error}"),
                    }
                } else {
                    let deleted = store.delete(&key);
                    assert!(deleted.is_ok(), "seed {seed}: {deleted:?}");
                    model.remove(&key);
                }
            }
            let found: Result<BTreeMap<_, _>, _> = store.scan::<&[u8]>(..).collect();
            assert!(
                found.unwrap() == model,
                "seed {seed}: the store differs from the model"
            );
        }
    }
}

/// Every crash while a full store is emptied.
#[test]
fn crashes_while_a_full_store_is_emptied() {
    let explored = || {
        let explorer = Explorer {
            limit: 20,
            ..Explorer::default()
        };
        let count = std::cell::Cell::new(0);
        let prepare = |medium: &Arc<Tracked>| {
            let pool = Pool::create_on(Arc::clone(medium)).unwrap();
            medium.limit(3 << 20);
            let stores = Stores::open_with(&pool, small()).unwrap();
            count.set(fill(&stores.store("s").unwrap(), 0, 3000));
        };
        let work = |medium: &Arc<Tracked>| {
            let pool = Pool::open_on(Arc::clone(medium)).unwrap();
            let stores = Stores::open_with(&pool, small()).unwrap();
            let store = stores.store("s").unwrap();
            let store = store.with_merge(|_, _, _| vec![7; 3000]);
            for step in 0..4 {
                medium.begin(step);
                // How much a merge appends is known while it is appended.
                let mut refused = WriteBatch::new();
                for number in 0..600 {
                    refused.merge(&store, key(1_000_000 + number), "").unwrap();
                }
                if step < 2 {
                    assert!(stores.write(refused).unwrap_err().is_full());
                }
                let mut batch = WriteBatch::new();
                for number in (step as u32..count.get()).step_by(4) {
                    batch.delete(&store, key(number)).unwrap();
                }
                stores.write(batch).unwrap();
                medium.acknowledge(step);
                // A new catalog takes segments before the checkpoint is durable.
                stores.handle.state.committer().catalog.must_renew = true;
                stores.reclaim().unwrap();
            }
        };
        explorer.run(prepare, work, |medium, crash| {
            let (first, last) = crash.completed(0);
            medium.limit(medium.len());
            let fail = |error: &dyn std::fmt::Display| error.to_string();
            let pool = Pool::open_on(Arc::clone(&medium)).map_err(|error| fail(&error))?;
            let stores = Stores::open_with(&pool, small()).map_err(|error| fail(&error))?;
            let store = stores.store("s").map_err(|error| fail(&error))?;
            let found: Vec<Vec<u8>> = store
                .scan::<&[u8]>(..)
                .map(|pair| pair.map(|pair| pair.0))
                .collect::<Result<_, _>>()
                .map_err(|error| fail(&error))?;
            let state = |done: usize| -> Vec<Vec<u8>> {
                let left = (0..count.get()).filter(|number| *number as usize % 4 >= done);
                left.map(key).collect()
            };
            if !(first..=last).any(|done| found == state(done)) {
                return Err(format!("{} keys are left", found.len()));
            }
            store.delete_range::<&[u8]>(..).map_err(|error| fail(&error))
        })
    };
    explored().unwrap_or_else(|violation| panic!("{violation}"));
    for fault in [StoreFault::FreeEarly, StoreFault::KeepTakenBack] {
        let broken = std::panic::catch_unwind(|| fault::with(fault, explored));
        assert!(!matches!(broken, Ok(Ok(_))), "{fault:?} was not noticed");
    }
}

/// While another writer has the pool, what needs a further segment fails in time, and all else goes on.
#[test]
fn an_open_transaction_of_the_pool_holds_nobody_up() {
    let pool = Pool::create_on(Arc::new(Tracked::new(0).unwrap())).unwrap();
    let stores = Stores::open_with(&pool, small()).unwrap();
    let store = stores.store("s").unwrap();
    store.put("here", "value").unwrap();
    let txn = pool.begin().unwrap();
    let mut refused = 0;
    for number in 0..3000 {
        match store.put(key(number), [1; 1000]) {
            Ok(()) => assert_eq!(refused, 0),
            Err(crate::StoreError::Pool(halocline_pool::PoolError::Locked { .. })) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 1000, "{refused}");
    // The log has room for deletions, and reads need none.
    store.delete(key(1)).unwrap();
    assert_eq!(store.get(key(2)).unwrap(), Some(vec![1; 1000]));
    drop(txn);
    store.put(key(3000), [1; 1000]).unwrap();
}

/// Deletes all keys of a full disk in random order: hardly a segment of the log becomes empty by itself.
#[test]
fn everything_can_be_deleted_in_any_order() {
    for seed in seeds() {
        for (background, len) in [
            (false, 20),
            (true, 20),
            (false, 1000),
            (true, 1000),
            (false, 9000),
        ] {
            let mut random = StdRng::seed_from_u64(seed);
            let medium = Arc::new(Tracked::new(0).unwrap());
            let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
            medium.limit(random.random_range(64..128) << 16);
            let stores = Stores::open_with(&pool, small().with_background(background)).unwrap();
            let store = stores.store("s").unwrap();
            let count = fill(&store, 0, len);
            let mut keys: Vec<u32> = (0..count).collect();
            keys.shuffle(&mut random);
            for (done, number) in keys.into_iter().enumerate() {
                let deleted = store.delete(key(number));
                assert!(
                    deleted.is_ok(),
                    "seed {seed}, {len} bytes, after {done} of {count}: {deleted:?}"
                );
            }
            assert!(store.is_empty());
        }
    }
}

/// While a checkpoint merges, commits leave it the segments that it has not taken yet.
#[test]
fn commits_leave_segments_to_a_checkpoint_in_progress() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let stores = Stores::open_with(&pool, small()).unwrap();
    stores.store("s").unwrap().put("key", "value").unwrap();
    stores.checkpoint().unwrap();
    let state = &stores.handle.state;
    let kept = || state.kept_by(&state.committer(), SegmentClaim::Deletions);
    let before = kept();
    let with_pages = state.segments().with_pages();
    state.committer().merging = Some(MergeRoom {
        needed: 7,
        with_pages,
    });
    assert_eq!(kept(), before + 7);
    // It has taken one.
    state.committer().merging = Some(MergeRoom {
        needed: 7,
        with_pages: with_pages - 1,
    });
    assert_eq!(kept(), before + 6);
    state.committer().merging = None;
    assert_eq!(kept(), before);
}
