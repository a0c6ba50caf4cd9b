//! Trees that are opened from a checkpoint after a crash, used while some blocks are not read, and crash
//! again.

use std::sync::Arc;

use halocline_explore::{Crash, Explorer, Tracked, Violation};
use halocline_pool::Pool;

use super::faults::InjectedFault;
use super::hybrid::HybridKind;
use super::images;
use super::workload::{Do, TreeContents, contents, prepare, states, work};
use crate::OrderedIndex;
use crate::hybrid::checkpoint::fault::CheckpointFault;
use crate::seal::fault::{self, CloseFault};

/// Returns operations on a tree of 20 full leaves: splits, of which every few lead to a checkpoint, and
/// leaves that become empty, of which the fourth is an anchor.
fn splits_and_removals<K: HybridKind>() -> Vec<Do> {
    let leaf = K::LEAF * 10;
    let splits = |leaves: std::ops::Range<u64>| leaves.map(move |number| Do::Insert(number * leaf + 15));
    let empties = |number: u64| {
        let keys = (number * K::LEAF + 1..=(number + 1) * K::LEAF).map(|key| key * 10);
        keys.map(Do::Remove)
    };
    let mut operations: Vec<Do> = splits(8..18).collect();
    operations.extend(empties(4));
    operations.extend(empties(6));
    operations.extend(splits(0..3));
    operations.extend(splits(18..20));
    operations.extend(splits(20..21));
    operations
}

/// Accepts an image if its tree is opened from a checkpoint and holds what was acknowledged, also after it
/// was used in part and its process was killed twice.
fn check<K: HybridKind>(
    medium: Arc<Tracked>,
    crash: &Crash<'_>,
    states: &[TreeContents],
    done: usize,
) -> Result<(), String> {
    let (first, last) = crash.completed(done);
    let pool = Pool::open_on(medium).map_err(|error| error.to_string())?;
    // Many in one place, so that leaves split while other blocks are not read, and one elsewhere.
    let places = [(11 * K::LEAF * 10, 3 * K::LEAF), (15 * K::LEAF * 10, 1)];
    let mut fresh = TreeContents::new();
    for (place, count) in places {
        let tree = opened::<K>(&pool)?;
        for key in (place..).filter(|key| key % 5 > 0).take(count as usize) {
            tree.insert(key, key).map_err(|error| error.to_string())?;
            fresh.insert(key, key);
        }
        fault::with(CloseFault::Unsealed, || drop(tree));
    }
    let tree = opened::<K>(&pool)?;
    let found = contents(&tree)?;
    let expected = [first, last].map(|state| {
        let mut expected = states[state].clone();
        expected.extend(&fresh);
        expected
    });
    if !expected.contains(&found) {
        return Err(format!("wrong contents after {first} operations"));
    }
    drop(tree);
    let again = opened::<K>(&pool).map_err(|error| format!("after closing: {error}"))?;
    if contents(&again)? == found {
        Ok(())
    } else {
        Err("wrong contents after closing".to_owned())
    }
}

/// Opens a tree, which must not read its leaves.
fn opened<K: HybridKind>(pool: &Pool) -> Result<K::Tree, String> {
    let tree = K::open(pool).map_err(|error| error.to_string())?;
    if K::hybrid(&tree).is_lazy() {
        Ok(tree)
    } else {
        Err("its leaves were read".to_owned())
    }
}

fn survives<K: HybridKind>(limit: usize) -> Result<(), Box<Violation>> {
    let setup: Vec<Do> = (1..=20 * K::LEAF).map(|key| Do::Insert(key * 10)).collect();
    let operations = splits_and_removals::<K>();
    let states = states(&[setup.clone(), operations.clone()].concat());
    let explorer = Explorer {
        limit,
        ..Explorer::default()
    };
    let report = explorer.run(
        |medium| prepare::<K>(medium, &setup, true),
        |medium| work::<K>(medium, &operations),
        |medium, crash| check::<K>(medium, crash, &states, setup.len()),
    )?;
    images::count(report.images);
    Ok(())
}

pub(crate) fn crashes_of_a_running_tree<K: HybridKind>() {
    survives::<K>(4).unwrap_or_else(|violation| panic!("{violation}"));
    for fault in [
        CheckpointFault::Unflushed,
        CheckpointFault::NamedUnfenced,
        CheckpointFault::UnpinnedEarly,
        CheckpointFault::UnlinkAnchor,
        CheckpointFault::ReuseUnread,
        CheckpointFault::IgnoreUnfinished,
    ] {
        let broken = fault.inject(|| survives::<K>(4));
        assert!(broken.is_err(), "{fault:?}");
    }
}
