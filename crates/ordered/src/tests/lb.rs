//! Tests of the LB+-Tree: its special features, and injected faults.

use std::sync::Arc;

use halocline_explore::Tracked;
use halocline_media::MediumAccess;
use halocline_pool::Pool;

use super::crash::{LIMIT, all_needed_but, inserts};
use super::faults::noticed;
use super::hybrid::HybridKind;
use super::workload::{Do, Kind, Needless, contents, run, survives};
use crate::hybrid::HybridTree;
use crate::hybrid::fault::HybridFault;
use crate::lb::LbLeafFormat;
use crate::lb::fault::{self, LbFault};
use crate::{LbOptions, LbTree, TreeError};

/// An LB+-Tree with leaves of `B` blocks, with or without entry moving.
pub(crate) struct Lb<const B: usize, const MOVING: bool>;

impl<const B: usize, const MOVING: bool> Lb<B, MOVING> {
    pub(crate) const OPTIONS: LbOptions = LbOptions {
        moving: MOVING,
        chunk: 8 << 10,
    };
}

impl<const B: usize, const MOVING: bool> Kind for Lb<B, MOVING> {
    type Tree = LbTree<B>;

    const LEAF: u64 = 14 * B as u64;

    const NEEDLESS: Needless = Needless {
        // A later fence of the thread makes the end of the split durable. The header of a block that stays
        // empty was already zero.
        splits: if B == 1 { 0 } else { B },
        // Unlinking a leaf also makes the removal of its last entry durable. The next removal flushes the
        // switch of a leaf that takes over another. A link may lead to the node it led to when it was last
        // live.
        empty_leaves: 3 + 2 * B,
        // The headers of blocks that stay empty were already zero.
        loads: B - 1,
        ..Needless::NONE
    };

    fn create(pool: &Pool) -> Self::Tree {
        LbTree::create(pool, "tree", Self::OPTIONS).unwrap()
    }

    fn open(pool: &Pool) -> Result<Self::Tree, TreeError> {
        LbTree::open(pool, "tree", Self::OPTIONS)
    }

    fn open_read_only(pool: &Pool) -> Result<Self::Tree, TreeError> {
        LbTree::open_read_only(pool, "tree", Self::OPTIONS)
    }
}

impl<const B: usize, const MOVING: bool> HybridKind for Lb<B, MOVING> {
    type Leaves = LbLeafFormat<B>;

    fn hybrid(tree: &LbTree<B>) -> &HybridTree<LbLeafFormat<B>> {
        &tree.0
    }
}

/// Returns operations that fill a leaf with fourteen keys, of which either the least and the greatest
/// or those in the middle are in the header's line.
fn full(first: [u64; 3]) -> Vec<Do> {
    let others = (1..=14).map(|key| key * 10).filter(|key| !first.contains(key));
    let mut keys: Vec<u64> = first.into_iter().chain(others).collect();
    keys[3..].sort_unstable_by_key(|key| key.wrapping_mul(0x9E37_79B9) % 97);
    inserts(keys)
}

