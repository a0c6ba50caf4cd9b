//! Model tests: random operations on every tree and on a `BTreeMap`, with reopening in between, and
//! comparison of all results.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use halocline_media::Dram;
use halocline_ordered::{
    LbOptions, LbTree, OrderedIndex, Range, TreeError, TreeKind, create_tree_in, open_tree,
};
use halocline_pool::Pool;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

type Model = BTreeMap<u64, u64>;

/// A tree under test: all kinds, and variants of them.
#[derive(Debug, Clone, Copy)]
enum Tree {
    Kind(TreeKind),
    /// An LB+-Tree without entry moving.
    Still,
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tree::Kind(kind) => kind.fmt(f),
            Tree::Still => f.write_str("lb, nothing moved"),
        }
    }
}

impl Tree {
    const CHUNK: u64 = 8 << 10;

    const STILL: LbOptions = LbOptions {
        moving: false,
        chunk: Tree::CHUNK,
    };

    fn create(self, pool: &Pool) -> Box<dyn OrderedIndex> {
        match self {
            Tree::Kind(kind) => create_tree_in(pool, "tree", kind, Tree::CHUNK).unwrap(),
            Tree::Still => Box::new(<LbTree>::create(pool, "tree", Tree::STILL).unwrap()),
        }
    }

    fn open(self, pool: &Pool) -> Box<dyn OrderedIndex> {
        match self {
            Tree::Kind(_) => open_tree(pool, "tree").unwrap(),
            Tree::Still => Box::new(<LbTree>::open(pool, "tree", Tree::STILL).unwrap()),
        }
    }
}

fn trees() -> impl Iterator<Item = Tree> {
    TreeKind::ALL
        .iter()
        .map(|kind| Tree::Kind(*kind))
        .chain([Tree::Still])
}

fn pool() -> Pool {
    Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap()
}

/// Compares the whole tree with the model in every way.
fn compare(tree: &dyn OrderedIndex, model: &Model, context: impl fmt::Display) {
    let report = tree.check().unwrap();
    assert!(report.is_intact(), "{context}: {:?}", report.problems);
    let count = model.len() as u64;
    assert_eq!((report.entries, tree.len()), (count, count), "{context}");
    let up: Vec<(u64, u64)> = Range::new(tree, ..).map(Result::unwrap).collect();
    let wanted = model.iter().map(|(key, value)| (*key, *value));
    assert!(up.iter().copied().eq(wanted), "{context}");
    let down: Vec<(u64, u64)> = Range::new(tree, ..).rev().map(Result::unwrap).collect();
    assert!(down.iter().rev().eq(up.iter()), "{context}");
    let keys: Vec<u64> = up
        .iter()
        .flat_map(|(key, _)| [*key, key.wrapping_add(1)])
        .collect();
    let mut values = vec![None; keys.len()];
    tree.get_batch(&keys, &mut values).unwrap();
    for (key, value) in keys.iter().zip(values) {
        assert_eq!(value, model.get(key).copied(), "{context}, key {key}");
        assert_eq!(tree.get(*key).unwrap(), value, "{context}, key {key}");
    }
}

fn ranges(tree: &dyn OrderedIndex, model: &Model, rng: &mut StdRng) {
    let (a, b) = (rng.random::<u64>(), rng.random::<u64>());
    let (low, high) = (a.min(b), a.max(b));
    let mut range = Range::new(tree, low..high);
    let mut wanted = model.range(low..high).map(|(key, value)| (*key, *value));
    loop {
        let (found, expected) = if rng.random_bool(0.5) {
            (range.next(), wanted.next())
        } else {
            (range.next_back(), wanted.next_back())
        };
        assert_eq!(found.map(Result::unwrap), expected);
        if expected.is_none() {
            break;
        }
    }
    let count = rng.random_range(0..40);
    let mut some = Vec::new();
    tree.scan(low, count, &mut some).unwrap();
    let all: Vec<_> = model.range(low..).map(|(key, value)| (*key, *value)).collect();
    assert!(all.starts_with(&some) && some.len() >= count.min(all.len()));
}

