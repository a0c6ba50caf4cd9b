//! Trees of items against a model: random changes, flushes and openings, with keys that share hashes.

#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use halocline_media::{Counting, Dram};
use halocline_pool::PoolOptions;

use super::*;
use crate::MemcachedError;
use crate::random::{Random, seed};

const NOW: u64 = 1_000;

fn pool() -> Pool {
    Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap()
}

fn open(pool: &Pool, kind: TreeKind, hash: fn(&[u8]) -> u64) -> TreeStorage {
    let options = TreeStorageOptions { chunk: 4096, hash };
    TreeStorage::open(pool, kind, Arc::new(|| NOW), options).unwrap()
}

fn put(items: &dyn ItemGeneration, key: &[u8], value: &[u8], expires: Option<u64>) {
    items.write(&[ItemChange::Put { key, value, expires }]).unwrap();
}

fn value(items: &dyn ItemGeneration, key: &[u8]) -> Option<Vec<u8>> {
    items.get(key).unwrap().map(|item| item.value)
}

fn reclaim(storage: &TreeStorage) {
    while storage.reclaim().unwrap() {}
}

/// Returns the bytes of the nodes that the items need.
fn needed(storage: &TreeStorage) -> u64 {
    let mut needed = 0;
    let sum = &mut |item: ScannedItem<'_>| {
        needed += storage.footprint(item.key.len(), item.value_bytes);
        Ok(true)
    };
    storage.current().unwrap().scan(sum).unwrap();
    needed
}

#[test]
fn random_changes_agree_with_a_model() {
    let mut random = Random::new(seed());
    for kind in [TreeKind::Lb, TreeKind::Fp, TreeKind::Wb, TreeKind::FastFair] {
        let pool = pool();
        let hash = |key: &[u8]| xxh3_64(key) % 20;
        let mut storage = open(&pool, kind, hash);
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for step in 0..1500 {
            let items = storage.current().unwrap();
            let key = format!("key{}", random.below(60)).into_bytes();
            match random.below(100) {
                0..10 => {
                    let keys: Vec<_> = (0..random.below(8))
                        .map(|_| format!("key{}", random.below(60)).into_bytes())
                        .collect();
                    let data = vec![random.below(256) as u8; random.below(2000) as usize];
                    let changes: Vec<_> = keys
                        .iter()
                        .map(|key| match random.below(3) {
                            0 => ItemChange::Delete { key },
                            _ => ItemChange::Put {
                                key,
                                value: &data,
                                expires: None,
                            },
                        })
                        .collect();
                    assert!(
                        matches!(items.write_in_order(&changes), (made, Ok(())) if made == changes.len())
                    );
                    for change in changes {
                        match change {
                            ItemChange::Put { key, value, .. } => {
                                _ = model.insert(key.to_vec(), value.to_vec())
                            }
                            ItemChange::Delete { key } => _ = model.remove(key),
                        }
                    }
                }
                10..60 => {
                    let most = if random.below(20) == 0 { 200_000 } else { 600 };
                    let data = vec![random.below(256) as u8; random.below(most) as usize];
                    put(&*items, &key, &data, None);
                    model.insert(key, data);
                }
                60..85 => {
                    items.write(&[ItemChange::Delete { key: &key }]).unwrap();
                    model.remove(&key);
                }
                85..94 => assert_eq!(value(&*items, &key), model.get(&key).cloned()),
                94..96 => _ = storage.reclaim().unwrap(),
                96 => {
                    storage.flush().unwrap();
                    model.clear();
                }
                97 => {
                    reclaim(&storage);
                    assert_eq!(storage.stats().live_bytes, needed(&storage), "step {step}");
                    assert_eq!(items.footprint(), needed(&storage));
                    let bytes: usize = model.iter().map(|(key, data)| key.len() + data.len()).sum();
                    assert_eq!((items.len(), items.bytes()), (model.len() as u64, bytes as u64));
                }
                _ => {
                    drop(items);
                    drop(storage);
                    storage = open(&pool, kind, hash);
                }
            }
        }
        let items = storage.current().unwrap();
        let mut found = BTreeMap::new();
        let visit = &mut |item: ScannedItem<'_>| {
            found.insert(item.key.to_vec(), value(&*items, item.key).unwrap());
            Ok(true)
        };
        items.scan(visit).unwrap();
        assert_eq!(found, model, "{kind}");
    }
}