#[test]
fn splits_of_leaves_by_what_is_in_the_first_line() {
    for first in [[10, 20, 30], [120, 130, 140], [60, 80, 100]] {
        // To the left, to the right, to both sides of the middle, and at the end.
        for key in [5, 135, 71, 81, 150] {
            all_needed_but::<Lb<1, true>>(0, &full(first), &inserts([key]));
            all_needed_but::<Lb<1, false>>(0, &full(first), &inserts([key]));
        }
    }
    let setup = [full([10, 20, 30]), inserts((1..=14).map(|key| key * 10 + 3))].concat();
    // The last one goes to the first block of a leaf of its own, whose header is needed then.
    for key in [5, 135, 75, 164] {
        // The least keys of the new leaf are removed and must not reappear from the old one.
        let removals = [75, 80, 83, 90, 93]
            .into_iter()
            .filter(|gone| *gone != 75 || key == 75);
        let operations: Vec<Do> = inserts([key])
            .into_iter()
            .chain(removals.map(Do::Remove))
            .collect();
        // A later fence of the thread makes the end of the split durable. The header of a second block that
        // stays empty was already zero.
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
fn empty_leaves_of_two_blocks() {
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
    // Each removal takes the last entry of the first leaf, which then takes over its neighbour. That also
    // makes the removal durable, so its flush and its fence are redundant (6). The switch of the takeover
    // is in the line of the first block's header and may be delayed, as until then there are an empty leaf
    // and its neighbour. The second removal (flush and fence) and the inserts (flush and fence) flush that
    // line again, and the third removal, of an entry of the other block, waits for what was flushed
    // (fence).
    all_needed_but::<Lb<2, true>>(11, &setup, &operations);
}

const SOME: [u64; 5] = [50, 20, 90, 40, 10];

#[test]
fn inserts_out_of_order() {
    for fault in [
        LbFault::EntryUnfenced,
        LbFault::EntryUnflushed,
        LbFault::MoveWithoutCopy,
        LbFault::HeaderBeforeEntry,
    ] {
        noticed::<Lb<1, true>>(fault, &[], &inserts(SOME));
    }
    for fault in [LbFault::EntryUnfenced, LbFault::EntryUnflushed] {
        noticed::<Lb<1, false>>(fault, &[], &inserts(SOME));
    }
}

#[test]
fn splits_out_of_order() {
    for fault in [
        LbFault::NewLeafUnfenced,
        LbFault::NewLeafUnflushed,
        LbFault::LinkAfterHeader,
        LbFault::AltFlippedEarly,
    ] {
        for key in [5, 135] {
            noticed::<Lb<1, true>>(fault, &full([10, 60, 140]), &inserts([key]));
        }
    }
    // A next leaf must exist for its link to be lost.
    let setup = [full([10, 60, 140]), inserts([145, 150])].concat();
    let operations = inserts([1, 2, 3, 4, 5, 6, 7, 8]);
    noticed::<Lb<1, true>>(LbFault::LinkOverLive, &setup, &operations);
}

#[test]
fn entries_that_stay_in_both_leaves() {
    let setup = [full([10, 20, 30]), inserts((1..=14).map(|key| key * 10 + 3))].concat();
    noticed::<Lb<2, true>>(LbFault::KeepStale, &setup, &inserts([5]));
}

#[test]
fn leaves_given_back_too_early() {
    let setup = inserts((1..=30).map(|key| key * 10));
    let removals = |range: std::ops::RangeInclusive<u64>| range.map(|key| Do::Remove(key * 10));
    let again = (1..=30).map(|key| Do::Insert(key * 10 + 1));
    let operations: Vec<Do> = removals(15..=28).chain(again.clone()).collect();
    noticed::<Lb<1, true>>(HybridFault::FreeBeforeUnlink, &setup, &operations);
    let operations: Vec<Do> = removals(1..=14).chain(again).collect();
    noticed::<Lb<1, true>>(LbFault::AbsorbUnflushed, &setup, &operations);
}

#[test]
fn loads_updates_and_removals_not_durable() {
    noticed::<Lb<1, true>>(LbFault::LoadUnflushed, &[], &[Do::Load(150)]);
    noticed::<Lb<1, true>>(HybridFault::LoadUnfenced, &[], &[Do::Load(150)]);
    let setup = inserts(SOME);
    noticed::<Lb<1, true>>(LbFault::UpdateUnfenced, &setup, &[Do::Update(20, 1)]);
    noticed::<Lb<1, true>>(LbFault::RemoveUnfenced, &setup, &[Do::Remove(20)]);
}

/// Opens a tree with the lock bit set in all leaves, as left by a program that died while it held all
/// locks.
fn opens_with_lock_bits() -> bool {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let mut tree = <Lb<1, true> as Kind>::create(&pool);
    let operations = inserts((0..200).map(|key| key * 7 % 211));
    run(&mut tree, &operations, |_| (), |_| ());
    let mut at = medium.load_u64(tree.0.slab.root());
    while at != 0 {
        let low = medium.load_u64(at);
        medium.store_u64(at, low | 1 << 14);
        at = medium.load_u64(at + 240 + 8 * (low >> 15 & 1));
    }
    drop(tree);
    let tree = <Lb<1, true> as Kind>::open(&pool).unwrap();
    contents(&tree).is_ok_and(|found| found.len() == 200)
}

#[test]
fn lock_bits_trusted() {
    assert!(opens_with_lock_bits());
    assert!(!fault::with(LbFault::TrustLockBit, opens_with_lock_bits));
}
