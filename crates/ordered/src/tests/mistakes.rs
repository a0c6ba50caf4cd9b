//! Rules broken on purpose: each must be noticed by some crash.

use halocline_media::{Medium, Tracked};

use super::crash::{full, inserts};
use super::workload::{Do, Kind, Lb, survives};
use crate::mistake::{self, Mistake};

/// Whether a crash of the workload shows the mistake, which it does not show without.
fn noticed<K: Kind<Tracked>>(mistake: Mistake, setup: &[Do], operations: &[Do]) {
    let work = || survives::<K>(500, 7, setup, operations);
    work().unwrap_or_else(|violation| panic!("{violation}"));
    let result = mistake::with(mistake, || {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
    });
    assert!(!matches!(result, Ok(Ok(_))), "{mistake:?}");
}

const SOME: [u64; 5] = [50, 20, 90, 40, 10];

#[test]
fn inserts_out_of_order() {
    for mistake in [
        Mistake::EntryUnfenced,
        Mistake::EntryUnflushed,
        Mistake::MoveWithoutCopy,
        Mistake::HeaderBeforeEntry,
    ] {
        noticed::<Lb<1, true>>(mistake, &[], &inserts(SOME));
    }
    for mistake in [Mistake::EntryUnfenced, Mistake::EntryUnflushed] {
        noticed::<Lb<1, false>>(mistake, &[], &inserts(SOME));
    }
}

#[test]
fn splits_out_of_order() {
    for mistake in [
        Mistake::NewLeafUnfenced,
        Mistake::NewLeafUnflushed,
        Mistake::LinkAfterHeader,
        Mistake::AltFlippedEarly,
    ] {
        for key in [5, 135] {
            noticed::<Lb<1, true>>(mistake, &full([10, 60, 140]), &inserts([key]));
        }
    }
    // There must be a next leaf for its link to be lost.
    let setup = [full([10, 60, 140]), inserts([145, 150])].concat();
    let operations = inserts([1, 2, 3, 4, 5, 6, 7, 8]);
    noticed::<Lb<1, true>>(Mistake::LinkOverLive, &setup, &operations);
}

#[test]
fn entries_that_stay_in_both_leaves() {
    let setup = [full([10, 20, 30]), inserts((1..=14).map(|key| key * 10 + 3))].concat();
    noticed::<Lb<2, true>>(Mistake::KeepStale, &setup, &inserts([5]));
}

#[test]
fn leaves_given_back_too_early() {
    let setup = inserts((1..=30).map(|key| key * 10));
    let removals = |range: std::ops::RangeInclusive<u64>| range.map(|key| Do::Remove(key * 10));
    let again = (1..=30).map(|key| Do::Insert(key * 10 + 1));
    let operations: Vec<Do> = removals(15..=28).chain(again.clone()).collect();
    noticed::<Lb<1, true>>(Mistake::FreeBeforeUnlink, &setup, &operations);
    let operations: Vec<Do> = removals(1..=14).chain(again).collect();
    noticed::<Lb<1, true>>(Mistake::AbsorbUnflushed, &setup, &operations);
}

#[test]
fn loads_updates_and_removals_not_durable() {
    noticed::<Lb<1, true>>(Mistake::LoadUnflushed, &[], &[Do::Load(150)]);
    let setup = inserts(SOME);
    noticed::<Lb<1, true>>(Mistake::UpdateUnfenced, &setup, &[Do::Update(20, 1)]);
    noticed::<Lb<1, true>>(Mistake::RemoveUnfenced, &setup, &[Do::Remove(20)]);
}

/// Opens a tree in all of whose leaves the lock bit is set, as by a program that died while it held all locks.
fn opens_with_lock_bits() -> bool {
    let medium = std::sync::Arc::new(Tracked::new(0).unwrap());
    let pool = halocline_pool::Pool::create_on(std::sync::Arc::clone(&medium)).unwrap();
    let mut tree = <Lb<1, true> as Kind<Tracked>>::create(&pool);
    let operations = inserts((0..200).map(|key| key * 7 % 211));
    super::workload::run(&mut tree, &operations, |_| (), |_| ());
    let mut at = medium.load_u64(tree.slab.root());
    while at != 0 {
        let low = medium.load_u64(at);
        medium.store_u64(at, low | 1 << 14);
        at = medium.load_u64(at + 240 + 8 * (low >> 15 & 1));
    }
    drop(tree);
    let tree = <Lb<1, true> as Kind<Tracked>>::open(&pool).unwrap();
    super::workload::contents(&tree).is_ok_and(|found| found.len() == 200)
}

#[test]
fn lock_bits_trusted() {
    assert!(opens_with_lock_bits());
    assert!(!mistake::with(Mistake::TrustLockBit, opens_with_lock_bits));
}
