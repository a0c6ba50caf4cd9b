//! Checkpoints: trees that are opened without reading their leaves, in part or entirely, and faults of that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use halocline_explore::{Explorer, Tracked, Violation};
use halocline_media::MediumAccess;
use halocline_pool::Pool;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::faults::InjectedFault;
use super::hybrid::HybridKind;
use super::images;
use super::workload::{Do, Kind, TreeContents, check, contents, run, states};
use crate::hybrid::LeafFormat;
use crate::hybrid::checkpoint::fault::CheckpointFault;
use crate::seal::fault::{self, CloseFault};
use crate::{OrderedIndex, Range, TreeError};

/// A value that occurs nowhere else.
const ODD: u64 = 0xDEAD_BEEF_0BAD_F00D;

/// Returns operations that create a tree of at least `leaves` leaves.
fn leaves<K: Kind>(leaves: u64) -> Vec<Do> {
    (1..=leaves * K::LEAF).map(|key| Do::Insert(key * 10)).collect()
}

/// Creates a closed tree with a checkpoint, and an odd value of the key 20.
fn closed<K: HybridKind>() -> (Arc<Tracked>, Pool) {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let mut tree = K::create(&pool);
    run(&mut tree, &leaves::<K>(20), |_| (), |_| ());
    tree.update(20, ODD).unwrap();
    drop(tree);
    assert!(K::hybrid(&K::open_read_only(&pool).unwrap()).is_lazy());
    (medium, pool)
}

/// Returns the offset of the only word with this value.
fn place_of(medium: &Tracked, word: u64) -> u64 {
    let found: Vec<u64> = (0..medium.len())
        .step_by(8)
        .filter(|at| medium.load_u64(*at) == word)
        .collect();
    assert_eq!(found.len(), 1);
    found[0]
}

/// Compares a tree with a model while it is opened, used in a few places and closed, or left by a process
/// that is killed, again and again.
fn agrees_with_a_model<K: HybridKind>(seed: u64, killed: bool) {
    let mut rng = StdRng::seed_from_u64(seed);
    let pool = Pool::create_on(Arc::new(Tracked::new(0).unwrap())).unwrap();
    let mut model = TreeContents::new();
    let (mut lazy, mut tree) = (0, K::create(&pool));
    for round in 0..60 {
        // Most rounds use a small range of keys, some of them emptying it.
        let keys = 60 * K::LEAF;
        let low = rng.random_range(0..keys);
        let range = if round % 4 == 0 {
            0..keys
        } else {
            low..low + 6 * K::LEAF
        };
        let shrinks = round % 3 == 2;
        for _ in 0..rng.random_range(0..8 * K::LEAF) {
            let key = rng.random_range(range.clone());
            match rng.random_range(0..10) {
                0..6 if shrinks => assert_eq!(tree.remove(key).unwrap(), model.remove(&key), "seed {seed}"),
                0..6 => assert_eq!(
                    tree.upsert(key, round).unwrap(),
                    model.insert(key, round),
                    "seed {seed}"
                ),
                6 => {
                    let mut found = [None];
                    tree.get_batch(&[key], &mut found).unwrap();
                    assert_eq!(found[0], model.get(&key).copied(), "seed {seed}");
                }
                7 => {
                    let found: Result<Vec<_>, _> = Range::new(&tree, key..).take(40).collect();
                    let expected = model.range(key..).take(40).map(|(key, value)| (*key, *value));
                    assert!(found.unwrap().into_iter().eq(expected), "seed {seed}");
                }
                8 => {
                    let found: Result<Vec<_>, _> = Range::new(&tree, ..=key).rev().take(40).collect();
                    let expected = model.range(..=key).rev().take(40);
                    assert!(
                        found
                            .unwrap()
                            .into_iter()
                            .eq(expected.map(|(key, value)| (*key, *value))),
                        "seed {seed}"
                    );
                }
                _ => assert_eq!(tree.get(key).unwrap(), model.get(&key).copied(), "seed {seed}"),
            }
        }
        if shrinks {
            for key in range.take(3 * K::LEAF as usize) {
                assert_eq!(tree.remove(key).unwrap(), model.remove(&key), "seed {seed}");
            }
        }
        if !killed {
            assert_eq!(tree.len(), model.len() as u64, "seed {seed}");
        }
        if round % 7 == 0 {
            assert_eq!(contents(&tree), Ok(model.clone()), "seed {seed}");
        }
        if killed && rng.random_range(0..4) > 0 {
            fault::with(CloseFault::Unsealed, || drop(tree));
        } else {
            drop(tree);
        }
        tree = K::open(&pool).unwrap();
        lazy += u64::from(K::hybrid(&tree).is_lazy());
        if !killed || round % 5 == 0 {
            assert_eq!(tree.len(), model.len() as u64, "seed {seed}");
        }
    }
    assert_eq!(contents(&tree), Ok(model), "seed {seed}");
    assert!(lazy > 20, "seed {seed}: opened from a checkpoint {lazy} times");
}

pub(crate) fn opened_used_and_closed<K: HybridKind>() {
    (0..6).for_each(|seed| agrees_with_a_model::<K>(seed, false));
}

