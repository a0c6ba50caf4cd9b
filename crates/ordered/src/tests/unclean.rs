//! Trees wholly on the slow tier that are used after their process was killed, before it is known which nodes
//! are in use, and killed again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use halocline_explore::{Crash, Explorer, Tracked, Violation};
use halocline_media::Dram;
use halocline_pool::Pool;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::failures::Limited;
use super::faults::InjectedFault;
use super::images;
use super::persistent::PersistentKind;
use super::workload::{Do, Kind, TreeContents, contents, prepare, run, states, work};
use crate::persistent::fault::PersistentFault;
use crate::seal::fault::{self, CloseFault};
use crate::{OrderedIndex, TreeError};

fn kill(tree: impl OrderedIndex) {
    fault::with(CloseFault::Unsealed, || drop(tree));
}

/// Opens a tree, of which it must not be known which nodes are in use.
fn opened<K: PersistentKind>(pool: &Pool) -> Result<K::Tree, String> {
    let tree = K::open(pool).map_err(|error| error.to_string())?;
    if K::persistent(&tree).usage.is_complete() {
        Err("its nodes were read".to_owned())
    } else {
        Ok(tree)
    }
}

/// Number of full leaves, whose parents have a common root.
const LEAVES: u64 = 40;

/// Returns operations on a tree of full leaves: splits, and leaves that become empty, whose nodes are used
/// again.
fn splits_and_removals<K: Kind>() -> Vec<Do> {
    let leaf = K::LEAF * 10;
    let splits = |leaves: std::ops::Range<u64>| leaves.map(move |number| Do::Insert(number * leaf + 15));
    let empty = |number: u64| {
        let keys = (number * K::LEAF + 1..=(number + 1) * K::LEAF).map(|key| key * 10);
        keys.map(Do::Remove)
    };
    let mut operations: Vec<Do> = splits(8..11).collect();
    operations.extend(empty(20));
    operations.extend(splits(30..32));
    operations.extend(empty(4).skip(1));
    operations.extend(splits(0..2));
    operations
}

