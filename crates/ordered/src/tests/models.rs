//! Models of a few threads on a small tree, run in thousands of schedules: each access to shared memory
//! may switch to another thread. The results must be linearizable for each key, and the tree intact.
//!
//! Accesses are sequentially consistent, in the order of the schedule. Threads of a tree must wait for
//! each other only by [`Backoff`](crate::locks::Backoff), and must not access shared memory while
//! holding a `std` lock.

#[path = "../../tests/history/mod.rs"]
mod history;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use halocline_pool::Pool;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};

use super::failures::Limited;
use super::faults::InjectedFault;
use super::workload::{Do, Kind, TreeContents, contents, run, states};
use crate::fault::LockFault;
use crate::hybrid::checkpoint::fault::CheckpointFault;
use crate::seal::fault::{self, CloseFault};
use crate::{OrderedIndex, Range};
use history::{Event, linearizable};

thread_local! {
    /// True while threads are modelled. They are coroutines of one real thread.
    static MODELLED: Cell<bool> = const { Cell::new(false) };
}

/// Allows a switch to another thread.
#[inline]
pub(crate) fn point() {
    if MODELLED.get() && !std::thread::panicking() {
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// Forces a switch to another thread; returns false if none is modelled.
pub(crate) fn wait() -> bool {
    let modelled = MODELLED.get() && !std::thread::panicking();
    if modelled {
        shuttle::thread::yield_now();
    }
    modelled
}

/// An operation of a modelled thread.
#[derive(Debug, Clone, Copy)]
enum Op {
    Insert(u64),
    Remove(u64),
    Update(u64),
    Get(u64),
    Batch(u64),
    /// Scans the whole tree in both directions.
    Scan,
}

use Op::{Batch, Get, Insert, Remove, Scan, Update};

impl Op {
    fn key(self) -> Option<u64> {
        match self {
            Insert(key) | Remove(key) | Update(key) | Get(key) | Batch(key) => Some(key),
            Scan => None,
        }
    }

    /// Executes the operation. Returns the key's value before and after it, or `None` where that is
    /// unknown.
    fn run(self, tree: &dyn OrderedIndex, fresh: u64) -> Option<(Option<u64>, Option<u64>)> {
        match self {
            Insert(key) => tree.insert(key, fresh).unwrap().then_some((None, Some(fresh))),
            Remove(key) => Some((tree.remove(key).unwrap(), None)),
            Update(key) => {
                let before = tree.update(key, fresh).unwrap();
                Some((before, before.map(|_| fresh)))
            }
            Get(key) => {
                let found = tree.get(key).unwrap();
                Some((found, found))
            }
            Batch(key) => {
                let mut found = [None];
                tree.get_batch(&[key], &mut found).unwrap();
                Some((found[0], found[0]))
            }
            Scan => None,
        }
    }
}

/// Modelled threads and the operations before they start.
#[derive(Debug, Clone)]
struct Model {
    setup: Vec<Do>,
    /// The way in which the tree is opened again after the setup.
    reopen: Reopening,
    threads: Vec<Vec<Op>>,
}

/// A way to open a tree again before the threads of a model start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reopening {
    None,
    AfterClosing,
    AfterKill,
}

fn kill<K: Kind>(tree: K::Tree) {
    fault::with(CloseFault::Unsealed, || drop(tree));
}

impl Model {
    /// Runs one schedule.
    fn run<K: Kind>(&self)
    where
        K::Tree: 'static,
    {
        MODELLED.set(false);
        let pool = Pool::create_on(Limited::new()).unwrap();
        let mut tree = K::create(&pool);
        run(&mut tree, &self.setup, |_| (), |_| ());
        if self.reopen != Reopening::None {
            match self.reopen {
                Reopening::AfterKill => kill::<K>(tree),
                _ => drop(tree),
            }
            tree = K::open(&pool).unwrap();
            // The first write holds a `std` lock. It builds the first block.
            assert_eq!(tree.update(1, 1).unwrap(), None);
        }
        let before = states(&self.setup).pop().unwrap_or_default();
        let stay: TreeContents = before
            .iter()
            .filter(|(key, _)| !self.threads.iter().flatten().any(|op| op.key() == Some(**key)))
            .map(|(key, value)| (*key, *value))
            .collect();
        let shared = Arc::new((tree, stay, AtomicU64::new(1 << 32), Mutex::new(Vec::new())));
        MODELLED.set(true);
        let threads: Vec<_> = self
            .threads
            .iter()
            .cloned()
            .map(|ops| {
                let shared = Arc::clone(&shared);
                shuttle::thread::spawn(move || {
                    let (tree, stay, clock, events) = &*shared;
                    ops.into_iter()
                        .for_each(|op| perform(tree, op, stay, clock, events));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        MODELLED.set(false);
        let (tree, _, _, events) = Arc::into_inner(shared).unwrap();
        let events = events.into_inner().unwrap();
        linearizable(events, |key| before.get(&key).copied()).unwrap_or_else(|history| panic!("{history}"));
        let found = contents(&tree).unwrap_or_else(|wrong| panic!("{wrong}"));
        kill::<K>(tree);
        assert_eq!(contents(&K::open(&pool).unwrap()), Ok(found));
    }

    /// Runs many schedules derived from a seed.
    fn explore<K: Kind>(&self, schedules: usize, seed: u64) {
        fn explored<K: Kind>(model: &Model, scheduler: impl Scheduler + 'static) {
            let mut config = Config::new();
            config.stack_size = 256 << 10;
            config.failure_persistence = FailurePersistence::None;
            let model = model.clone();
            Runner::new(scheduler, config).run(move || model.run::<K>());
        }
        explored::<K>(self, RandomScheduler::new_from_seed(seed, schedules / 2));
        explored::<K>(self, PctScheduler::new_from_seed(seed, 3, schedules / 2));
    }
}

fn perform(
    tree: &impl OrderedIndex,
    op: Op,
    stay: &TreeContents,
    clock: &AtomicU64,
    events: &Mutex<Vec<Event>>,
) {
    let now = || clock.fetch_add(1, Ordering::SeqCst);
    let Some(key) = op.key() else {
        let up: Vec<(u64, u64)> = Range::new(tree, ..).map(Result::unwrap).collect();
        let mut down: Vec<(u64, u64)> = Range::new(tree, ..).rev().map(Result::unwrap).collect();
        down.reverse();
        for found in [up, down] {
            assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0), "{found:?}");
            let there = found.iter().filter(|(key, _)| stay.contains_key(key)).copied();
            assert!(
                there.eq(stay.iter().map(|(key, value)| (*key, *value))),
                "{found:?}"
            );
        }
        return;
    };
    let start = now();
    if let Some((before, after)) = op.run(tree, start) {
        let end = now();
        let event = Event {
            key,
            start,
            end,
            before,
            after,
        };
        events.lock().unwrap().push(event);
    }
}

/// Returns the number of schedules of each model, `HALOCLINE_SCHEDULES` (400).
fn schedules() -> usize {
    let schedules = std::env::var("HALOCLINE_SCHEDULES").ok();
    schedules.and_then(|count| count.parse().ok()).unwrap_or(400)
}

fn keys(range: std::ops::RangeInclusive<u64>) -> impl Iterator<Item = u64> {
    range.map(|key| key * 10)
}

/// Models the split of a full leaf while other threads use entries that stay and entries that move.
fn split<K: Kind>() -> Model {
    let last = K::LEAF * 10;
    Model {
        setup: keys(1..=K::LEAF).map(Do::Insert).collect(),
        reopen: Reopening::None,
        threads: vec![
            vec![Insert(15), Get(last)],
            vec![Get(last), Batch(last), Get(10), Update(last)],
            vec![Remove(last), Insert(last), Insert(last - 5)],
        ],
    }
}

/// Models a leaf that becomes empty while other threads insert into it and read its neighbour. `first`
/// selects the first leaf of the parent.
fn empty_leaf<K: Kind>(first: bool) -> Model {
    let leaf = K::LEAF;
    let (gone, left) = if first {
        (1..=leaf, 1)
    } else {
        (leaf + 1..=2 * leaf, leaf + 1)
    };
    let fill = keys(1..=2 * leaf + 2).map(Do::Insert);
    let remove = keys(gone).filter(|key| *key != left * 10).map(Do::Remove);
    let beside = (leaf + if first { 1 } else { 0 }) * 10;
    Model {
        setup: fill.chain(remove).collect(),
        reopen: Reopening::None,
        threads: vec![
            vec![Remove(left * 10), Insert(left * 10 + 1)],
            vec![Get(left * 10), Insert(left * 10), Remove(left * 10)],
            vec![Get(beside), Update(beside), Batch(beside), Scan],
        ],
    }
}

/// Models splits and merges of inner nodes, with enough leaves for the root to have, or be about to
/// have, two levels below it.
fn inner_nodes<K: Kind>() -> Model {
    let leaf = K::LEAF;
    let last = leaf * 29 * 10;
    Model {
        setup: keys(1..=leaf * 29).map(Do::Insert).collect(),
        reopen: Reopening::None,
        threads: vec![
            vec![Insert(15), Insert(last - 5)],
            vec![Get(last), Insert(leaf * 10 + 5), Get(10)],
            vec![Get(leaf * 20), Scan],
        ],
    }
}

/// Models the first operations after an opening from a checkpoint: two blocks of four leaves are read, and
/// the first leaf of one of them becomes empty.
fn unread_blocks<K: Kind>(reopen: Reopening) -> Model {
    let leaf = K::LEAF;
    let left = leaf * 8 + 1;
    let remove = (left + 1..=leaf * 9).map(|key| Do::Remove(key * 10));
    let last = leaf * 8 * 10;
    Model {
        setup: keys(1..=leaf * 13).map(Do::Insert).chain(remove).collect(),
        reopen,
        threads: vec![
            vec![Remove(left * 10), Insert(left * 10 + 1)],
            vec![Get(last), Insert(last - 5), Get(left * 10)],
            vec![Batch(last), Update(last), Scan],
        ],
    }
}

/// Models a leaf that becomes empty while the leaves before it in its block are added to the inner nodes.
fn half_read_block<K: Kind>(reopen: Reopening) -> Model {
    let leaf = K::LEAF;
    let left = leaf * 7 + 1;
    let remove = (left + 1..=leaf * 8).map(|key| Do::Remove(key * 10));
    Model {
        setup: keys(1..=leaf * 13).map(Do::Insert).chain(remove).collect(),
        reopen,
        threads: vec![
            vec![Get(leaf * 5 * 10)],
            vec![Remove(left * 10), Get(leaf * 6 * 10)],
            vec![Insert(left * 10 + 1), Remove(left * 10 + 1)],
        ],
    }
}

pub(crate) fn threads_and_splits<K: Kind>() {
    split::<K>().explore::<K>(schedules(), 1);
}

pub(crate) fn threads_and_empty_leaves<K: Kind>() {
    empty_leaf::<K>(true).explore::<K>(schedules(), 2);
    empty_leaf::<K>(false).explore::<K>(schedules(), 3);
}

pub(crate) fn threads_and_inner_nodes<K: Kind>() {
    inner_nodes::<K>().explore::<K>(schedules() / 8, 4);
}

pub(crate) fn threads_and_blocks_that_were_not_read<K: Kind>() {
    for (reopen, seed) in [(Reopening::AfterClosing, 6), (Reopening::AfterKill, 7)] {
        unread_blocks::<K>(reopen).explore::<K>(schedules() / 4, seed);
        half_read_block::<K>(reopen).explore::<K>(schedules() / 4, seed + 10);
    }
}

/// Models the first operations on a tree whose nodes were not visited since it was opened: splits and merges
/// of leaves under different parents, while it is not known which nodes are in use.
pub(crate) fn threads_and_nodes_that_were_not_visited<K: Kind>() {
    for (reopen, seed) in [(Reopening::AfterClosing, 20), (Reopening::AfterKill, 21)] {
        let inner = Model {
            reopen,
            ..inner_nodes::<K>()
        };
        inner.explore::<K>(schedules() / 8, seed);
        let empty = Model {
            reopen,
            ..empty_leaf::<K>(false)
        };
        empty.explore::<K>(schedules() / 2, seed + 10);
    }
}

/// Models a checkpoint that is written while leaves that it is about to name become empty.
fn checkpoint<K: Kind>() -> Model {
    let leaf = K::LEAF;
    let left = |number: u64| number * leaf + 1;
    // After the split of the first leaf, every fourth one from the third on becomes an anchor.
    let remove = [7, 11]
        .into_iter()
        .flat_map(|number| left(number) + 1..=(number + 1) * leaf);
    let setup = keys(1..=leaf * 17).map(Do::Insert);
    Model {
        setup: setup.chain(remove.map(|key| Do::Remove(key * 10))).collect(),
        reopen: Reopening::None,
        threads: vec![
            // The checkpoint is due after one more split.
            vec![Insert(15)],
            vec![Remove(left(7) * 10), Remove(left(11) * 10)],
            vec![Get(left(11) * 10), Insert(left(7) * 10 + 1)],
        ],
    }
}

pub(crate) fn threads_and_checkpoints<K: Kind>() {
    checkpoint::<K>().explore::<K>(schedules() / 2, 18);
}

/// Returns true if schedules of a model show that a rule is broken.
fn is_noticed(fault: CheckpointFault, model: &Model, seed: u64) -> bool {
    let work = || model.explore::<super::lb::Lb<1, true>>(4_000, seed);
    let result = fault.inject(|| catch_unwind(AssertUnwindSafe(work)));
    MODELLED.set(false);
    result.is_err()
}

#[test]
fn injected_faults_of_blocks_are_noticed() {
    type Lb = super::lb::Lb<1, true>;
    let reopen = Reopening::AfterClosing;
    assert!(is_noticed(
        CheckpointFault::BuiltEarly,
        &unread_blocks::<Lb>(reopen),
        7
    ));
    assert!(is_noticed(
        CheckpointFault::UnlinkBehindAnchor,
        &half_read_block::<Lb>(reopen),
        9
    ));
    assert!(is_noticed(CheckpointFault::PinUnchecked, &checkpoint::<Lb>(), 19));
}

#[test]
fn injected_faults_of_locking_are_noticed() {
    use super::lb::Lb;
    for fault in [
        LockFault::LeafUnvalidated,
        LockFault::NodeUnvalidated,
        LockFault::WriterUnchecked,
    ] {
        let work = || split::<Lb<1, true>>().explore::<Lb<1, true>>(40_000, 5);
        let result = fault.inject(|| catch_unwind(AssertUnwindSafe(work)));
        MODELLED.set(false);
        assert!(result.is_err(), "{fault:?}");
    }
}
