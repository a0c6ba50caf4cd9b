//! Expiry, merge operators, limits, dropped stores, reuse of space.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use halocline_pool::{Pool, PoolError};
use halocline_store::{MAX_KEY, MAX_VALUE, StoreError, StoreLookup, Stores, StoresOptions, WriteBatch};

use crate::common::dram_pool;

#[test]
fn expired_keys_are_gone_and_their_space_is_used_again() {
    let clock = Arc::new(AtomicU64::new(1_000_000));
    let now = Arc::clone(&clock);
    let options = StoresOptions::default()
        .with_background(false)
        .with_clock(Arc::new(move || now.load(Ordering::Relaxed)));
    let (pool, medium) = dram_pool();
    let stores = Stores::open_with(&pool, options.clone()).unwrap();
    let store = stores.store("sessions").unwrap();
    let put = |key: u32, ttl: u64| {
        store
            .put_with_ttl(key.to_be_bytes(), vec![7; 5000], Duration::from_millis(ttl))
            .unwrap();
    };
    (0..200).for_each(|key| put(key, 1000));
    store.put([0xFF; 4], "stays").unwrap();
    (200..220).for_each(|key| put(key, 100_000));
    stores.checkpoint().unwrap();
    let full = stores.stats().live_bytes;
    clock.fetch_add(1000, Ordering::Relaxed);
    assert_eq!(store.get(0u32.to_be_bytes()).unwrap(), None);
    assert_eq!(store.scan::<&[u8]>(..).count(), 21);
    assert_eq!(store.len(), 221, "nothing was reclaimed yet");
    stores.reclaim().unwrap();
    stores.reclaim().unwrap();
    let left = stores.stats();
    assert!(left.live_bytes < full / 4, "{left:?}");
    assert!(store.len() < 40, "{left:?}");
    // A new value of a key that expired does not expire.
    store.put(5u32.to_be_bytes(), "new").unwrap();
    clock.fetch_add(1_000_000, Ordering::Relaxed);
    assert_eq!(store.get(5u32.to_be_bytes()).unwrap().unwrap(), b"new");
    drop((store, stores, pool));
    let stores = Stores::open_with(&Pool::open_on(medium).unwrap(), options).unwrap();
    let store = stores.existing("sessions").unwrap();
    assert_eq!(store.scan::<&[u8]>(..).count(), 2);
}

#[test]
fn merge_operators_and_conditions() {
    let (pool, _) = dram_pool();
    let stores = Stores::open(&pool).unwrap();
    let plain = stores.store("plain").unwrap();
    assert!(matches!(
        plain.merge("k", "1"),
        Err(StoreError::NoMergeOperator { .. })
    ));
    let list = stores
        .store("list")
        .unwrap()
        .with_merge(|_, old, operand| [old.unwrap_or_default(), operand, b";"].concat());
    list.merge("k", "a").unwrap();
    let mut batch = WriteBatch::new();
    batch.merge(&list, "k", "b").unwrap();
    batch.merge(&list, "k", "c").unwrap();
    batch.delete(&list, "gone").unwrap();
    batch.merge(&list, "gone", "d").unwrap();
    stores.write(batch).unwrap();
    assert_eq!(list.get("k").unwrap().unwrap(), b"a;b;c;");
    assert_eq!(list.get("gone").unwrap().unwrap(), b"d;");
    // An operator that panics writes nothing, and nothing stays behind.
    let fragile = stores
        .store("fragile")
        .unwrap()
        .with_merge(|_, _, _| panic!("by the test"));
    let mut batch = WriteBatch::new();
    batch.put(&plain, "large", vec![1; 200_000]).unwrap();
    batch.merge(&fragile, "k", "1").unwrap();
    assert!(matches!(
        stores.write(batch),
        Err(StoreError::MergePanicked { .. })
    ));
    assert_eq!(plain.get("large").unwrap(), None);
    assert!(plain.compare_and_swap("k", None, Some(b"1")).unwrap());
    assert!(!plain.compare_and_swap("k", None, Some(b"2")).unwrap());
    assert!(!plain.compare_and_swap("k", Some(b"0"), None).unwrap());
    assert!(plain.compare_and_swap("k", Some(b"1"), None).unwrap());
    assert_eq!(plain.get("k").unwrap(), None);
}

#[test]
fn limits_are_kept_and_named() {
    let (pool, _) = dram_pool();
    let stores = Stores::open(&pool).unwrap();
    let store = stores.store("s").unwrap();
    let (key, value) = (vec![1; MAX_KEY], vec![2; MAX_VALUE]);
    store.put(&key, &value).unwrap();
    store.put("", "").unwrap();
    stores.checkpoint().unwrap();
    assert_eq!(store.get(&key).unwrap().unwrap(), value);
    assert_eq!(store.get("").unwrap().unwrap(), b"");
    let longer = vec![1; MAX_KEY + 1];
    assert!(matches!(
        store.put(&longer, ""),
        Err(StoreError::KeyTooLong { len: 1025, .. })
    ));
    assert!(matches!(
        store.delete(&longer),
        Err(StoreError::KeyTooLong { .. })
    ));
    assert_eq!(store.get(&longer).unwrap(), None);
    let longer = vec![1; MAX_VALUE + 1];
    let error = store.put("k", &longer).unwrap_err();
    assert!(error.to_string().contains("store 's'"), "{error}");
    for name in ["", "a\nb", &"x".repeat(256)] {
        assert!(matches!(stores.store(name), Err(StoreError::InvalidName { .. })));
    }
    assert!(matches!(
        stores.existing("t"),
        Err(StoreError::NoSuchStore { .. })
    ));
    // Stores of another pool cannot be mixed in.
    let (other_pool, _) = dram_pool();
    let other = Stores::open(&other_pool).unwrap();
    let foreign = other.store("s").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&foreign, "k", "v").unwrap();
    assert!(matches!(stores.write(batch), Err(StoreError::Foreign { .. })));
    assert!(matches!(
        stores.snapshot().get(&foreign, "k"),
        Err(StoreError::Foreign { .. })
    ));
    let mut transaction = stores.begin();
    transaction.put(&foreign, "k", "v").unwrap();
    assert!(matches!(transaction.commit(), Err(StoreError::Foreign { .. })));
    let again = Stores::open(&pool);
    assert!(matches!(
        again,
        Err(StoreError::Pool(PoolError::SlabInUse { .. }))
    ));
}