#[test]
fn items_that_expire_are_removed_in_the_background() {
    let pool = pool();
    let storage = open(&pool, TreeKind::Lb, |key| xxh3_64(key) % 3);
    let items = storage.current().unwrap();
    for number in 0..20_u8 {
        put(&*items, &[number], b"x", Some(NOW + u64::from(number % 2)));
    }
    reclaim(&storage);
    assert_eq!(items.len(), 10);
    assert!((0..20).all(|number| value(&*items, &[number]).is_some() == (number % 2 == 1)));
    assert_eq!(storage.stats().live_bytes, needed(&storage));
}

#[test]
fn a_damaged_record_costs_its_item_alone_and_is_an_error() {
    let pool = pool();
    let storage = open(&pool, TreeKind::Lb, xxh3_64);
    let items = storage.current().unwrap();
    for key in [b"a", b"b", b"c"] {
        put(&*items, key, b"value", None);
    }
    let damage = |key: &[u8]| {
        let offset = storage
            .generations()
            .current
            .tree
            .get(xxh3_64(key))
            .unwrap()
            .unwrap();
        storage.shared.slabs.medium().store(offset + 40, &[99]);
    };
    damage(b"a");
    damage(b"b");
    assert!(matches!(
        items.get(b"a"),
        Err(MemcachedError::DamagedRecord { .. })
    ));
    put(&*items, b"a", b"new", None);
    assert_eq!(value(&*items, b"a").unwrap(), b"new");
    drop((items, storage));
    let storage = open(&pool, TreeKind::Lb, xxh3_64);
    reclaim(&storage);
    let items = storage.current().unwrap();
    let is_damaged = |key: &[u8]| matches!(items.get(key), Err(MemcachedError::DamagedRecord { .. }));
    assert!(is_damaged(b"b"), "no miss");
    assert_eq!(value(&*items, b"c").unwrap(), b"value");
    // The node of the damaged record is in use until the next opening finds that no link leads to it.
    assert_eq!(storage.stats().live_bytes, needed(&storage) + 256);
    (0..40_u8).for_each(|key| put(&*items, &[b'x', key], b"other", None));
    assert!(is_damaged(b"b"), "no miss");
    put(&*items, b"b", b"again", None);
    assert_eq!(value(&*items, b"b").unwrap(), b"again");
    drop((items, storage));
    let storage = open(&pool, TreeKind::Lb, xxh3_64);
    reclaim(&storage);
    assert_eq!(storage.stats().live_bytes, needed(&storage));
}

/// A damaged link may lead to a free node. What is stored there later is neither freed nor lost.
#[test]
fn a_link_to_a_free_node_is_replaced() {
    let pool = pool();
    let storage = open(&pool, TreeKind::Lb, xxh3_64);
    let items = storage.current().unwrap();
    put(&*items, b"a", b"value", None);
    let generation = Arc::clone(&storage.generations().current);
    let hash = xxh3_64(b"a");
    let node = generation.tree.get(hash).unwrap().unwrap();
    storage.shared.slabs.free_nodes(0, [node]);
    put(&*items, b"a", b"new", None);
    assert_eq!(
        generation.tree.get(hash).unwrap(),
        Some(node),
        "the node is used again"
    );
    (0..40_u8).for_each(|key| put(&*items, &[b'x', key], b"other", None));
    assert_eq!(value(&*items, b"a").unwrap(), b"new");
}

