//! A frozen pool of an earlier version with a tree of each kind, which must open and hold its contents.
//! It is never regenerated.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use halocline_ordered::{Range, TreeKind, create_tree_in, open_tree, trees};
use halocline_pool::{Pool, PoolOptions};

/// The kinds of trees in the pool. Later kinds get a pool of their own.
const KINDS: [TreeKind; 6] = [
    TreeKind::Lb,
    TreeKind::Lb2,
    TreeKind::Lb4,
    TreeKind::Fp,
    TreeKind::FastFair,
    TreeKind::Wb,
];

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v3-trees.pool.zst")
}

/// Applies the operations with which each tree was filled. The pool was made with these, so they must
/// not change.
fn fill(mut step: impl FnMut(u64, Option<u64>)) {
    for number in 0..900 {
        step(number * 7_919 % 10_007, Some(number));
    }
    // Some leaves become empty.
    for key in (2_000..3_000).chain((0..10_007).step_by(3)) {
        step(key, None);
    }
    for number in 0..100 {
        step(number * 7_919 % 10_007, Some(number << 40));
    }
    step(u64::MAX, Some(u64::MAX));
}

fn expected() -> BTreeMap<u64, u64> {
    let mut entries = BTreeMap::new();
    fill(|key, value| match value {
        Some(value) => drop(entries.insert(key, value)),
        None => drop(entries.remove(&key)),
    });
    entries
}

#[test]
fn trees_of_an_earlier_program_hold_what_they_held() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let packed = fs::read(file()).unwrap();
    fs::write(&path, zstd::decode_all(&*packed).unwrap()).unwrap();
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    assert!(pool.check(|_| ()).unwrap().is_intact());
    assert_eq!(trees(&pool).unwrap().len(), KINDS.len());
    let expected = expected();
    for kind in KINDS {
        let tree = open_tree(&pool, &format!("tree/{kind}")).unwrap();
        let report = tree.check().unwrap();
        assert!(report.is_intact(), "{kind}: {:?}", report.problems);
        let found: Result<BTreeMap<u64, u64>, _> = Range::new(&*tree, ..).collect();
        assert!(found.unwrap() == expected, "{kind}");
        assert_eq!(tree.len(), expected.len() as u64);
        // The tree can be written.
        for key in 20_000..20_500 {
            assert!(tree.insert(key, 1).unwrap());
        }
        for key in expected.keys() {
            assert_eq!(tree.remove(*key).unwrap(), Some(expected[key]), "{kind}");
        }
        assert!(tree.check().unwrap().is_intact());
        assert_eq!(tree.len(), 500);
    }
}

#[test]
#[ignore = "golden pools are made once"]
fn make() {
    assert!(!file().exists(), "a golden pool is never made again");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    for kind in KINDS {
        let tree = create_tree_in(&pool, &format!("tree/{kind}"), kind, 8 << 10).unwrap();
        fill(|key, value| match value {
            Some(value) => drop(tree.upsert(key, value).unwrap()),
            None => drop(tree.remove(key).unwrap()),
        });
    }
    pool.sync().unwrap();
    pool.close().unwrap();
    fs::create_dir_all(file().parent().unwrap()).unwrap();
    let packed = zstd::encode_all(&*fs::read(&path).unwrap(), 19).unwrap();
    fs::write(file(), packed).unwrap();
}
