//! Every crash of small workloads, each with every flush and fence left out, and a sample of those of long random ones.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::workload::{Do, Kind, Lb, explore, survives};

/// Images at one crash point up to which all are tried.
const LIMIT: usize = 600;

pub(crate) fn inserts(keys: impl IntoIterator<Item = u64>) -> Vec<Do> {
    keys.into_iter().map(Do::Insert).collect()
}

/// Nothing may be left out unnoticed.
fn all_needed<K: Kind<halocline_media::Tracked>>(setup: &[Do], operations: &[Do]) {
    all_needed_but::<K>(0, setup, operations);
}

/// Nothing but so many flushes and fences, whose work others do, may be left out unnoticed.
fn all_needed_but<K: Kind<halocline_media::Tracked>>(others: usize, setup: &[Do], operations: &[Do]) {
    let report = explore::<K>(LIMIT, setup, operations);
    assert!(report.missed.len() <= others, "{report}");
}

#[test]
fn creation() {
    let empty: &[Do] = &[];
    for key in [3, 7] {
        all_needed::<Lb<1, true>>(empty, &inserts([key]));
    }
}

#[test]
fn inserts_with_and_without_moving() {
    let keys = [50, 20, 90, 40, 10, 70, 30, 60, 80, 55, 25, 95, 45, 15];
    all_needed::<Lb<1, true>>(&[], &inserts(keys));
    all_needed::<Lb<1, false>>(&[], &inserts(keys));
    all_needed::<Lb<2, true>>(&inserts(keys), &inserts(100..114));
    all_needed::<Lb<2, false>>(&inserts(keys), &inserts(100..108));
}

/// Fourteen keys of which the least and the greatest are in the header's line, or those in the middle.
pub(crate) fn full(first: [u64; 3]) -> Vec<Do> {
    let others = (1..=14).map(|key| key * 10).filter(|key| !first.contains(key));
    let mut keys: Vec<u64> = first.into_iter().chain(others).collect();
    keys[3..].sort_unstable_by_key(|key| key.wrapping_mul(0x9E37_79B9) % 97);
    inserts(keys)
}

#[test]
fn splits() {
    for first in [[10, 20, 30], [120, 130, 140], [60, 80, 100]] {
        // To the left, to the right, to both sides of the middle, behind all.
        for key in [5, 135, 71, 81, 150] {
            all_needed::<Lb<1, true>>(&full(first), &inserts([key]));
            all_needed::<Lb<1, false>>(&full(first), &inserts([key]));
        }
    }
    let setup = [full([10, 20, 30]), inserts((1..=14).map(|key| key * 10 + 3))].concat();
    for key in [5, 135, 75, 160] {
        // The least keys of the new leaf go, and must not come back from the old one.
        let removals = [75, 80, 83, 90, 93]
            .into_iter()
            .filter(|gone| *gone != 75 || key == 75);
        let operations: Vec<Do> = inserts([key])
            .into_iter()
            .chain(removals.map(Do::Remove))
            .collect();
        // A later fence of the thread makes the end of the split durable; the header of a second block that stays empty was
        // zero before.
        all_needed_but::<Lb<2, true>>(1, &setup, &operations);
    }
}

#[test]
fn nodes_come_from_the_pool() {
    // The first chunk has four nodes of this size.
    let setup = inserts((0..140).map(|key| key * 7 % 151));
    let operations = inserts((0..90).map(|key| 151 + key * 11 % 90));
    survives::<Lb<4, true>>(LIMIT, 1, &setup, &operations).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn updates_and_removals() {
    let setup = full([10, 60, 140]);
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
    all_needed::<Lb<1, true>>(&setup, &operations);
    all_needed::<Lb<2, true>>(&setup, &operations);
}

#[test]
fn empty_leaves_are_given_back_and_used_again() {
    // Three leaves; then the one in the middle becomes empty, and the first one.
    let keys = (1..=30).map(|key| key * 10);
    let setup = inserts(keys.clone());
    let removals = |range: std::ops::RangeInclusive<u64>| range.map(|key| Do::Remove(key * 10));
    let again = (1..=30).map(|key| Do::Insert(key * 10 + 1));
    for range in [15..=28, 1..=14, 1..=30] {
        let leaves = range.clone().count() / 14;
        let operations: Vec<Do> = removals(range).chain(again.clone()).collect();
        // The removal of a leaf's last entry, which unlinking the leaf makes durable as well; the switch of a leaf that takes
        // over another, which the next removal flushes; a link to a node that the same link led to when it was live.
        all_needed_but::<Lb<1, true>>(5 * leaves, &setup, &operations);
    }
    let keys = (0..90).map(|key| key * 10);
    let (first, later) = (
        (0..84).map(|key| key * 10),
        (840..845).map(|key| Do::Insert(key * 10)),
    );
    let setup: Vec<Do> = inserts(keys)
        .into_iter()
        .chain(first.filter(|key| key % 280 != 0).map(Do::Remove))
        .collect();
    let operations: Vec<Do> = [0, 280, 560].map(Do::Remove).into_iter().chain(later).collect();
    all_needed_but::<Lb<2, true>>(9, &setup, &operations);
}

#[test]
fn bulk_loads() {
    all_needed::<Lb<1, true>>(&[], &[Do::Load(150), Do::Insert(1), Do::Remove(3)]);
    all_needed::<Lb<2, true>>(&[], &[Do::Load(150), Do::Insert(1), Do::Remove(3)]);
    all_needed::<Lb<1, true>>(&[Do::Insert(5), Do::Remove(5)], &[Do::Load(40)]);
}

/// Random operations that grow and shrink a tree, and the contents they need.
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

/// Runs of random operations, `HALOCLINE_CRASH_RUNS` of them (4).
fn long_runs<K: Kind<halocline_media::Tracked>>(salt: u64) {
    let runs = std::env::var("HALOCLINE_CRASH_RUNS").ok();
    let runs: u64 = runs.and_then(|runs| runs.parse().ok()).unwrap_or(4);
    for run in 0..runs {
        let seed = salt * 1_000_000 + run;
        let operations = random(seed, 400, 120);
        let result = survives::<K>(24, seed, &[], &operations);
        result.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
}

#[test]
fn long_random_runs() {
    long_runs::<Lb<1, true>>(1);
    long_runs::<Lb<1, false>>(2);
    long_runs::<Lb<2, true>>(3);
    long_runs::<Lb<4, true>>(4);
}