/// Runs random operations on `keys` keys, whose number present grows and shrinks alternately.
fn run(kind: Tree, keys: u64, operations: usize, seed: u64) {
    let context = format!("{kind}, seed {seed}, {keys} keys");
    let mut rng = StdRng::seed_from_u64(seed);
    let pool = pool();
    let mut tree = kind.create(&pool);
    let mut model = Model::new();
    let spread = u64::MAX / keys;
    for step in 0..operations {
        let key = rng.random_range(0..=keys) * spread;
        let value = rng.random::<u64>();
        let growing = (step / (operations / 5).max(1)).is_multiple_of(2);
        match rng.random_range(0..100) {
            0..50 if growing => {
                let fresh = tree.insert(key, value).unwrap();
                assert_eq!(fresh, !model.contains_key(&key), "{context}, step {step}");
                model.entry(key).or_insert(value);
            }
            0..55 => {
                let removed = tree.remove(key).unwrap();
                assert_eq!(removed, model.remove(&key), "{context}, step {step}");
            }
            55..70 => {
                let before = tree.update(key, value).unwrap();
                assert_eq!(before, model.get(&key).copied(), "{context}, step {step}");
                model.entry(key).and_modify(|old| *old = value);
            }
            70..75 => {
                let before = tree.upsert(key, value).unwrap();
                assert_eq!(before, model.insert(key, value), "{context}, step {step}");
            }
            75..99 => {
                let found = tree.get(key).unwrap();
                assert_eq!(found, model.get(&key).copied(), "{context}, step {step}");
            }
            _ => ranges(&*tree, &model, &mut rng),
        }
        if step % (operations / 8).max(1) == 0 {
            compare(&*tree, &model, format!("{context}, step {step}"));
            drop(tree);
            tree = kind.open(&pool);
            compare(&*tree, &model, format!("{context}, step {step}, reopened"));
        }
    }
    for key in model.keys() {
        assert!(tree.remove(*key).unwrap().is_some(), "{context}");
    }
    compare(&*tree, &Model::new(), &context);
    let stats = tree.stats();
    assert!(
        stats.leaves <= 3 && stats.inner_nodes <= 3,
        "empty leaves are given back, {context}: {stats:?}"
    );
}

#[test]
fn random_operations() {
    for kind in trees() {
        for (keys, operations, seed) in [(8, 500, 1), (100, 4_000, 2), (3_000, 40_000, 3)] {
            run(kind, keys, operations, seed);
        }
    }
}

#[test]
fn keys_in_order_and_at_the_ends() {
    for kind in trees() {
        let pool = pool();
        let tree = kind.create(&pool);
        let mut model = Model::new();
        let ends = [0, u64::MAX, 1, u64::MAX - 1];
        let keys = ends.into_iter().chain((0..3_000).map(|key| 1_000 + key));
        for key in keys.chain((0..3_000).map(|key| u64::MAX - 5_000 - key)) {
            assert!(tree.insert(key, !key).unwrap());
            model.insert(key, !key);
        }
        compare(&*tree, &model, kind);
        for key in ends.into_iter().chain(2_000..3_500) {
            assert_eq!(tree.remove(key).unwrap(), model.remove(&key));
        }
        compare(&*tree, &model, kind);
        drop(tree);
        compare(&*kind.open(&pool), &model, kind);
    }
}

#[test]
fn old_keys_go_as_new_ones_come() {
    for kind in trees() {
        let pool = pool();
        let tree = kind.create(&pool);
        let mut least = u64::MAX;
        for key in 0..60_000_u64 {
            tree.insert(key, key).unwrap();
            if key >= 2_000 {
                assert_eq!(tree.remove(key - 2_000).unwrap(), Some(key - 2_000));
            }
            if key > 30_000 && key.is_multiple_of(5_000) {
                least = least.min(tree.stats().leaves);
            }
        }
        let stats = tree.stats();
        assert!(
            stats.leaves <= least + least / 4,
            "{kind}: {stats:?}, {least} leaves before"
        );
        assert!(stats.inner_nodes <= stats.leaves, "{kind}: {stats:?}");
        assert!(tree.check().unwrap().is_intact());
    }
}

#[test]
fn bulk_loads() {
    for kind in trees() {
        for (count, fill) in [
            (0, 1.0),
            (1, 0.5),
            (13, 0.7),
            (14, 1.0),
            (15, 1.0),
            (5_000, 0.8),
            (501, 0.0),
        ] {
            let pool = pool();
            let mut tree = kind.create(&pool);
            let mut model: Model = (0..count).map(|key| (key * 3 + 5, key)).collect();
            let mut entries = model.iter().map(|(key, value)| (*key, *value));
            assert_eq!(tree.bulk_load(&mut entries, fill).unwrap(), count);
            compare(&*tree, &model, kind);
            drop(tree);
            let tree = kind.open(&pool);
            compare(&*tree, &model, kind);
            for key in (0..3 * count).step_by(2) {
                tree.upsert(key, 7).unwrap();
                model.insert(key, 7);
            }
            compare(&*tree, &model, kind);
        }
    }
}

#[test]
fn bulk_loads_that_are_refused_leave_nothing() {
    for kind in trees() {
        let pool = pool();
        let mut tree = kind.create(&pool);
        let used = tree.stats().leaves;
        let mut entries = (0..1_000).chain([500]).map(|key| (key, key));
        let error = tree.bulk_load(&mut entries, 1.0).unwrap_err();
        let place = matches!(
            error,
            TreeError::NotSorted {
                position: 1_000,
                key: 500,
                before: 999
            }
        );
        assert!(place, "{kind}: {error}");
        assert_eq!(tree.stats().leaves, used, "{kind}");
        compare(&*tree, &Model::new(), kind);
        tree.insert(3, 4).unwrap();
        let error = tree
            .bulk_load(&mut (0..10).map(|key| (key, key)), 1.0)
            .unwrap_err();
        assert!(
            matches!(error, TreeError::NotEmpty { entries: 1, .. }),
            "{kind}: {error}"
        );
        compare(&*tree, &Model::from([(3, 4)]), kind);
    }
}
