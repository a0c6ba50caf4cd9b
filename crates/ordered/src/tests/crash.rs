//! Explores every crash of small workloads, each with every flush and fence left out, and samples of
//! long random ones.

use std::sync::Arc;

use halocline_explore::{Crash, Explorer, Tracked};
use halocline_pool::{Pool, PoolError};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::images;
use super::workload::{Do, Kind, TreeContents, contents, explore, survives};
use crate::TreeError;

/// Maximum number of images per crash point that are explored exhaustively.
pub(crate) const LIMIT: usize = 600;

pub(crate) fn inserts(keys: impl IntoIterator<Item = u64>) -> Vec<Do> {
    keys.into_iter().map(Do::Insert).collect()
}

/// Checks that no flush or fence can be left out unnoticed, except for `others` whose work is done
/// elsewhere.
pub(crate) fn all_needed_but<K: Kind>(others: usize, setup: &[Do], operations: &[Do]) {
    let report = explore::<K>(LIMIT, setup, operations);
    assert!(report.missed.len() <= others, "{report}");
}

/// Returns the keys in pseudorandom order.
fn shuffled(keys: impl IntoIterator<Item = u64>, seed: u64) -> Vec<u64> {
    let mut keys: Vec<u64> = keys.into_iter().collect();
    keys.shuffle(&mut StdRng::seed_from_u64(seed));
    keys
}

/// Explores the creation of a tree: it exists and is empty afterwards, does not exist before, and can
/// be created or opened at any time in between.
pub(crate) fn creation<K: Kind>() {
    let check = |medium: Arc<Tracked>, crash: &Crash<'_>| {
        let pool = Pool::open_on(medium).map_err(|error| error.to_string())?;
        let tree = match K::open(&pool) {
            Ok(tree) => tree,
            Err(TreeError::Pool(PoolError::NoSuchObject { .. })) if crash.acknowledged.is_empty() => {
                K::create(&pool)
            }
            Err(error) => return Err(error.to_string()),
        };
        if contents(&tree)? == TreeContents::new() {
            Ok(())
        } else {
            Err("a new tree has entries".to_owned())
        }
    };
    let explorer = Explorer {
        limit: LIMIT,
        ..Explorer::default()
    };
    let report = explorer.run(
        |medium| drop(Pool::create_on(Arc::clone(medium)).unwrap()),
        |medium| {
            let pool = Pool::open_on(Arc::clone(medium)).unwrap();
            medium.begin(0);
            drop(K::create(&pool));
            medium.acknowledge(0);
        },
        check,
    );
    let report = report.unwrap_or_else(|violation| panic!("{violation}"));
    images::count(report.images);
}

/// Explores inserts into a tree of one leaf until it is full.
pub(crate) fn inserts_into_a_leaf<K: Kind>() {
    let keys = shuffled((1..=K::LEAF).map(|key| key * 10), 1);
    for first in 0..K::LEAF as usize / 14 {
        let (setup, operations) = keys.split_at(first * 14);
        let operations = &operations[..14.min(operations.len())];
        all_needed_but::<K>(
            K::NEEDLESS.inserts,
            &inserts(setup.to_vec()),
            &inserts(operations.to_vec()),
        );
    }
}

/// Explores inserts into a full leaf: to the left, to the right, to both sides of the middle and at the
/// end. Then the entries around the middle are removed, and must not reappear from their previous
/// positions.
pub(crate) fn splits<K: Kind>() {
    let middle = (K::LEAF / 2 + 1) * 10;
    for seed in 0..2 {
        let setup = inserts(shuffled((1..=K::LEAF).map(|key| key * 10), seed));
        for key in [5, K::LEAF * 10 - 5, middle - 9, middle + 1, K::LEAF * 10 + 10] {
            let removals = [middle - 10, middle, middle + 10].map(Do::Remove);
            let operations: Vec<Do> = inserts([key]).into_iter().chain(removals).collect();
            all_needed_but::<K>(K::NEEDLESS.splits, &setup, &operations);
        }
    }
}

