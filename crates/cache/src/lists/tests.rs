//! A list that is found has the bytes it was admitted with, the budget holds, and threads may share a cache.

use super::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::sync::Mutex;
use std::thread;

/// Returns the bytes of a list, which are derived from its offset.
fn list(id: u64) -> Vec<u8> {
    let len = 1 + mix(id) % 200;
    (0..len).map(|at| mix(id + at) as u8).collect()
}

/// Runs one query; returns true on a hit.
fn ask(cache: &ListCache, id: u64) -> bool {
    let hit = cache.read(id, |bytes| assert_eq!(bytes, list(id)));
    if hit.is_none() {
        cache.admit(id, 1.0 / (id + 1) as f32, &list(id));
    }
    hit.is_some()
}

#[test]
fn lists_are_found_whole_and_the_counters_agree() {
    for kind in PolicyKind::ALL {
        for seed in 0..4 {
            let mut rng = StdRng::seed_from_u64(seed);
            let budget = rng.random_range(3_000..60_000);
            let cache = ListCache::new(budget, 100, kind).unwrap();
            let bytes = cache.bytes();
            assert!(bytes <= budget, "{kind}, seed {seed}: {bytes} of {budget}");
            assert!(bytes + 4096 > budget, "{kind}, seed {seed}: {bytes} of {budget}");
            let (mut hits, requests) = (0, 20_000);
            for _ in 0..requests {
                let unit: f64 = rng.random();
                hits += u64::from(ask(&cache, (unit * unit * 1000.0) as u64 * 8));
                let now = cache.statistics();
                assert!(now.bytes_used as usize <= budget);
            }
            let end = cache.statistics();
            assert_eq!(
                (end.hits, end.misses),
                (hits, requests - hits),
                "{kind}, seed {seed}"
            );
            assert!(end.hits > 0, "{kind}, seed {seed}");
            assert_eq!(end.items, end.admissions - end.evictions);
            let resident: Vec<u64> = (0..1000)
                .map(|id| id * 8)
                .filter(|&id| cache.read(id, |_| ()).is_some())
                .collect();
            assert_eq!(resident.len() as u64, end.items, "{kind}, seed {seed}");
            let used: usize = resident.iter().map(|&id| arena::copy_bytes(list(id).len())).sum();
            assert_eq!(used as u64, end.bytes_used, "{kind}, seed {seed}");
            if kind == PolicyKind::Naive {
                assert_eq!(end.evictions, 0);
            }
        }
    }
}

#[test]
fn a_budget_without_room_for_a_list_is_an_error() {
    for kind in PolicyKind::ALL {
        let Err(CacheError::BudgetTooSmall { least, .. }) = ListCache::new(600, 1000, kind) else {
            panic!("{kind}: 600 bytes are enough");
        };
        let cache = ListCache::new(2 * least as usize, 1000, kind).unwrap();
        for _ in 0..2 {
            cache.admit(8, 1.0, &[7; 1000]);
        }
        // A list larger than the cache is rejected, and nothing is evicted for it.
        assert!(!cache.admit(16, 1.0, &vec![7; 100_000]), "{kind}");
        assert_eq!(cache.statistics().evictions, 0, "{kind}");
    }
}

#[test]
fn the_probability_of_a_list_can_change() {
    let cache = ListCache::new(4000, 1000, PolicyKind::Lla).unwrap();
    let mut next = 0;
    while cache.statistics().evictions == 0 && next < 10 && cache.admit(next * 8, 0.5, &[1; 1000]) {
        next += 1;
    }
    assert!(!cache.admit(800, 0.5, &[2; 1000]), "it is no more probable");
    cache.reweigh(0, 0.1);
    assert!(cache.admit(800, 0.5, &[2; 1000]));
    assert_eq!(cache.read(0, |_| ()), None);
}

#[test]
fn the_arena_keeps_what_slides() {
    let seed = 5;
    let mut rng = StdRng::seed_from_u64(seed);
    let size = 4096;
    let mut arena = arena::Arena::new(size);
    let (mut model, mut places) = (HashMap::<u32, Vec<u8>>::new(), HashMap::new());
    for step in 0..20_000u32 {
        let bytes = vec![step as u8; rng.random_range(0..300)];
        let live = |model: &HashMap<u32, Vec<u8>>| -> usize {
            model.values().map(|bytes| arena::copy_bytes(bytes.len())).sum()
        };
        while live(&model) + arena::copy_bytes(bytes.len()) > arena::live_bytes(size) {
            let owner = *model.keys().next().unwrap();
            model.remove(&owner);
            arena.remove(places.remove(&owner).unwrap());
        }
        let place = arena.add(step, &bytes, |owner, place| {
            places.insert(owner, place);
        });
        places.insert(step, place);
        model.insert(step, bytes);
        for (owner, bytes) in &model {
            assert_eq!(arena.get(places[owner], bytes.len() as u32), bytes, "seed {seed}");
        }
    }
}

#[test]
fn threads_share_a_cache() {
    for kind in PolicyKind::ALL {
        let cache = ListCache::new(4 << 20, 100, kind).unwrap();
        assert!(cache.shards.len() > 1);
        let hits = Mutex::new(0);
        thread::scope(|scope| {
            for thread in 0..4 {
                let (cache, hits) = (&cache, &hits);
                scope.spawn(move || {
                    let mut rng = StdRng::seed_from_u64(thread);
                    let mine = (0..10_000).filter(|_| ask(cache, rng.random_range(0..4000) * 8));
                    let mine = mine.count() as u64;
                    *hits.lock().unwrap() += mine;
                });
            }
        });
        let end = cache.statistics();
        assert_eq!(end.hits, *hits.lock().unwrap(), "{kind}");
        assert_eq!(end.hits + end.misses, 40_000, "{kind}");
        assert!(cache.bytes() <= 4 << 20);
    }
}

#[test]
fn a_reader_that_panics_leaves_the_cache_usable() {
    let cache = ListCache::new(10_000, 100, PolicyKind::Lru).unwrap();
    ask(&cache, 8);
    let panicked = thread::scope(|scope| {
        let reader = scope.spawn(|| cache.read(8, |_| panic!("a reader")));
        reader.join().is_err()
    });
    assert!(panicked);
    assert!(ask(&cache, 8));
}
