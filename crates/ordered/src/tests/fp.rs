//! Tests of the FPTree with injected faults.

use std::sync::Arc;

use halocline_explore::Tracked;
use halocline_media::MediumAccess;
use halocline_pool::Pool;

use super::crash::inserts;
use super::faults::noticed;
use super::hybrid::HybridKind;
use super::workload::{Do, Kind, Needless};
use crate::fp::fault::FpFault;
use crate::fp::{FpLeafFormat, LOGS_AT};
use crate::hybrid::HybridTree;
use crate::hybrid::fault::HybridFault;
use crate::{FpOptions, FpTree, TreeError};

pub(crate) struct Fp;

impl Kind for Fp {
    type Tree = FpTree;

    const LEAF: u64 = 56;

    const NEEDLESS: Needless = Needless {
        // The link of a new last leaf, which was already zero; clearing the log and its fence, because
        // repeating the split does no harm until the leaf is split again.
        splits: 3,
        // The same, and the removal of a leaf's last entry, which unlinking the leaf also makes durable.
        empty_leaves: 5,
        loads: 1,
        ..Needless::NONE
    };

    fn create(pool: &Pool) -> Self::Tree {
        FpTree::create(pool, "tree", FpOptions { chunk: 8 << 10 }).unwrap()
    }

    fn open(pool: &Pool) -> Result<Self::Tree, TreeError> {
        FpTree::open(pool, "tree")
    }

    fn open_read_only(pool: &Pool) -> Result<Self::Tree, TreeError> {
        FpTree::open_read_only(pool, "tree")
    }
}

impl HybridKind for Fp {
    type Leaves = FpLeafFormat;

    fn hybrid(tree: &FpTree) -> &HybridTree<FpLeafFormat> {
        &tree.0
    }
}

const SOME: [u64; 5] = [50, 20, 90, 40, 10];

#[test]
fn changes_of_a_leaf_out_of_order() {
    for fault in [
        FpFault::EntryUnfenced,
        FpFault::EntryUnflushed,
        FpFault::BitmapBeforeFingerprint,
    ] {
        noticed::<Fp>(fault, &[], &inserts(SOME));
    }
    let setup = inserts(SOME);
    noticed::<Fp>(FpFault::UpdateInTwoStores, &setup, &[Do::Update(20, 1)]);
    noticed::<Fp>(FpFault::EntryUnfenced, &setup, &[Do::Update(20, 1)]);
    noticed::<Fp>(FpFault::RemoveUnfenced, &setup, &[Do::Remove(20)]);
}

/// Returns operations that fill a leaf.
fn full() -> Vec<Do> {
    inserts((1..=56).map(|key| key * 37 % 57 * 10))
}

#[test]
fn splits_out_of_order() {
    for fault in [
        FpFault::NewLeafUnflushed,
        FpFault::LogUnfenced,
        FpFault::LogLeafFirst,
        FpFault::LogClearedEarly,
        FpFault::IgnoreLogs,
    ] {
        for key in [5, 555] {
            noticed::<Fp>(fault, &full(), &inserts([key]));
        }
    }
}

#[test]
fn logs_that_outlive_their_split() {
    // The leaf is split again; the new leaf of the second split must not be lost.
    let again = inserts((0..64).map(|key| key * 4 + 3));
    noticed::<Fp>(FpFault::LogClearedLate, &full(), &again);
}

#[test]
fn leaves_given_back_too_early() {
    let setup = inserts((1..=115).map(|key| key * 10));
    let removals = |range: std::ops::RangeInclusive<u64>| range.map(|key| Do::Remove(key * 10));
    let again = (1..=60).map(|key| Do::Insert(key * 10 + 1));
    let operations: Vec<Do> = removals(57..=112).chain(again.clone()).collect();
    noticed::<Fp>(HybridFault::FreeBeforeUnlink, &setup, &operations);
    for fault in [FpFault::TakenUnflushed, FpFault::IgnoreLogs] {
        noticed::<Fp>(fault, &setup, &removals(1..=56).collect::<Vec<_>>());
    }
}

#[test]
fn loads_not_durable() {
    noticed::<Fp>(FpFault::NewLeafUnflushed, &[], &[Do::Load(150)]);
    noticed::<Fp>(HybridFault::LoadUnfenced, &[], &[Do::Load(150)]);
}

#[test]
fn logs_that_lead_nowhere_keep_a_tree_from_opening() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let tree = <Fp as Kind>::create(&pool);
    let (log, first) = (tree.0.slab.root() + LOGS_AT, medium.load_u64(tree.0.slab.root()));
    drop(tree);
    let open = || FpTree::open(&pool, "tree").map(drop);
    for (leaf, right) in [
        (first | 3, first),
        (first | 1, 0),
        (7 << 8 | 1, first),
        (first | 2, first + 8),
    ] {
        medium.store_u64(log, leaf);
        medium.store_u64(log + 8, right);
        let error = open().unwrap_err();
        assert!(
            matches!(error, TreeError::Damaged { node, .. } if node == log),
            "{error}"
        );
    }
    medium.store_u64(log, 0);
    open().unwrap();
}