#[test]
fn a_dropped_store_is_gone_and_its_space_is_used_again() {
    let (pool, medium) = dram_pool();
    let stores = Stores::open_with(&pool, StoresOptions::default().with_background(false)).unwrap();
    let (kept, dropped) = (stores.store("kept").unwrap(), stores.store("dropped").unwrap());
    kept.put("k", "v").unwrap();
    for key in 0..2000u32 {
        dropped.put(key.to_be_bytes(), [3; 500]).unwrap();
    }
    stores.checkpoint().unwrap();
    let scan = dropped.scan::<&[u8]>(..);
    stores.drop_store("dropped").unwrap();
    assert!(matches!(dropped.get("k"), Err(StoreError::Dropped { .. })));
    assert!(matches!(dropped.put("k", ""), Err(StoreError::Dropped { .. })));
    assert!(
        scan.map(|pair| pair.map(|_| ()))
            .any(|pair| matches!(pair, Err(StoreError::Dropped { .. })))
    );
    stores.reclaim().unwrap();
    let stats = stores.stats();
    assert!(stats.log_bytes < 300_000, "{stats:?}");
    // A new store of the same name is empty, also after a restart.
    assert!(stores.store("dropped").unwrap().is_empty());
    drop((kept, dropped, stores, pool));
    let stores = Stores::open(&Pool::open_on(medium).unwrap()).unwrap();
    assert_eq!(stores.names(), ["dropped", "kept"]);
    assert!(stores.existing("dropped").unwrap().is_empty());
    assert_eq!(stores.existing("kept").unwrap().get("k").unwrap().unwrap(), b"v");
}

#[test]
fn overwrites_do_not_let_the_file_grow() {
    for with_reader in [false, true] {
        let (pool, _) = dram_pool();
        let stores = Stores::open_with(&pool, StoresOptions::default().with_background(false)).unwrap();
        let store = stores.store("s").unwrap();
        let keys = 2000u32;
        let put = |key: u32, round: u32| store.put(key.to_be_bytes(), [round as u8; 1000]).unwrap();
        (0..keys).for_each(|key| put(key, 0));
        let reader = with_reader.then(|| stores.snapshot());
        for round in 1..10 {
            (0..keys).for_each(|at| put(at.wrapping_mul(7919) % keys, round));
            stores.reclaim().unwrap();
        }
        let (stats, versions) = (stores.stats(), 1 + u64::from(with_reader));
        let live = store.bytes() * versions;
        assert!(
            stats.pool_bytes < live * 16 / 10 + (4 << 20),
            "{stats:?}, {live} live bytes"
        );
        if let Some(reader) = reader {
            assert_eq!(
                reader.get(&store, 5u32.to_be_bytes()).unwrap().unwrap(),
                [0; 1000]
            );
            assert_eq!(reader.scan::<&[u8]>(&store, ..).count(), keys as usize);
        }
    }
}

#[test]
fn times_of_expiry_are_returned_with_the_pairs() {
    let (pool, _) = dram_pool();
    let options = StoresOptions::default().with_clock(Arc::new(|| 1_000));
    let stores = Stores::open_with(&pool, options).unwrap();
    let store = stores.store("s").unwrap();
    let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
    let mut batch = WriteBatch::new();
    batch.put(&store, "a", "1").unwrap();
    batch.put_until(&store, "b", "2", at(5_000)).unwrap();
    batch.put_until(&store, "over", "3", at(999)).unwrap();
    stores.write(batch).unwrap();
    store.put_with_ttl("c", "4", Duration::from_millis(7)).unwrap();
    let expected = [("a", None), ("b", Some(at(5_000))), ("c", Some(at(1_007)))];
    let found: Vec<_> = store.scan::<&str>(..).with_expiry().map(Result::unwrap).collect();
    let brief = found
        .iter()
        .map(|pair| (str::from_utf8(&pair.key).unwrap(), pair.expires));
    assert_eq!(brief.collect::<Vec<_>>(), expected);
    let mut back: Vec<_> = store
        .scan::<&str>(..)
        .with_expiry()
        .rev()
        .map(Result::unwrap)
        .collect();
    back.reverse();
    assert_eq!(back, found);
    for pair in found {
        assert_eq!(
            store.look_up(&pair.key).unwrap(),
            StoreLookup::Found(pair.clone())
        );
        assert_eq!(store.get_pair(&pair.key).unwrap(), Some(pair));
    }
    assert_eq!(store.get_pair("over").unwrap(), None);
    assert_eq!(store.look_up("over").unwrap(), StoreLookup::Expired);
    store.delete("over").unwrap();
    for missing in ["over", "other"] {
        assert_eq!(store.look_up(missing).unwrap(), StoreLookup::Missing);
    }
}
