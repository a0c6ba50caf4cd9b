//! Every crash of small workloads, and each flush and fence left out.

use super::workload::{StoreStep, explore, mutants};
use StoreStep::{
    Batch, Checkpoint, Delete, DeleteRange, DeleteSome, Expire, HideRange, Move, Put, PutAmidMoves, Reclaim,
    Snapshot, Time, Together,
};

fn puts(keys: std::ops::Range<u32>) -> Vec<StoreStep> {
    keys.map(|key| Put(key, 30)).collect()
}

/// Checks that only this number of flushes and fences can be left out unnoticed: none of those of commits. Of
/// a checkpoint some can, as the log has everything until the pages of the one before are used again, a leaf
/// with new values and new entries is flushed for both, and what a deletion replaced is purged at once.
fn all_needed_but(flushes: usize, fences: usize, setup: &[StoreStep], steps: &[StoreStep]) {
    let report = mutants(setup, steps);
    let missed_flushes = report
        .missed
        .iter()
        .filter(|(_, text)| text.starts_with("flush"))
        .count();
    assert!(
        missed_flushes <= flushes && report.missed.len() - missed_flushes <= fences,
        "{report}"
    );
}

#[test]
fn puts_and_deletions() {
    let steps = [
        Put(1, 10),
        Put(2, 20),
        Put(1, 30),
        Delete(2),
        Put(2, 5),
        Put(3, 0),
        Delete(1),
    ];
    all_needed_but(0, 0, &[], &steps);
}

#[test]
fn batches_over_several_frames_and_segments() {
    let large = [
        Put(1, 20_000),
        Batch((0..20).collect(), vec![]),
        Put(2, 70_000),
        Put(1, 10),
        Put(2, 50_000),
    ];
    // The slab grows before its last segments are used, which are kept for deletions and a checkpoint.
    all_needed_but(1, 1, &[Put(9, 9)], &large);
    let steps = [
        Batch(vec![1, 2, 3], vec![]),
        Batch(vec![2, 4], vec![1, 3]),
        DeleteRange(0, 9),
        Move(2, 7),
    ];
    // The deletions of the keys of the range are flushed by the commit after them, and again before its
    // fence.
    all_needed_but(1, 0, &[Put(2, 9)], &steps);
}

#[test]
fn checkpoints_of_new_keys_and_new_values() {
    let setup = [puts(0..20), vec![Checkpoint]].concat();
    let steps = [
        Put(3, 11),
        Put(50, 12),
        Delete(4),
        Checkpoint,
        Put(3, 13),
        Delete(50),
        Checkpoint,
        Put(50, 1),
    ];
    all_needed_but(4, 4, &setup, &steps);
}

#[test]
fn splits_and_empty_leaves() {
    let setup = [puts(0..45), vec![Checkpoint]].concat();
    let steps = [
        puts(45..52),
        vec![Checkpoint, DeleteRange(0, 100), Checkpoint, Put(5, 5), Checkpoint],
    ]
    .concat();
    all_needed_but(7, 7, &setup, &steps);
}

/// A range is deleted at once, and its keys in steps, amid commits and checkpoints.
#[test]
fn ranges_are_deleted_in_steps() {
    let setup = [puts(0..12), vec![Checkpoint, Put(3, 9), Put(13, 8)]].concat();
    let steps = [
        HideRange(0, 100),
        Put(4, 5),
        DeleteSome,
        Delete(6),
        Checkpoint,
        Put(7, 6),
        DeleteSome,
        Checkpoint,
        Put(2, 7),
        HideRange(1, 9),
        Batch(vec![5, 6], vec![7]),
        Checkpoint,
        DeleteRange(0, 100),
        Put(1, 1),
        Reclaim,
    ];
    // In a leaf, a step does not divide keys that have the same bytes after the common prefix.
    for setup in [&setup[..], &puts(0..13)] {
        let report = explore(setup, &steps).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(report.images > 100, "{report}");
    }
    // The puts of hidden keys begin with the deletions of these.
    let few = [HideRange(0, 100), Put(4, 5), Put(7, 5), DeleteSome, Put(8, 1)];
    all_needed_but(1, 0, &setup, &few);
}

/// Replaces three of five large values.
fn rewrite(from: u32) -> Vec<StoreStep> {
    (from..from + 3).map(|key| Put(key % 5, 15_000)).collect()
}

#[test]
fn segments_are_emptied_and_used_again() {
    let setup = [puts(100..110), rewrite(0), rewrite(3), vec![Checkpoint]].concat();
    let steps = [
        rewrite(6),
        vec![Reclaim],
        rewrite(9),
        vec![Reclaim],
        rewrite(12),
        vec![Reclaim],
    ]
    .concat();
    let report = explore(&setup, &steps).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.images > 100, "{report}");
}

/// A version is superseded after it was copied: as the first of its key after the checkpoint, as a later
/// one, and while a snapshot sees it.
#[test]
fn copies_are_superseded_before_pointers_lead_to_them() {
    let setup = [puts(100..110), rewrite(0), rewrite(3), vec![Checkpoint]].concat();
    let steps = [
        rewrite(6),
        vec![PutAmidMoves(101, 30), Put(102, 7)],
        rewrite(9),
        vec![PutAmidMoves(101, 30), Checkpoint, Snapshot],
        rewrite(12),
        vec![PutAmidMoves(103, 30), Put(103, 8), Reclaim],
    ]
    .concat();
    let report = explore(&setup, &steps).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.images > 100, "{report}");
}

#[test]
fn versions_of_snapshots() {
    let setup = [puts(0..5), vec![Checkpoint]].concat();
    let steps = [
        Snapshot,
        Put(1, 15_000),
        Put(1, 15_000),
        Snapshot,
        Put(1, 15_000),
        Delete(2),
        Put(3, 15_000),
        Put(3, 15_000),
        Reclaim,
        Put(1, 3),
        Checkpoint,
        Delete(1),
    ];
    let report = explore(&setup, &steps).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.images > 50, "{report}");
}

#[test]
fn keys_that_expire() {
    let setup = [puts(0..3), vec![Checkpoint]].concat();
    let steps = [
        Expire(1, 10),
        Expire(7, 20),
        Checkpoint,
        Time(15),
        Put(2, 15_000),
        Put(2, 15_000),
        Put(2, 15_000),
        Put(2, 15_000),
        Put(2, 15_000),
        Time(10),
        Reclaim,
        Put(8, 1),
    ];
    let report = explore(&setup, &steps).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.images > 50, "{report}");
}

/// A key is removed because it has expired, and set again before the next checkpoint.
#[test]
fn expired_keys_are_set_again() {
    let setup = [puts(0..3), vec![Expire(1, 10), Checkpoint]].concat();
    let steps = [
        vec![Time(15)],
        vec![Put(2, 15_000); 7],
        vec![PutAmidMoves(1, 30), Put(2, 5), Checkpoint, Put(8, 1), Put(1, 7)],
    ]
    .concat();
    let report = explore(&setup, &steps).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.images > 50, "{report}");
}

#[test]
fn commits_together_with_the_pool() {
    let steps = [
        Together(vec![1, 2]),
        Put(1, 10),
        Together(vec![2]),
        Together(vec![1]),
        Checkpoint,
        Together((0..30).collect()),
        Together(vec![]),
        Put(2, 10),
    ];
    let report = explore(&[Put(1, 9)], &steps).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.images > 100, "{report}");
    let segments = [
        Put(1, 20_000),
        Put(2, 25_000),
        Together((0..200).collect()),
        Put(1, 1),
    ];
    let report = explore(&[Put(1, 9)], &segments).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.images > 50, "{report}");
}