/// Accepts an image if its tree holds what was acknowledged, also after it was used in part and its process
/// was killed twice, and if no node is lost then.
fn check<K: PersistentKind>(
    medium: Arc<Tracked>,
    crash: &Crash<'_>,
    states: &[TreeContents],
    done: usize,
) -> Result<(), String> {
    let (first, last) = crash.completed(done);
    let pool = Pool::open_on(medium).map_err(|error| error.to_string())?;
    // Splits at both ends and in between, in one life more than the free nodes last for.
    let places = [(25 * K::LEAF * 10, 3 * K::LEAF), (2 * K::LEAF * 10, K::LEAF)];
    let mut fresh = TreeContents::new();
    for (place, count) in places {
        let tree = opened::<K>(&pool)?;
        for key in (place..).filter(|key| key % 5 > 0).take(count as usize) {
            tree.insert(key, key).map_err(|error| error.to_string())?;
            fresh.insert(key, key);
        }
        kill(tree);
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

fn survives<K: PersistentKind>(limit: usize) -> Result<(), Box<Violation>> {
    let setup: Vec<Do> = (1..=LEAVES * K::LEAF).map(|key| Do::Insert(key * 10)).collect();
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

/// Returns true if a closure notices an injected fault.
fn is_noticed<T, E>(fault: PersistentFault, run: impl Fn() -> Result<T, E>) -> bool {
    let result = fault.inject(|| catch_unwind(AssertUnwindSafe(run)));
    !matches!(result, Ok(Ok(_)))
}

pub(crate) fn crashes_of_trees_with_nodes_in_doubt<K: PersistentKind>() {
    survives::<K>(2).unwrap_or_else(|violation| panic!("{violation}"));
    for fault in [
        PersistentFault::ReuseUnread,
        PersistentFault::FreedEarly,
        PersistentFault::ForgetLeaked,
        PersistentFault::PathUnconfirmed,
    ] {
        assert!(is_noticed(fault, || survives::<K>(2)), "{fault:?}");
    }
}

/// Explores random operations in processes that are killed while most nodes are in doubt: few operations
/// each, so that the walk is not completed, on a tree whose inner nodes are split and merged. Returns the
/// bytes of the tree at the end.
fn killed_often<K: PersistentKind>(seed: u64, lives: usize, kills: bool) -> Result<u64, String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let setup: Vec<Do> = (1..=200 * K::LEAF).map(|key| Do::Insert(key * 10)).collect();
    let mut tree = K::create(&pool);
    run(&mut tree, &setup, |_| (), |_| ());
    let mut model = states(&setup).pop().unwrap_or_default();
    for life in 0..lives {
        if kills {
            kill(tree);
            tree = K::open(&pool).map_err(|error| error.to_string())?;
        }
        // Empties leaves in one range and fills those in another one.
        let range = |rng: &mut StdRng| {
            let from = rng.random_range(0..200 * K::LEAF * 10);
            from..from + K::LEAF * 10 * 6
        };
        let gone: Vec<u64> = model.range(range(&mut rng)).map(|entry| *entry.0).collect();
        for key in &gone {
            tree.remove(*key).map_err(|error| error.to_string())?;
            model.remove(key);
        }
        let mut more = range(&mut rng).filter(|key| key % 3 == 0);
        while model.len() < setup.len() {
            let Some(key) = more.next() else {
                break;
            };
            tree.upsert(key, life as u64).map_err(|error| error.to_string())?;
            model.insert(key, life as u64);
        }
    }
    let bytes = K::persistent(&tree).slab.stats().bytes;
    if contents(&tree)? == model {
        Ok(bytes)
    } else {
        Err("wrong contents".to_owned())
    }
}

/// Checks that a tree whose process is killed again and again, before it has found out which nodes are in
/// use, holds what was written and takes hardly more space than one whose process lives on.
pub(crate) fn space_after_many_kills<K: PersistentKind>() {
    let check = |lives: usize| -> Result<(), String> {
        for seed in 0..2 {
            let alive = killed_often::<K>(seed, lives, false)?;
            let killed = killed_often::<K>(seed, lives, true)?;
            // A chunk is a sixteenth of the tree.
            if killed > alive + alive / 8 {
                return Err(format!("seed {seed}: {killed} instead of {alive} bytes"));
            }
        }
        Ok(())
    };
    check(120).unwrap();
    for fault in [
        PersistentFault::GrowInDoubt,
        PersistentFault::ForgetLeaked,
        PersistentFault::FreedEarly,
    ] {
        assert!(is_noticed(fault, || check(120)), "{fault:?}");
    }
}

/// Merges an inner node that the walk has passed with the next one, which it has not.
fn merged_behind_the_walk<K: PersistentKind>() -> Result<(), String> {
    let text = |error: TreeError| error.to_string();
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let mut tree = K::create(&pool);
    let mut model: TreeContents = (0..40 * K::LEAF).map(|key| (key * 10, key)).collect();
    // Nodes of few entries.
    let mut entries = model.iter().map(|(key, value)| (*key, *value));
    tree.bulk_load(&mut entries, 0.3).map_err(text)?;
    kill(tree);
    let tree = opened::<K>(&pool)?;
    let last = 40 * K::LEAF * 10;
    for key in last.. {
        if K::persistent(&tree).usage.passed() > 0 {
            break;
        }
        tree.insert(key, key).map_err(text)?;
        model.insert(key, key);
    }
    assert!(!K::persistent(&tree).usage.is_complete());
    let passed = K::persistent(&tree).usage.passed();
    // All but the first entry of the first inner node.
    let gone: Vec<u64> = model.range(1..passed - 30).map(|entry| *entry.0).collect();
    for key in gone {
        tree.remove(key).map_err(text)?;
        model.remove(&key);
    }
    assert!(!K::persistent(&tree).usage.is_complete());
    if contents(&tree)? == model {
        Ok(())
    } else {
        Err("wrong contents".to_owned())
    }
}

pub(crate) fn merges_behind_the_walk<K: PersistentKind>() {
    merged_behind_the_walk::<K>().unwrap();
    let fault = PersistentFault::MergedUnconfirmed;
    assert!(is_noticed(fault, merged_behind_the_walk::<K>));
}

/// Checks that opening reads the same few words of a tree of any size.
pub(crate) fn opening_reads_the_root_only<K: PersistentKind>() {
    let loads = |keys: u64| {
        let medium = Limited::new();
        let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
        let setup: Vec<Do> = (1..=keys).map(|key| Do::Insert(key * 10)).collect();
        let mut tree = K::create(&pool);
        run(&mut tree, &setup, |_| (), |_| ());
        kill(tree);
        let before = medium.loads.load(Ordering::Relaxed);
        let tree = K::open(&pool).unwrap();
        let opening = medium.loads.load(Ordering::Relaxed) - before;
        assert_eq!(tree.get(10).unwrap(), Some(11));
        opening
    };
    assert_eq!(loads(K::LEAF), loads(60 * K::LEAF));
}