/// Every bit of a record, of links and of entries of the tree: an answer is right or an error, and a check
/// finds whatever is damaged.
#[test]
fn checks_find_damaged_and_misplaced_records() {
    let pool = pool();
    let storage = open(&pool, TreeKind::Lb, xxh3_64);
    let items = storage.current().unwrap();
    let (small, large) = (vec![1; 300], vec![2; 200_000]);
    for key in [b"a", b"b", b"c", b"d"] {
        put(&*items, key, if key == b"d" { &large } else { &small }, None);
    }
    let generation = Arc::clone(&storage.generations().current);
    let offsets = [b"a", b"b", b"c", b"d"].map(|key| generation.tree.get(xxh3_64(key)).unwrap().unwrap());
    drop((items, generation, storage));
    let problems = || {
        check_items(&pool, &mut |_| ControlFlow::Continue(()))
            .unwrap()
            .problems
    };
    assert_eq!(problems(), []);
    let medium = {
        let slab = pool.open_slab_read_only("memcached/records/256", *b"mcrecord");
        slab.unwrap().slab().medium().clone()
    };
    let flip = |at: u64, bits: u8| {
        let mut byte = [0];
        medium.load(at, &mut byte);
        medium.store(at, &[byte[0] ^ bits]);
    };
    for (record, len) in [(offsets[0], 48 + 1 + 300), (offsets[3], 48 + 24 + 1 + 100)] {
        for at in (0..len).filter(|at| *at < 80 || at % 17 == 0) {
            for bit in [1, 16, 128] {
                flip(record + at, bit);
                let found = problems();
                assert!(
                    found.iter().any(|problem| problem.offset == record),
                    "byte {at}: {found:?}"
                );
                flip(record + at, bit);
            }
        }
    }
    // A record in the place of another one, and both exchanged.
    let load = |at: u64| {
        let mut bytes = vec![0; 512];
        medium.load(at, &mut bytes);
        bytes
    };
    let (first, second) = (load(offsets[0]), load(offsets[1]));
    medium.store(offsets[0], &second);
    assert_eq!(problems().len(), 1);
    medium.store(offsets[1], &first);
    assert_eq!(problems().len(), 2);
    let storage = open(&pool, TreeKind::Lb, xxh3_64);
    reclaim(&storage);
    let items = storage.current().unwrap();
    for key in [b"a", b"b"] {
        assert!(matches!(
            items.get(key),
            Err(MemcachedError::DamagedRecord { .. })
        ));
    }
    for (key, expected) in [(b"c", &small), (b"d", &large)] {
        assert_eq!(value(&*items, key).as_ref(), Some(expected));
    }
}

/// Links that lead in a circle end.
#[test]
fn circles_of_links_are_damage() {
    let pool = pool();
    let storage = open(&pool, TreeKind::Lb, |_| 7);
    let items = storage.current().unwrap();
    (0..5_u8).for_each(|key| put(&*items, &[key], b"value", None));
    let first = storage.generations().current.tree.get(7).unwrap().unwrap();
    let medium = storage.shared.slabs.medium();
    let (mut last, mut next) = (first, Some(first));
    while let Some(offset) = next {
        last = offset;
        next = record::load_head(medium, offset).unwrap().next;
    }
    record::store_next(medium, last, Some(first));
    assert!(matches!(
        items.get(b"absent"),
        Err(MemcachedError::DamagedRecord { .. })
    ));
    assert_eq!(value(&*items, &[0]).unwrap(), b"value");
    drop((items, storage));
    let storage = open(&pool, TreeKind::Lb, |_| 7);
    reclaim(&storage);
    let items = storage.current().unwrap();
    assert!(items.get(b"absent").is_err());
    put(&*items, b"absent", b"new", None);
    assert_eq!(value(&*items, b"absent").unwrap(), b"new");
}

#[test]
fn opening_reads_no_record() {
    let pool = pool();
    let storage = open(&pool, TreeKind::Lb, xxh3_64);
    let items = storage.current().unwrap();
    (0..200_u8).for_each(|key| put(&*items, &[key], &[key; 100], None));
    drop((items, storage));
    let storage = open(&pool, TreeKind::Lb, xxh3_64);
    let items = storage.current().unwrap();
    assert_eq!(items.len(), 0, "no item was counted");
    assert_eq!(value(&*items, &[7]).unwrap(), [7; 100]);
    put(&*items, &[7], b"new", None);
    reclaim(&storage);
    assert_eq!((items.len(), items.bytes()), (200, 199 * 101 + 4));
}

