//! The tests of this crate fail if a rule is broken.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::page_cache::strict;
use super::workload::{MediumOf, ON_DAX, StoreStep, explore_on};
use crate::fault::{self, StoreFault};
use StoreStep::{
    Batch, Checkpoint, Delete, Expire, HideRange, Put, PutAmidMoves, Reclaim, Snapshot, Time, Together,
};

/// Returns true if the exploration of the steps fails, or the steps themselves do, while a fault is injected.
fn is_noticed(on: MediumOf, fault: StoreFault, setup: &[StoreStep], steps: &[StoreStep]) -> bool {
    fault::with(fault, || {
        let explored = catch_unwind(AssertUnwindSafe(|| explore_on(on, setup, steps)));
        !matches!(explored, Ok(Ok(_)))
    })
}

fn puts(keys: std::ops::Range<u32>) -> Vec<StoreStep> {
    keys.map(|key| Put(key, 30)).collect()
}

#[test]
fn crashes_show_broken_rules() {
    use StoreFault as F;
    let filled = [puts(0..20), vec![Checkpoint]].concat();
    let full = [puts(0..45), vec![Checkpoint]].concat();
    let rewrites: Vec<StoreStep> = (0..9).map(|at| Put(at % 4, 15_000)).collect();
    let emptied = [
        rewrites.clone(),
        vec![Reclaim],
        rewrites.clone(),
        vec![Reclaim],
        rewrites.clone(),
    ]
    .concat();
    let large = vec![Put(1, 16_000), Put(1, 16_000), Put(1, 16_000), Reclaim];
    let large: Vec<StoreStep> = (0..8).flat_map(|_| large.clone()).collect();
    let versions = [
        vec![Snapshot, Put(1, 15_000), Put(2, 15_000), Put(2, 15_000)],
        vec![Put(2, 15_000), Put(2, 15_000), Put(2, 15_000), Reclaim, Put(3, 1)],
    ];
    let versions = versions.concat();
    let expiring = [puts(0..20), vec![Expire(1, 10), Checkpoint]].concat();
    let over = [vec![Time(15)], vec![Put(2, 15_000); 7]].concat();
    let cases: &[(F, &[StoreStep], Vec<StoreStep>)] = &[
        (
            F::PurgeInPlace,
            &expiring,
            [over.clone(), vec![Reclaim, Put(3, 1)]].concat(),
        ),
        (
            F::PurgeInPlace,
            &expiring,
            [over, vec![PutAmidMoves(1, 30), Checkpoint, Put(3, 1)]].concat(),
        ),
        (F::AcknowledgeEarly, &[], vec![Put(1, 1), Put(2, 1)]),
        (F::ApplyEarly, &filled, vec![Put(1, 1), Put(2, 1)]),
        (
            F::TornBatch,
            &[Put(1, 16_000), Put(1, 16_000), Put(1, 16_000)],
            vec![Batch((0..100).collect(), vec![])],
        ),
        (F::Undecided, &[], vec![Together(vec![1])]),
        (F::EndEarly, &[], vec![Together(vec![1])]),
        (F::ForgetDecided, &[], vec![Together(vec![1])]),
        (F::TrustFrames, &[], vec![Put(1, 300), Put(2, 300)]),
        (
            F::BitmapFirst,
            &filled,
            vec![Put(50, 1), Put(51, 1), Put(52, 2), Checkpoint, Put(53, 1)],
        ),
        (
            F::ReuseSlot,
            &full,
            vec![Delete(3), Delete(4), Put(50, 1), Put(51, 1), Checkpoint],
        ),
        (
            F::CheckpointFirst,
            &filled,
            vec![Put(50, 1), Checkpoint, Put(1, 4)],
        ),
        (
            F::StoreCopiesTogether,
            &filled,
            vec![Put(50, 1), Checkpoint, Put(1, 4), Checkpoint],
        ),
        (
            F::OverwriteCatalog,
            &filled,
            vec![Put(50, 1), Checkpoint, Put(1, 4)],
        ),
        (
            F::ForgetChanged,
            &filled,
            [rewrites, vec![Checkpoint, Put(50, 1)]].concat(),
        ),
        (
            F::ForgetDeletedRanges,
            &filled,
            vec![HideRange(0, 100), Put(4, 3), Checkpoint, Put(1, 4)],
        ),
        (F::SkipTail, &filled, vec![Put(50, 1), Checkpoint, Put(1, 4)]),
        (F::ForgetDirty, &filled, vec![Put(3, 1), Checkpoint, Put(50, 4)]),
        (F::MoveUnfenced, &filled, emptied.clone()),
        (
            F::FreeEarly,
            &full,
            [puts(45..60), vec![Checkpoint], puts(60..70)].concat(),
        ),
        (F::ChangeCopied, &filled, emptied.clone()),
        (
            F::ChangeCopied,
            &[Put(1, 15_000), Put(1, 15_000), Put(70, 40_000)],
            large.clone(),
        ),
        (F::TrustOldFrames, &filled, emptied.clone()),
        (F::ReplayMoved, &filled, versions),
        (
            F::DropChunks,
            &[Put(1, 16_000), Put(1, 16_000), Put(70, 40_000)],
            large,
        ),
    ];
    let missed: Vec<F> = cases
        .iter()
        .filter(|(fault, setup, steps)| !is_noticed(ON_DAX, *fault, setup, steps))
        .map(|(fault, ..)| *fault)
        .collect();
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}

/// Records are moved in the same order where a fence is a sync that all threads share.
#[test]
fn crashes_show_broken_moves_on_both_kinds_of_fences() {
    let rewrites: Vec<StoreStep> = (0..9).map(|at| Put(at % 4, 15_000)).collect();
    let setup = [puts(0..20), rewrites.clone(), vec![Checkpoint]].concat();
    // Until the checkpoint, replay puts the newer version into the tree.
    let amid = [PutAmidMoves(7, 30), Checkpoint, Put(8, 1)];
    let unfenced = [rewrites, vec![Reclaim, Put(9, 1)]].concat();
    if let Err(violation) = explore_on(strict, &setup, &amid) {
        panic!("{violation}");
    }
    let cases: [(MediumOf, StoreFault, &[StoreStep]); 3] = [
        (strict, StoreFault::MoveUnfenced, &unfenced),
        (strict, StoreFault::MoveSuperseded, &amid),
        (ON_DAX, StoreFault::MoveSuperseded, &amid),
    ];
    for (on, fault, steps) in cases {
        assert!(is_noticed(on, fault, &setup, steps), "not noticed: {fault:?}");
    }
}
