use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use super::*;
use crate::draw;
use crate::hash_index::mix;

type Cache = ItemCache<Vec<u8>>;

fn cache(bytes: u64) -> Cache {
    ItemCache::new(bytes).unwrap().always_on()
}

fn get(cache: &Cache, key: u64) -> ItemLookup<Vec<u8>> {
    cache.get(mix(key), &key.to_le_bytes())
}

/// Looks a key up and offers a value for it after a miss.
fn fill(cache: &Cache, key: u64, value: &[u8]) {
    if let ItemLookup::Miss(ticket) = get(cache, key) {
        let value = Arc::new(value.to_vec());
        cache.offer(mix(key), &key.to_le_bytes(), &value, value.len(), ticket);
    }
}

fn hit(value: &[u8]) -> ItemLookup<Vec<u8>> {
    ItemLookup::Hit(Arc::new(value.to_vec()))
}

fn is_miss(found: &ItemLookup<Vec<u8>>) -> bool {
    matches!(found, ItemLookup::Miss(_))
}

#[test]
fn budgets_are_kept() {
    let least = ItemShard::<Vec<u8>>::MIN_BYTES * SHARDS as u64;
    assert!(matches!(
        Cache::new(least - 1),
        Err(CacheError::BudgetTooSmall { .. })
    ));
    for budget in [least, 1 << 20] {
        let cache = cache(budget);
        for key in 0..20_000 {
            fill(&cache, key, &vec![1; key as usize % 500]);
        }
        let stats = cache.stats();
        assert!(stats.items > 0 && stats.bytes < budget, "{stats:?}");
    }
}

#[test]
fn a_write_replaces_or_removes_the_copy() {
    let cache = cache(1 << 20);
    fill(&cache, 1, b"old");
    assert_eq!(get(&cache, 1), hit(b"old"));
    let (hash, key) = (mix(1), 1_u64.to_le_bytes());
    for new in [&b"new"[..], &[7; 1000], b""] {
        let write = cache.write(hash, &key);
        assert_eq!(get(&cache, 1), ItemLookup::Busy);
        write.replace(|| (Arc::new(new.to_vec()), new.len()));
        assert_eq!(get(&cache, 1), hit(new));
    }
    drop(cache.write(hash, &key));
    assert!(is_miss(&get(&cache, 1)));
    assert_eq!((cache.stats().items, cache.stats().bytes), (0, 0));
    cache
        .write(hash, &key)
        .replace(|| unreachable!("there is no copy to replace"));
}

#[test]
fn writes_that_overlap_remove_the_copy() {
    let cache = cache(1 << 20);
    fill(&cache, 1, b"old");
    let key = 1_u64.to_le_bytes();
    let (first, second) = (cache.write(mix(1), &key), cache.write(mix(1), &key));
    second.replace(|| (Arc::new(vec![2]), 1));
    first.replace(|| (Arc::new(vec![1]), 1));
    assert!(is_miss(&get(&cache, 1)));
}

#[test]
fn a_value_that_was_read_before_a_write_is_not_kept() {
    let cache = cache(1 << 20);
    let key = 1_u64.to_le_bytes();
    let old = Arc::new(vec![1]);
    let ItemLookup::Miss(ticket) = get(&cache, 1) else {
        panic!("the cache is empty");
    };
    drop(cache.write(mix(1), &key));
    cache.offer(mix(1), &key, &old, 1, ticket);
    assert!(is_miss(&get(&cache, 1)));
    let ItemLookup::Miss(ticket) = get(&cache, 1) else {
        panic!("nothing was kept");
    };
    cache.clear();
    cache.offer(mix(1), &key, &old, 1, ticket);
    assert!(is_miss(&get(&cache, 1)));
}

#[test]
fn clearing_drops_all_copies() {
    let cache = cache(1 << 20);
    (0..100).for_each(|key| fill(&cache, key, b"value"));
    assert_eq!(cache.stats().items, 100);
    cache.clear();
    assert_eq!(cache.stats().items, 0);
    assert!((0..100).all(|key| is_miss(&get(&cache, key))));
    fill(&cache, 1, b"new");
    assert_eq!(get(&cache, 1), hit(b"new"));
}

#[test]
fn frequent_items_stay() {
    let cache = cache(1 << 20);
    for round in 0..20_000 {
        for key in [round % 50, 1000 + round] {
            fill(&cache, key, &[0; 300]);
        }
    }
    let hits = (0..50).filter(|key| !is_miss(&get(&cache, *key))).count();
    assert!(hits > 40, "{hits} of 50");
}

#[test]
fn a_closed_gate_admits_one_shard() {
    let cache = Cache::new(1 << 20).unwrap();
    let admitted: Vec<u64> = (0..10_000).filter(|key| cache.admits(mix(*key))).collect();
    assert!((100..220).contains(&admitted.len()), "{}", admitted.len());
    assert!(admitted.iter().all(|key| scale(mix(*key), SHARDS) == 0));
}

#[test]
fn lookups_never_return_what_was_replaced_before() {
    const KEYS: u64 = 4;
    let cache = cache(1 << 20);
    let map = Mutex::new(HashMap::<u64, u64>::new());
    let written: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let done = AtomicBool::new(false);
    let read = |key: u64| map.lock().unwrap().get(&key).copied().unwrap_or(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let key = draw::next() % KEYS;
                    let least = written[key as usize].load(SeqCst);
                    let bytes = key.to_le_bytes();
                    let found = match cache.get(mix(key), &bytes) {
                        ItemLookup::Hit(value) => u64::from_le_bytes(value[..8].try_into().unwrap()),
                        ItemLookup::Busy => read(key),
                        ItemLookup::Miss(ticket) => {
                            let found = read(key);
                            let value = Arc::new(found.to_le_bytes().to_vec());
                            cache.offer(mix(key), &bytes, &value, 8, ticket);
                            found
                        }
                    };
                    assert!(found >= least, "{found} after {least}");
                }
            });
        }
        for version in 1..20_000 {
            let key = version % KEYS;
            let bytes = key.to_le_bytes();
            let write = cache.write(mix(key), &bytes);
            map.lock().unwrap().insert(key, version);
            match version % 3 {
                0 => drop(write),
                _ => write.replace(|| (Arc::new(version.to_le_bytes().to_vec()), 8)),
            }
            written[key as usize].store(version, SeqCst);
        }
        done.store(true, Relaxed);
    });
}