#[test]
fn openings_in_a_row_take_no_ever_more_space() {
    let pool = pool();
    let mut sizes = Vec::new();
    for round in 0..60 {
        // Nothing is done in the background before the next opening.
        let storage = open(&pool, TreeKind::Lb, xxh3_64);
        let items = storage.current().unwrap();
        for change in 0..40 {
            put(&*items, &[change], &[round; 100], None);
        }
        sizes.push(storage.stats().pool_bytes);
    }
    assert_eq!(sizes[20], sizes[59], "{sizes:?}");
    let storage = open(&pool, TreeKind::Lb, xxh3_64);
    let items = storage.current().unwrap();
    assert!((0..40).all(|key| value(&*items, &[key]).unwrap() == [59; 100]));
}

#[test]
fn a_full_pool_keeps_what_it_has() {
    let medium = Dram::with_reserve(0, 16 << 20).unwrap();
    let pool = Pool::create_on(Arc::new(medium)).unwrap();
    let storage = open(&pool, TreeKind::Lb, xxh3_64);
    let items = storage.current().unwrap();
    let value_of = |number: u32| vec![number as u8; 1 + number as usize * 37 % 5000];
    let mut stored = 0_u32;
    let error = loop {
        let (key, value) = (stored.to_le_bytes(), value_of(stored));
        let put = ItemChange::Put {
            key: &key,
            value: &value,
            expires: None,
        };
        match items.write(&[put]) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, MemcachedError::Pool(_)), "{error}");
    assert!(stored > 1000);
    for number in 0..stored {
        assert_eq!(value(&*items, &number.to_le_bytes()).unwrap(), value_of(number));
    }
    assert_eq!(storage.stats().live_bytes, needed(&storage));
    let key = 0_u32.to_le_bytes();
    items.write(&[ItemChange::Delete { key: &key }]).unwrap();
    put(&*items, &key, b"x", None);
}

#[test]
fn a_group_in_a_full_pool_is_stored_as_far_as_there_is_room() {
    let medium = Dram::with_reserve(0, 16 << 20).unwrap();
    let pool = Pool::create_on(Arc::new(medium)).unwrap();
    // The tree has its final size long before the pool is full.
    let storage = open(&pool, TreeKind::Lb, |key| xxh3_64(key) % 500);
    let items = storage.current().unwrap();
    let (old, new) = ([1; 4000], [2; 4000]);
    let put_of = |key, value| ItemChange::Put {
        key,
        value,
        expires: None,
    };
    let keys: Vec<[u8; 4]> = (0..5000_u32).map(u32::to_le_bytes).collect();
    let all: Vec<_> = keys.iter().map(|key| put_of(key, &old)).collect();
    let (stored, result) = items.write_in_order(&all);
    assert!(matches!(result, Err(MemcachedError::Pool(_))), "{result:?}");
    assert!((1000..keys.len()).contains(&stored), "{stored} items, {result:?}");
    assert_eq!(items.len(), stored as u64);
    // The one that leaves makes room for that which follows it.
    let changes = [
        ItemChange::Delete { key: &keys[0] },
        put_of(&keys[1], &new),
        put_of(&keys[2], &new),
        put_of(&keys[0], &new),
        put_of(&keys[3], &new),
    ];
    let (made, result) = items.write_in_order(&changes);
    assert_eq!(made, 4, "{result:?}");
    assert!(matches!(result, Err(MemcachedError::Pool(_))));
    for (key, expected) in [(0, new), (1, new), (2, new), (3, old)] {
        assert_eq!(value(&*items, &keys[key]).unwrap(), expected);
    }
    assert_eq!(storage.stats().live_bytes, needed(&storage));
}