/// Explores splits on several levels and growth of the pool, followed by removals of all entries.
pub(crate) fn growth_and_decline<K: Kind>() {
    let keys = shuffled((0..900).map(|key| 3_000 + key * 7), 3);
    let (early, late) = keys.split_at(450);
    let result = survives::<K>(3, 1, &inserts(early.to_vec()), &inserts(late.to_vec()));
    result.unwrap_or_else(|violation| panic!("{violation}"));
    let setup = inserts(keys.clone());
    let removals: Vec<Do> = shuffled(keys, 4).into_iter().map(Do::Remove).collect();
    let (early, late) = removals.split_at(500);
    let setup = [setup, early.to_vec()].concat();
    let result = survives::<K>(3, 2, &setup, late);
    result.unwrap_or_else(|violation| panic!("{violation}"));
}

pub(crate) fn updates_and_removals<K: Kind>() {
    let setup = inserts(shuffled((1..=K::LEAF).map(|key| key * 10), 5));
    let operations = [
        Do::Update(10, 1),
        Do::Update(60, 2),
        Do::Remove(60),
        Do::Update(140, 3),
        Do::Remove(10),
        Do::Insert(65),
        Do::Remove(100),
        Do::Insert(10),
    ];
    all_needed_but::<K>(K::NEEDLESS.changes, &setup, &operations);
}

/// Explores leaves that become empty, one in the middle, the first one, or all, and the reuse of their
/// nodes.
pub(crate) fn empty_leaves<K: Kind>() {
    let leaf = K::LEAF;
    let keys = || 1..=2 * leaf + 2;
    let setup = inserts(keys().map(|key| key * 10));
    let removals = |range: std::ops::RangeInclusive<u64>| range.map(|key| Do::Remove(key * 10));
    let again = keys().map(|key| Do::Insert(key * 10 + 1));
    for range in [leaf + 1..=2 * leaf, 1..=leaf, 1..=2 * leaf + 2] {
        let leaves = range.clone().count().div_ceil(leaf as usize / 2);
        let operations: Vec<Do> = removals(range).chain(again.clone()).collect();
        all_needed_but::<K>(K::NEEDLESS.empty_leaves * leaves, &setup, &operations);
    }
}

pub(crate) fn bulk_loads<K: Kind>() {
    let needless = K::NEEDLESS.loads;
    all_needed_but::<K>(needless, &[], &[Do::Load(150), Do::Insert(1), Do::Remove(3)]);
    all_needed_but::<K>(needless, &[Do::Insert(5), Do::Remove(5)], &[Do::Load(40)]);
}

/// Returns random operations that grow and shrink a tree, and the setup they need.
fn random(seed: u64, count: usize, keys: u64) -> Vec<Do> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut there = std::collections::BTreeSet::new();
    let mut operations = Vec::new();
    while operations.len() < count {
        let key = rng.random_range(0..keys);
        let grow = (operations.len() / (count / 4).max(1)).is_multiple_of(2);
        let present = there.contains(&key);
        let operation = match (present, rng.random_range(0..10)) {
            (false, 0..8) if grow => Do::Insert(key),
            (false, 0..2) => Do::Insert(key),
            (true, 0..2) => Do::Update(key, rng.random()),
            (true, 2..4) if grow => Do::Remove(key),
            (true, _) if !grow => Do::Remove(key),
            _ => continue,
        };
        match operation {
            Do::Insert(_) => drop(there.insert(key)),
            Do::Remove(_) => drop(there.remove(&key)),
            _ => {}
        }
        operations.push(operation);
    }
    operations
}

/// Explores random operations on few keys and on many, in `HALOCLINE_CRASH_RUNS` runs (64).
pub(crate) fn long_random_runs<K: Kind>() {
    let runs = std::env::var("HALOCLINE_CRASH_RUNS").ok();
    let runs: usize = runs.and_then(|runs| runs.parse().ok()).unwrap_or(64);
    for (seed, keys) in (1_000_000..).zip([120, 60, 300].into_iter().cycle()).take(runs) {
        let operations = random(seed, 400, keys);
        let result = survives::<K>(48, seed, &[], &operations);
        result.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
}
