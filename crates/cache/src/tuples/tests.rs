//! Tests of the tuple cache: lookups return what was stored, with concurrent writers; hot keys stay;
//! unprofitable lookups are skipped.

use super::*;
use crate::hash_index::mix;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Returns a key of some words, all of which depend on `id`.
fn key_of(id: u64, words: usize) -> Vec<u64> {
    (0..words as u64).map(|word| mix(id * 8 + word)).collect()
}

fn value_of(id: u64) -> u32 {
    mix(id ^ 0xabcd) as u32 >> 1
}

/// Runs one query: a lookup, and an offer on a miss. Returns true on a hit.
fn ask(cache: &TupleCache, id: u64, words: usize) -> bool {
    let key = key_of(id, words);
    let hash = mix(key[0]);
    match cache.get(hash, &key) {
        Some(value) => {
            assert_eq!(value, value_of(id), "key {id} of {words} words");
            true
        }
        None => {
            cache.put(hash, &key, value_of(id));
            false
        }
    }
}

#[test]
fn a_small_set_is_kept_whole() {
    for words in 1..=3 {
        let cache = TupleCache::new(1 << 18, words).unwrap();
        for round in 0..3 {
            let hits = (0..100).filter(|&id| ask(&cache, id, words)).count();
            assert_eq!(hits, if round == 0 { 0 } else { 100 }, "{words} words");
        }
    }
}

#[test]
fn keys_that_look_like_empty_entries_are_keys() {
    for words in 1..=3 {
        let cache = TupleCache::new(4096, words).unwrap();
        let zeros = vec![0; words];
        assert_eq!(cache.get(7, &zeros), None);
        cache.put(7, &zeros, 5);
        cache.put(7, &key_of(1, words), 6);
        assert_eq!(cache.get(7, &zeros), Some(5));
        assert_eq!(cache.get(7, &key_of(1, words)), Some(6));
        if entries(words) > 2 {
            cache.put(7, &zeros, 0);
            assert_eq!(cache.get(7, &zeros), Some(0));
        }
        // `u32::MAX` is not a valid TID.
        cache.put(7, &key_of(2, words), u32::MAX);
        assert_eq!(cache.get(7, &key_of(2, words)), None);
    }
}

#[test]
fn the_budget_is_never_passed_and_nearly_used() {
    for words in 1..=3 {
        for budget in [500, 1000, 4096, 60_000] {
            let cache = TupleCache::new(budget, words).unwrap();
            assert!(cache.bytes() <= budget, "{words} words, {budget}");
            assert!(cache.bytes() + 160 > budget, "{words} words, {budget}");
        }
        // Large arrays are rounded up to pages.
        for budget in [70_000, 1 << 20, (40 << 20) + 100] {
            let cache = TupleCache::new(budget, words).unwrap();
            let what = format!("{words} words, {budget}: {}", cache.bytes());
            assert!(
                cache.bytes() <= budget && cache.bytes() + 3 * 4096 > budget,
                "{what}"
            );
        }
    }
    let error = TupleCache::new(100, 1).unwrap_err().to_string();
    assert!(error.contains("slow-only"), "{error}");
    assert!(TupleCache::new(4096, 4).is_err());
    assert_eq!((entries(1), entries(2), entries(3)), (5, 3, 2));
}

/// The hottest keys of a skewed workload stay against a stream of others.
#[test]
fn what_is_asked_for_often_stays() {
    let seed = 11;
    let mut rng = StdRng::seed_from_u64(seed);
    let cache = TupleCache::new(64 << 10, 1).unwrap();
    let hot = cache.room() as u64 / 2;
    let mut hits = 0;
    for step in 0..400_000u64 {
        let asks_hot = rng.random_ratio(1, 2);
        let id = if asks_hot {
            rng.random_range(0..hot)
        } else {
            hot + step
        };
        hits += u64::from(ask(&cache, id, 1) && step >= 200_000);
    }
    // Half of the lookups are for hot keys. Some buckets have more than five of them.
    assert!(hits > 90_000, "{hits} of about 100000 (seed {seed})");
}

#[test]
fn threads_never_see_a_torn_entry() {
    for words in 1..=3 {
        // Two buckets and a few dozen keys, so that all threads collide.
        let least = size_of::<TupleCache>() + 2 * 64 + 16;
        let cache = TupleCache::new(least, words).unwrap();
        let hits = AtomicU64::new(0);
        thread::scope(|scope| {
            for thread in 0..4u64 {
                let (cache, hits) = (&cache, &hits);
                scope.spawn(move || {
                    let mut rng = StdRng::seed_from_u64(thread);
                    for _ in 0..300_000 {
                        let id = rng.random_range(0..24);
                        hits.fetch_add(u64::from(ask(cache, id, words)), Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(hits.into_inner() > 10_000, "some lookups hit");
    }
}

/// Checks that readers only see values that their key had, while the values change.
#[test]
fn threads_see_values_that_were_put() {
    let cache = TupleCache::new(size_of::<TupleCache>() + 64 + 8, 2).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (cache, done) = (&cache, &done);
        scope.spawn(move || {
            for turn in 0..500_000u32 {
                let id = turn % 3;
                cache.put(0, &[u64::from(id), 1], id << 24 | turn >> 8);
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            for id in 0..3 {
                let value = cache.get(0, &[u64::from(id), 1]);
                assert!(value.is_none_or(|value| value >> 24 == id), "{value:?}");
            }
        }
    });
}

/// Runs a test in a new thread, whose random numbers are the same in every run.
fn in_new_thread(test: impl FnOnce() + Send) {
    thread::scope(|scope| scope.spawn(test).join().expect("the test's thread passes"));
}

#[test]
fn a_cache_that_never_hits_is_skipped_until_it_would() {
    in_new_thread(|| {
        let cache = TupleCache::new(1 << 16, 1).unwrap().with_break_even(0.03);
        let mut next = 0;
        let mut looked_up = |cold: bool| {
            let mut count = 0;
            for _ in 0..200_000u64 {
                next += 1;
                if cache.worth() {
                    count += 1;
                    ask(&cache, if cold { 1_000_000 + next } else { next % 50 }, 1);
                }
            }
            count
        };
        let first = looked_up(true);
        assert!(first < 60_000, "it closes after its grace: {first}");
        let closed = looked_up(true);
        assert!((2_500..4_000).contains(&closed), "one in 64: {closed}");
        let back = looked_up(false);
        assert!(back > 50_000, "it opens again: {back}");
        assert_eq!(looked_up(false), 200_000);
        assert!(cache.hit_rate().is_some_and(|rate| rate > 0.9));
    });
}

#[test]
fn without_a_break_even_rate_a_cache_is_always_asked() {
    let cache = TupleCache::new(4096, 1).unwrap();
    for id in 0..100_000 {
        assert!(cache.worth());
        ask(&cache, id, 1);
    }
}