pub(crate) fn opened_used_and_killed<K: HybridKind>() {
    let run = || (0..12).for_each(|seed| agrees_with_a_model::<K>(seed, true));
    run();
    for fault in [CheckpointFault::ReuseUnread, CheckpointFault::UnlinkAnchor] {
        let broken = catch_unwind(AssertUnwindSafe(|| fault.inject(run)));
        assert!(broken.is_err(), "{fault:?}");
    }
}

/// Explores every crash of a tree that is opened from a checkpoint, written and closed. It must always have a
/// checkpoint, from which it opens.
fn survives_closing<K: HybridKind>() -> Result<(), Box<Violation>> {
    let setup = leaves::<K>(20);
    // In the first block and at the end; the others remain pending.
    let last = 20 * K::LEAF * 10;
    let operations = [Do::Update(20, 7), Do::Insert(15), Do::Remove(last)];
    let states = states(&[setup.clone(), operations.to_vec()].concat());
    let explorer = Explorer {
        limit: 60,
        ..Explorer::default()
    };
    let closing = operations.len() as u64;
    let report = explorer.run(
        |medium| {
            let pool = Pool::create_on(Arc::clone(medium)).unwrap();
            run(&mut K::create(&pool), &setup, |_| (), |_| ());
        },
        |medium| {
            let pool = Pool::open_on(Arc::clone(medium)).unwrap();
            let mut tree = K::open(&pool).unwrap();
            let (begin, done) = (|step| medium.begin(step), |step| medium.acknowledge(step));
            run(&mut tree, &operations, begin, done);
            medium.begin(closing);
            drop(tree);
            medium.acknowledge(closing);
        },
        |medium, crash| {
            let pool = Pool::open_on(Arc::clone(&medium)).map_err(|error| error.to_string())?;
            match K::open_read_only(&pool) {
                Ok(tree) if K::hybrid(&tree).is_lazy() => {}
                Ok(_) => return Err("its leaves were read".to_owned()),
                Err(TreeError::NeedsRecovery { .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
            drop(pool);
            let mut acknowledged = crash.acknowledged.to_vec();
            acknowledged.retain(|step| *step != closing);
            let mut crash = *crash;
            crash.acknowledged = &acknowledged;
            crash.in_flight = crash.in_flight.filter(|step| *step != closing);
            check::<K>(medium, &crash, &states, setup.len())
        },
    )?;
    images::count(report.images);
    Ok(())
}

pub(crate) fn closing_with_a_checkpoint<K: HybridKind>() {
    survives_closing::<K>().unwrap_or_else(|violation| panic!("{violation}"));
    let broken = CheckpointFault::Unflushed.inject(survives_closing::<K>);
    assert!(broken.is_err(), "a checkpoint that is not durable");
}

/// Checks that a changed value in a leaf that is not read stays damage when the tree is written elsewhere and
/// closed.
fn unread_damage_stays<K: HybridKind>() {
    let (medium, pool) = closed::<K>();
    medium.store_u64(place_of(&medium, ODD), ODD ^ 1 << 33);
    for round in 0..3 {
        let tree = K::open(&pool).unwrap();
        assert!(K::hybrid(&tree).is_lazy(), "{round}");
        tree.upsert(19 * K::LEAF * 10 + 5, round).unwrap();
    }
    let tree = K::open(&pool).unwrap();
    assert!(matches!(tree.get(20), Err(TreeError::Damaged { .. })));
    assert_eq!(tree.check().unwrap().problems.len(), 1);
    assert!(tree.insert(15 * K::LEAF * 10 + 5, 1).unwrap());
    drop(tree);
    let tree = K::open(&pool).unwrap();
    assert!(!K::hybrid(&tree).is_lazy(), "a damaged tree has no checkpoint");
    assert!(matches!(tree.get(20), Err(TreeError::Damaged { .. })));
}

pub(crate) fn damage_in_leaves_that_were_not_read<K: HybridKind>() {
    unread_damage_stays::<K>();
    let broken = catch_unwind(AssertUnwindSafe(|| {
        CheckpointFault::SealUnread.inject(unread_damage_stays::<K>);
    }));
    assert!(broken.is_err(), "the test would not notice");
}

/// Checks that a checkpoint that contradicts its checksums, or that a program has closed that knows none, is
/// not used.
fn bad_checkpoints_are_ignored<K: HybridKind>() {
    let (medium, pool) = closed::<K>();
    let word = tree_word(&medium, &pool);
    let node = medium.load_u64(word);
    let opened = || -> (bool, Result<TreeContents, String>) {
        let tree = K::open_read_only(&pool).unwrap();
        let lazy = K::hybrid(&tree).is_lazy();
        (lazy, contents(&tree))
    };
    let (lazy, all) = opened();
    assert!(lazy);
    for at in (node..node + K::Leaves::BYTES).step_by(8) {
        let before = medium.load_u64(at);
        medium.store_u64(at, before ^ 1 << 17);
        assert_eq!(opened(), (false, all.clone()), "{}", at - node);
        medium.store_u64(at, before);
    }
    for wrong in [0, 3, 256, node + 8, 1 << 50, u64::MAX] {
        medium.store_u64(word, wrong);
        assert_eq!(opened(), (false, all.clone()), "{wrong}");
    }
    medium.store_u64(word, node);
    assert_eq!(opened(), (true, all));
}

/// Returns the offset of the owner's word in the head of the tree's slab.
fn tree_word(medium: &Tracked, pool: &Pool) -> u64 {
    let at = pool.snapshot().unwrap().get("tree").unwrap().extent_ref(0).offset + 40;
    assert_ne!(medium.load_u64(at), 0);
    at
}

pub(crate) fn checkpoints_that_are_not_valid<K: HybridKind>() {
    bad_checkpoints_are_ignored::<K>();
    let broken = catch_unwind(AssertUnwindSafe(|| {
        CheckpointFault::IgnoreSums.inject(bad_checkpoints_are_ignored::<K>);
    }));
    assert!(broken.is_err(), "the test would not notice");
}

/// Checks that a damaged leaf after an empty anchor is refused, also in batches, and that other leaves of
/// its block are not.
pub(crate) fn damage_behind_an_empty_anchor<K: HybridKind>() {
    let (medium, pool) = closed::<K>();
    let (first, second) = (8 * K::LEAF + 1, 9 * K::LEAF + 1);
    let tree = K::open(&pool).unwrap();
    // The block before it is not read, so the empty leaf stays and becomes an anchor.
    (first..second).for_each(|key| _ = tree.remove(key * 10).unwrap());
    tree.update(second * 10, ODD ^ 1).unwrap();
    drop(tree);
    let at = place_of(&medium, ODD ^ 1);
    medium.store_u64(at, ODD);
    let tree = K::open(&pool).unwrap();
    assert!(K::hybrid(&tree).is_lazy());
    let mut found = [None; 2];
    // The first batch finds the block not built.
    let (before, after) = ((first - 1) * 10, (second + K::LEAF) * 10);
    tree.get_batch(&[before, after], &mut found).unwrap();
    assert_eq!(found, [Some(before + 1), Some(after + 1)]);
    assert!(matches!(tree.get(second * 10), Err(TreeError::Damaged { .. })));
    assert!(matches!(
        tree.get_batch(&[second * 10], &mut [None]),
        Err(TreeError::Damaged { .. })
    ));
    assert_eq!(tree.get(first * 10).unwrap_or(None), None);
    assert_eq!(tree.check().unwrap().problems.len(), 1);
}

/// Empties the first leaf of a block while the block before it has not been read.
fn anchors_remain_linked<K: HybridKind>() {
    let (_, pool) = closed::<K>();
    let mut model = contents(&K::open_read_only(&pool).unwrap()).unwrap();
    for leaf in [8, 12, 4] {
        let tree = K::open(&pool).unwrap();
        assert!(K::hybrid(&tree).is_lazy());
        for key in (leaf * K::LEAF + 1..=(leaf + 1) * K::LEAF).map(|key| key * 10) {
            assert_eq!(tree.remove(key).unwrap(), model.remove(&key));
        }
        assert_eq!(tree.len(), model.len() as u64);
        drop(tree);
    }
    assert_eq!(contents(&K::open(&pool).unwrap()), Ok(model));
}

pub(crate) fn anchors_before_blocks_that_were_not_read<K: HybridKind>() {
    anchors_remain_linked::<K>();
    let broken = catch_unwind(AssertUnwindSafe(|| {
        CheckpointFault::UnlinkAnchor.inject(anchors_remain_linked::<K>);
    }));
    assert!(broken.is_err(), "the test would not notice");
}

/// Checks that a tree whose last entries were removed while some blocks were not read can be loaded again.
pub(crate) fn loading_what_was_emptied<K: HybridKind>() {
    let (_, pool) = closed::<K>();
    let mut tree = K::open(&pool).unwrap();
    let keys: Vec<u64> = (1..=20 * K::LEAF).map(|key| key * 10).collect();
    keys.iter()
        .for_each(|key| _ = tree.remove(*key).unwrap().unwrap());
    assert!(tree.is_empty());
    tree.bulk_load(&mut keys.iter().map(|key| (*key, *key)), 0.8)
        .unwrap();
    let expected: TreeContents = keys.iter().map(|key| (*key, *key)).collect();
    assert_eq!(contents(&tree), Ok(expected.clone()));
    drop(tree);
    assert_eq!(contents(&K::open(&pool).unwrap()), Ok(expected));
}

/// Checks that a tree of which a block may be built in part gets no checkpoint.
pub(crate) fn an_interrupted_build<K: HybridKind>() {
    let (_, pool) = closed::<K>();
    let mut expected = contents(&K::open(&pool).unwrap()).unwrap();
    let tree = K::open(&pool).unwrap();
    K::hybrid(&tree).abandon_build(2);
    tree.update(20, 8).unwrap();
    expected.insert(20, 8);
    drop(tree);
    let tree = K::open(&pool).unwrap();
    assert!(!K::hybrid(&tree).is_lazy());
    assert_eq!(contents(&tree), Ok(expected));
}
