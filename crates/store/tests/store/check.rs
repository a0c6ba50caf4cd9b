//! Checks: healthy stores have no finding, and a check can be cancelled. Damage is in `src/tests/check.rs`.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use std::ops::ControlFlow;

use halocline_pool::{Pool, PoolOptions};
use halocline_store::{Store, StoreError, Stores, StoresCheckReport, StoresOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::{Keys, dram_pool};

fn options() -> StoresOptions {
    StoresOptions::default()
        .with_background(false)
        .with_pending_records(300)
}

fn check(stores: &Stores) -> StoresCheckReport {
    stores.check(&mut |_| ControlFlow::Continue(())).unwrap()
}

fn fill(store: &Store, rng: &mut StdRng, keys: Keys, rounds: usize) {
    for _ in 0..rounds {
        let key = keys.draw(rng, 3000);
        match rng.random_range(0..10) {
            0 => store.delete(&key).unwrap(),
            1 => store
                .put_with_ttl(&key, "short-lived", std::time::Duration::ZERO)
                .unwrap(),
            _ => store
                .put(&key, vec![rng.random(); rng.random_range(0..200)])
                .unwrap(),
        }
    }
}

#[test]
fn healthy_stores_have_no_finding() {
    let seed: u64 = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for keys in Keys::ALL {
        let (pool, _medium) = dram_pool();
        for _ in 0..3 {
            let stores = Stores::open_with(&pool, options()).unwrap();
            let [a, b] = ["a", "b"].map(|name| stores.store(name).unwrap());
            let _snapshot = stores.snapshot();
            fill(&a, &mut rng, keys, 4000);
            fill(&b, &mut rng, keys, 300);
            b.put("large", vec![7; 50_000]).unwrap();
            let report = check(&stores);
            assert_eq!(report.problems, [], "{keys:?}");
            assert!(report.uncounted.is_empty() && !report.cancelled, "{keys:?}");
            assert_eq!((report.stores, report.keys), (2, a.len() + b.len()), "{keys:?}");
            assert_eq!(report.bytes, a.bytes() + b.bytes(), "{keys:?}");
            assert!(report.leaves > 0 && report.branches > 0, "{keys:?}");
        }
    }
}

#[test]
fn a_check_can_be_cancelled() {
    let (pool, _medium) = dram_pool();
    let stores = Stores::open_with(&pool, options()).unwrap();
    let store = stores.store("s").unwrap();
    for number in 0..5000_u32 {
        store.put(number.to_be_bytes(), b"the value").unwrap();
    }
    let mut calls = 0;
    let report = stores
        .check(&mut |progress| {
            calls += 1;
            // No lock is held: the function may write.
            store.put("during", "a check").unwrap();
            if progress.keys > 100 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .unwrap();
    assert!(report.cancelled && report.is_intact());
    assert!(
        report.keys < 1000 && calls <= 10,
        "{} keys in {calls} steps",
        report.keys
    );
}

#[test]
fn a_reader_checks_beside_its_writer() {
    let seed: u64 = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let stores = Stores::open_with(&pool, options()).unwrap();
    let store = stores.store("s").unwrap();
    fill(&store, &mut rng, Keys::ALL[0], 4000);
    let reading = PoolOptions::default().with_read_only(true);
    let reader = Stores::open_reader(&Pool::open(&path, &reading).unwrap()).unwrap();
    let report = check(&reader);
    assert_eq!((report.problems.as_slice(), report.keys), (&[][..], store.len()));
    assert!(report.uncounted.is_empty() && report.leaves > 0);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| fill(&store, &mut rng, Keys::ALL[0], 20_000));
        while !writing.is_finished() {
            reader.refresh().unwrap();
            match reader.check(&mut |_| ControlFlow::Continue(())) {
                Ok(report) => assert_eq!(report.problems, []),
                // The writer may use space again faster than a page is read.
                Err(error) => assert!(matches!(error, StoreError::Overtaken { .. }), "{error}"),
            }
        }
    });
}
