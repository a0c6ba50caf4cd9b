//! Many threads on one tree: the history of each key is checked for linearizability, and ranges for the
//! entries they must and must not contain.

mod history;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use halocline_media::Dram;
use halocline_ordered::{HotIndex, HotIndexOptions, HotMode, OrderedIndex, Range, TreeKind, create_tree};
use halocline_pool::Pool;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use history::{Event, linearizable};

fn tree(kind: TreeKind) -> Box<dyn OrderedIndex> {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    create_tree(&pool, "tree", kind).unwrap()
}

/// Runs random operations on a few keys by several threads and returns their histories.
fn history(tree: &dyn OrderedIndex, threads: u64, operations: u64, keys: u64, seed: u64) -> Vec<Event> {
    let clock = AtomicU64::new(0);
    let now = || clock.fetch_add(1, Ordering::SeqCst);
    let work = |thread: u64| {
        let mut rng = StdRng::seed_from_u64(seed << 8 | thread);
        let mut events = Vec::new();
        for number in 0..operations {
            let key = rng.random_range(0..keys) * 1_000_003;
            let fresh = (thread << 32 | number) + 1;
            let choice = rng.random_range(0..10);
            let start = now();
            let (before, after) = match choice {
                0..3 => {
                    if tree.insert(key, fresh).unwrap() {
                        (None, Some(fresh))
                    } else {
                        // The previous value is not returned.
                        continue;
                    }
                }
                3 => (tree.upsert(key, fresh).unwrap(), Some(fresh)),
                4 => {
                    let before = tree.update(key, fresh).unwrap();
                    (before, before.map(|_| fresh))
                }
                5..8 => (tree.remove(key).unwrap(), None),
                8 => {
                    let found = tree.get(key).unwrap();
                    (found, found)
                }
                _ => {
                    let mut found = [None];
                    tree.get_batch(&[key], &mut found).unwrap();
                    (found[0], found[0])
                }
            };
            let end = now();
            events.push(Event {
                key,
                start,
                end,
                before,
                after,
            });
        }
        events
    };
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        handles
            .into_iter()
            .flat_map(|handle| handle.join().unwrap())
            .collect()
    })
}

fn histories_are_linearizable(name: &str, create: impl Fn() -> Box<dyn OrderedIndex>) {
    for (keys, operations, seed) in [(1, 300, 1), (40, 4_000, 2), (2_000, 30_000, 3)] {
        let tree = create();
        let events = history(&*tree, 4, operations, keys, seed);
        let result = linearizable(events, |_| None);
        result.unwrap_or_else(|history| panic!("{name}, seed {seed}, {history}"));
        let report = tree.check().unwrap();
        assert!(report.is_intact(), "seed {seed}: {:?}", report.problems);
        assert_eq!(report.entries, tree.len());
        assert_eq!(report.leaves, tree.stats().leaves);
    }
}

#[test]
fn histories() {
    for kind in TreeKind::ALL {
        histories_are_linearizable(kind.name(), || tree(*kind));
    }
}

/// The cache has fewer places than there are keys, so copies come and go all the time.
#[test]
fn histories_through_a_cache_of_hot_keys() {
    for mode in HotMode::ALL {
        let options = HotIndexOptions::default()
            .with_mode(*mode)
            .with_bytes(24 << 10)
            .with_period(100)
            .with_always_on(true);
        histories_are_linearizable(mode.name(), || {
            Box::new(HotIndex::new(tree(TreeKind::Lb), options).unwrap())
        });
    }
}

#[test]
fn ranges_see_what_stays_and_nothing_that_never_was() {
    TreeKind::ALL.iter().copied().for_each(ranges);
}

fn ranges(kind: TreeKind) {
    const KEYS: u64 = 6_000;
    let tree = tree(kind);
    // Even keys stay; odd ones are inserted and removed.
    for key in (0..KEYS).step_by(2) {
        tree.insert(key, key).unwrap();
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..2 {
            let (tree, over) = (&*tree, &over);
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(writer);
                while !over.load(Ordering::Relaxed) {
                    let start = rng.random_range(0..KEYS / 2) * 2 + 1;
                    let keys = || (start..(start + 300).min(KEYS)).step_by(2);
                    keys().for_each(|key| _ = tree.insert(key, key).unwrap());
                    keys().for_each(|key| _ = tree.remove(key).unwrap());
                }
            });
        }
        for turn in 0..60_u64 {
            let (low, high) = (turn * 50, KEYS - turn * 20);
            let up: Vec<u64> = Range::new(&*tree, low..high)
                .map(|entry| entry.unwrap().0)
                .collect();
            let mut down: Vec<u64> = Range::new(&*tree, low..high)
                .rev()
                .map(|entry| entry.unwrap().0)
                .collect();
            down.reverse();
            for found in [up, down] {
                assert!(
                    found.windows(2).all(|pair| pair[0] < pair[1]),
                    "in order, each once"
                );
                assert!(found.iter().all(|key| (low..high).contains(key)));
                let stay = found.iter().copied().filter(|key| key.is_multiple_of(2));
                assert!(stay.eq((low..high).filter(|key| key.is_multiple_of(2))));
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(tree.check().unwrap().is_intact());
}

#[test]
fn threads_that_empty_and_fill_the_same_leaves() {
    TreeKind::ALL.iter().copied().for_each(empty_and_fill);
}

fn empty_and_fill(kind: TreeKind) {
    let tree = tree(kind);
    thread::scope(|scope| {
        for worker in 0..4_u64 {
            let tree = &*tree;
            scope.spawn(move || {
                for _ in 0..20 {
                    let keys = || (0..1_000).map(move |key| key * 4 + worker);
                    keys().for_each(|key| assert!(tree.insert(key, key).unwrap()));
                    keys().for_each(|key| assert_eq!(tree.get(key).unwrap(), Some(key)));
                    keys().for_each(|key| assert_eq!(tree.remove(key).unwrap(), Some(key)));
                }
            });
        }
    });
    assert_eq!(tree.len(), 0);
    let report = tree.check().unwrap();
    assert!(report.is_intact(), "{:?}", report.problems);
    assert_eq!((report.entries, report.leaves), (0, tree.stats().leaves));
}