#[test]
fn readers_see_whole_items_while_others_replace_them() {
    let pool = pool();
    for hash in [xxh3_64 as fn(&[u8]) -> u64, |key| xxh3_64(key) % 2] {
        let storage = open(&pool, TreeKind::Lb, hash);
        let items = storage.current().unwrap();
        let keys: Vec<[u8; 1]> = (0..4).map(|number| [number]).collect();
        keys.iter().for_each(|key| put(&*items, key, &[0; 300], None));
        drop((items, storage));
        // The nodes in use are found out meanwhile.
        let storage = open(&pool, TreeKind::Lb, hash);
        let items = storage.current().unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let writers: Vec<_> = (0..2_u8)
                .map(|writer| {
                    let (items, keys) = (&items, &keys);
                    scope.spawn(move || {
                        for round in 0..2000_usize {
                            let key = &keys[(round + usize::from(writer)) % keys.len()];
                            put(&**items, key, &vec![round as u8; 100 + round % 400], None);
                        }
                    })
                })
                .collect();
            let reader = scope.spawn(|| {
                while !done.load(Relaxed) {
                    for key in &keys {
                        let found = value(&*items, key).unwrap();
                        assert!(found.iter().all(|byte| *byte == found[0]));
                    }
                }
            });
            reclaim(&storage);
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            done.store(true, Relaxed);
            reader.join().unwrap();
        });
        assert_eq!(items.len(), 4);
        reclaim(&storage);
        assert_eq!(storage.stats().live_bytes, needed(&storage));
        storage.flush().unwrap();
        drop(items);
        reclaim(&storage);
        assert_eq!(storage.stats().live_bytes, 0);
    }
}

/// The trees differ in what a new item costs, in the order of the LB+-Tree paper. Replacing one changes a
/// word or an entry in each of them.
#[test]
fn trees_rank_by_the_lines_that_a_new_item_costs() {
    const ITEMS: u32 = 20_000;
    let mut costs = Vec::new();
    for kind in [TreeKind::Lb, TreeKind::Fp, TreeKind::Wb, TreeKind::FastFair] {
        let counting = Arc::new(Counting::new(Dram::new(0).unwrap()));
        let pool = Pool::create_on(Arc::clone(&counting)).unwrap();
        let clock: Clock = Arc::new(|| NOW);
        let storage = TreeStorage::open(&pool, kind, clock, TreeStorageOptions::default()).unwrap();
        let items = storage.current().unwrap();
        let cost = || {
            let before = counting.counts();
            (0..ITEMS).for_each(|number| put(&*items, &number.to_le_bytes(), &[1; 100], None));
            let counts = counting.counts() - before;
            [counts.lines, counts.fences].map(|count| count as f64 / f64::from(ITEMS))
        };
        let (new, replaced) = (cost(), cost());
        println!("{kind}: lines and fences of a new item {new:.2?}, of a replaced one {replaced:.2?}");
        costs.push((new, replaced));
    }
    let is_ascending = |at: usize| costs.is_sorted_by(|(less, _), (more, _)| less[at] < more[at]);
    assert!(is_ascending(0) && is_ascending(1), "{costs:?}");
    // A record of three lines and its fence, and at most as much for the link.
    assert!(
        costs
            .iter()
            .all(|(_, [lines, fences])| *lines <= 5.0 && *fences <= 3.0)
    );
}

/// A single change would still trust that the file is there.
#[test]
fn changes_together_are_refused_as_soon_as_the_file_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let storage = open(&pool, TreeKind::Lb, xxh3_64);
    let items = storage.current().unwrap();
    pool.check_place(Duration::ZERO).unwrap();
    std::fs::remove_file(&path).unwrap();
    let changes = [b"a", b"b"].map(|key| ItemChange::Put {
        key,
        value: b"value",
        expires: None,
    });
    let written = items.write_in_order(&changes);
    assert!(
        matches!(
            written,
            (0, Err(MemcachedError::Pool(PoolError::FileGone { .. })))
        ),
        "{written:?}"
    );
    assert_eq!(items.len(), 0);
}
