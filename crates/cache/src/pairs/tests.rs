use super::*;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread;

/// Creates a cache with one bucket.
fn small() -> PairCache {
    PairCache::new(size_of::<PairCache>() + size_of::<PairBucket>()).unwrap()
}

fn get(cache: &PairCache, key: u64) -> PairLookup {
    cache.get(PairCache::hash(key), key)
}

/// Looks a key up and offers a value for it after a miss.
fn fill(cache: &PairCache, key: u64, value: u64) {
    if let PairLookup::Miss(ticket) = get(cache, key) {
        cache.offer(PairCache::hash(key), key, value, ticket);
    }
}

#[test]
fn budgets_are_kept() {
    let least = size_of::<PairCache>() + size_of::<PairBucket>();
    assert!(matches!(
        PairCache::new(least - 1),
        Err(CacheError::BudgetTooSmall { .. })
    ));
    for budget in [least, least + 4000, 1 << 20] {
        let cache = PairCache::new(budget).unwrap();
        assert!(cache.bytes() <= budget as u64);
        assert_eq!(cache.stats().pairs, 0);
    }
}

#[test]
fn a_write_replaces_or_removes_the_copy() {
    let cache = small();
    fill(&cache, 1, 10);
    assert_eq!(get(&cache, 1), PairLookup::Hit(10));
    let hash = PairCache::hash(1);
    let write = cache.write(hash, 1);
    assert_eq!(get(&cache, 1), PairLookup::Busy);
    write.replace(11);
    assert_eq!(get(&cache, 1), PairLookup::Hit(11));
    drop(cache.write(hash, 1));
    assert!(matches!(get(&cache, 1), PairLookup::Miss(_)));
}

/// Writes of a bucket wait for each other, so the copy is that of the last one in the index.
#[test]
fn writes_of_a_bucket_follow_one_another() {
    let (cache, index) = (small(), AtomicU64::new(0));
    fill(&cache, 1, 0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let write = cache.write(PairCache::hash(1), 1);
                    let before = index.load(Relaxed);
                    assert_eq!(get(&cache, 1), PairLookup::Busy);
                    index.store(before + 1, Relaxed);
                    write.replace(before + 1);
                }
            });
        }
    });
    assert_eq!(get(&cache, 1), PairLookup::Hit(8000));
}

#[test]
fn a_value_read_before_a_write_is_not_kept() {
    let cache = small();
    let hash = PairCache::hash(1);
    let PairLookup::Miss(ticket) = get(&cache, 1) else {
        panic!("the cache is empty")
    };
    cache.write(hash, 1).replace(11);
    cache.offer(hash, 1, 10, ticket);
    assert!(matches!(get(&cache, 1), PairLookup::Miss(_)));
}

#[test]
fn hot_keys_stay_beside_cold_ones() {
    let cache = PairCache::new(64 << 10).unwrap();
    let capacity = cache.stats().capacity;
    let hot = capacity / 4;
    let (mut hits, mut model) = (0, HashMap::new());
    for round in 0..200_000_u64 {
        let key = match round % 2 {
            0 => PairCache::hash(round) % hot,
            _ => hot + round,
        };
        model.entry(key).or_insert(key * 3);
        match get(&cache, key) {
            PairLookup::Hit(value) => {
                assert_eq!(Some(&value), model.get(&key));
                hits += u64::from(round >= 100_000);
            }
            PairLookup::Miss(ticket) => cache.offer(PairCache::hash(key), key, key * 3, ticket),
            PairLookup::Busy => unreachable!("nobody writes"),
        }
    }
    assert!(hits > 45_000, "{hits} of 50,000 lookups of hot keys hit");
}

/// One thread counts each key up; others must never see a count go down, whether they read the index or a
/// copy.
#[test]
fn reads_of_other_threads_never_go_back() {
    const KEYS: u64 = 8;
    const WRITES: u64 = 20_000;
    let cache = PairCache::new(4096).unwrap();
    let index: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let read = |key: u64| match get(&cache, key) {
        PairLookup::Hit(value) => value,
        PairLookup::Miss(ticket) => {
            let value = index[key as usize].load(SeqCst);
            cache.offer(PairCache::hash(key), key, value, ticket);
            value
        }
        PairLookup::Busy => index[key as usize].load(SeqCst),
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = [0; KEYS as usize];
                while last.iter().any(|count| *count < WRITES) {
                    for key in 0..KEYS {
                        let count = read(key);
                        assert!(
                            count >= last[key as usize],
                            "{count} after {}",
                            last[key as usize]
                        );
                        last[key as usize] = count;
                    }
                }
            });
        }
        for count in 1..=WRITES {
            for key in 0..KEYS {
                let write = cache.write(PairCache::hash(key), key);
                index[key as usize].store(count, SeqCst);
                match count % 3 {
                    0 => drop(write),
                    _ => write.replace(count),
                }
                assert_eq!(read(key), count, "a thread sees its own write");
            }
        }
    });
}
