//! A cache of hot keys in front of an index, beside a `BTreeMap`: the cache must never show.

use std::collections::BTreeMap;
use std::sync::Arc;

use halocline_cache::CacheError;
use halocline_media::Dram;
use halocline_ordered::{HotIndex, HotIndexOptions, HotMode, OrderedIndex, Range, TreeKind, create_tree};
use halocline_pool::Pool;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn index(kind: TreeKind, options: HotIndexOptions) -> HotIndex {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    HotIndex::new(create_tree(&pool, "tree", kind).unwrap(), options).unwrap()
}

/// Caches of a few hundred pairs, which are in use from the start.
fn small(mode: HotMode) -> HotIndexOptions {
    HotIndexOptions::default()
        .with_mode(mode)
        .with_bytes(32 << 10)
        .with_period(1_000)
        .with_always_on(true)
}

/// Runs random operations, most of them on few keys, on an index and on a map.
fn agrees(index: &HotIndex, keys: u64, seed: u64) {
    let mut model = BTreeMap::new();
    let mut rng = StdRng::seed_from_u64(seed);
    for step in 0..60_000_u64 {
        let range = if rng.random_bool(0.8) { keys / 10 } else { keys };
        let key = rng.random_range(0..range.max(1));
        match rng.random_range(0..20) {
            0..3 => {
                let is_new = !model.contains_key(&key);
                assert_eq!(index.insert(key, step).unwrap(), is_new, "seed {seed}");
                model.entry(key).or_insert(step);
            }
            3 => assert_eq!(
                index.upsert(key, step).unwrap(),
                model.insert(key, step),
                "seed {seed}"
            ),
            4 => {
                let before = model.get_mut(&key).map(|value| std::mem::replace(value, step));
                assert_eq!(index.update(key, step).unwrap(), before, "seed {seed}");
            }
            5 => assert_eq!(index.remove(key).unwrap(), model.remove(&key), "seed {seed}"),
            6 => {
                let keys: Vec<u64> = (0..150).map(|at| (key + at) % keys).collect();
                let mut values = vec![Some(u64::MAX); keys.len()];
                index.get_batch(&keys, &mut values).unwrap();
                let expected: Vec<Option<u64>> = keys.iter().map(|key| model.get(key).copied()).collect();
                assert_eq!(values, expected, "seed {seed}");
            }
            _ => assert_eq!(index.get(key).unwrap(), model.get(&key).copied(), "seed {seed}"),
        }
    }
    let all: Vec<(u64, u64)> = Range::new(index, ..).map(Result::unwrap).collect();
    assert!(all.into_iter().eq(model.clone()), "seed {seed}");
    assert_eq!(index.len(), model.len() as u64);
    assert!(index.check().unwrap().is_intact());
}

#[test]
fn both_modes_agree_with_a_map() {
    for mode in HotMode::ALL {
        for (number, kind) in TreeKind::ALL.iter().enumerate() {
            agrees(&index(*kind, small(*mode)), 3_000, number as u64);
        }
    }
}

#[test]
fn an_adaptive_cache_agrees_while_its_gate_opens_and_closes() {
    let options = HotIndexOptions::default().with_bytes(1 << 20);
    agrees(&index(TreeKind::Lb, options), 100_000, 7);
}

#[test]
fn hot_keys_are_cached_within_the_budget() {
    for mode in HotMode::ALL {
        let index = index(TreeKind::Fp, small(*mode));
        for key in 0..10_000 {
            index.insert(key, key).unwrap();
        }
        for round in 0..1_000 {
            for key in 0..100 {
                index.get(key * 7).unwrap();
            }
            index.get(5_000 + round).unwrap();
        }
        let stats = index.hot_stats();
        assert!((90..=stats.capacity).contains(&stats.pairs), "{mode}: {stats:?}");
        assert!(stats.bytes <= small(*mode).bytes, "{mode}: {stats:?}");
        assert!(stats.is_on);
        assert!(index.stats().dram_bytes >= stats.bytes);
    }
}

#[test]
fn a_budget_without_room_for_a_pair_is_an_error() {
    for mode in HotMode::ALL {
        let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
        let tree = create_tree(&pool, "tree", TreeKind::Lb).unwrap();
        let options = HotIndexOptions::default().with_mode(*mode).with_bytes(100);
        let error = HotIndex::new(tree, options).err().unwrap();
        assert!(
            matches!(error, CacheError::BudgetTooSmall { bytes: 100, .. }),
            "{error}"
        );
    }
}
