//! Small workloads with known contents after each operation.

use std::collections::BTreeMap;
use std::sync::Arc;

use halocline_explore::{Crash, Explorer, MutantReport, Tracked, Violation};
use halocline_pool::Pool;

use super::images;
use crate::seal::fault::{self, CloseFault};
use crate::{OrderedIndex, Range, TreeError};

pub(crate) type TreeContents = BTreeMap<u64, u64>;

/// An operation of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Do {
    Insert(u64),
    Remove(u64),
    /// Replaces the value of a key.
    Update(u64, u64),
    /// Bulk-loads the multiples of 3 up to this key.
    Load(u64),
}

/// A tree under test, which is created on any kind of medium, always with the same name.
pub(crate) trait Kind: 'static {
    type Tree: OrderedIndex;

    /// Capacity of a leaf in entries.
    const LEAF: u64;

    /// Redundant flushes and fences.
    const NEEDLESS: Needless = Needless::NONE;

    fn create(pool: &Pool) -> Self::Tree;

    fn open(pool: &Pool) -> Result<Self::Tree, TreeError>;

    fn open_read_only(pool: &Pool) -> Result<Self::Tree, TreeError>;
}

/// The number of flushes and fences in each scenario of [`crash`](super::crash) that may be left out
/// unnoticed because other ones do their work. A tree states the reasons for its numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needless {
    pub(crate) inserts: usize,
    pub(crate) splits: usize,
    pub(crate) changes: usize,
    /// Number for each leaf that becomes empty.
    pub(crate) empty_leaves: usize,
    pub(crate) loads: usize,
}

impl Needless {
    pub(crate) const NONE: Needless = Needless {
        inserts: 0,
        splits: 0,
        changes: 0,
        empty_leaves: 0,
        loads: 0,
    };
}

/// Returns the contents before the first and after each operation.
pub(crate) fn states(operations: &[Do]) -> Vec<TreeContents> {
    let mut states = vec![TreeContents::new()];
    for operation in operations {
        let mut next = states.last().cloned().unwrap_or_default();
        match *operation {
            Do::Insert(key) => drop(next.insert(key, key + 1)),
            Do::Remove(key) => drop(next.remove(&key)),
            Do::Update(key, value) => drop(next.insert(key, value)),
            Do::Load(most) => next.extend((0..most).step_by(3).map(|key| (key, key + 1))),
        }
        states.push(next);
    }
    states
}

pub(crate) fn run(tree: &mut impl OrderedIndex, operations: &[Do], begun: impl Fn(u64), done: impl Fn(u64)) {
    for (number, operation) in (0..).zip(operations) {
        begun(number);
        match *operation {
            Do::Insert(key) => assert!(tree.insert(key, key + 1).unwrap()),
            Do::Remove(key) => assert!(tree.remove(key).unwrap().is_some()),
            Do::Update(key, value) => assert!(tree.update(key, value).unwrap().is_some()),
            Do::Load(most) => {
                let mut entries = (0..most).step_by(3).map(|key| (key, key + 1));
                tree.bulk_load(&mut entries, 0.8).unwrap();
            }
        }
        done(number);
    }
}

/// Returns all entries of a tree, which must be intact and leak no nodes.
pub(crate) fn contents(tree: &impl OrderedIndex) -> Result<TreeContents, String> {
    let report = tree.check().map_err(|error| error.to_string())?;
    if let Some(problem) = report.problems.first() {
        return Err(problem.to_string());
    }
    let stats = tree.stats();
    if stats.leaves != report.leaves || stats.entries != report.entries {
        return Err(format!("{stats:?}, but {report:?}"));
    }
    let entries: Result<Vec<_>, _> = Range::new(tree, ..).collect();
    let entries = entries.map_err(|error| error.to_string())?;
    for (key, value) in &entries {
        match tree.get(*key) {
            Ok(Some(found)) if found == *value => {}
            other => return Err(format!("key {key} has {value}, or {other:?}")),
        }
    }
    let count = entries.len();
    let contents: TreeContents = entries.into_iter().collect();
    if contents.len() == count && count as u64 == report.entries {
        Ok(contents)
    } else {
        Err(format!("{count} entries, {} keys, {report:?}", contents.len()))
    }
}

/// Accepts an image if its tree holds what was acknowledged, with or without the operation in flight,
/// and if it can be used further and reopened at any time.
pub(crate) fn check<K: Kind>(
    medium: Arc<Tracked>,
    crash: &Crash<'_>,
    states: &[TreeContents],
    done: usize,
) -> Result<(), String> {
    let (first, last) = crash.completed(done);
    let pool = Pool::open_on(medium).map_err(|error| error.to_string())?;
    let tree = K::open(&pool).map_err(|error| error.to_string())?;
    let mut found = contents(&tree)?;
    if found != states[first] && found != states[last] {
        let only = |a: &TreeContents, b: &TreeContents| -> Vec<(u64, u64)> {
            let other = a.iter().filter(|(key, value)| b.get(key) != Some(value));
            other.map(|(key, value)| (*key, *value)).collect()
        };
        return Err(format!(
            "missing {:?}, too much {:?} after {first} operations",
            only(&states[first], &found),
            only(&found, &states[first])
        ));
    }
    // Traces of the interrupted operation must not show up later.
    for key in [5, 101, 1_003, 77, 40_001].into_iter().chain(2_000..2_020) {
        tree.upsert(key, 9).map_err(|error| error.to_string())?;
        found.insert(key, 9);
    }
    let gone: Vec<u64> = found.keys().copied().step_by(2).collect();
    for key in gone {
        tree.remove(key).map_err(|error| error.to_string())?;
        found.remove(&key);
    }
    drop(tree);
    let again = K::open(&pool).map_err(|error| error.to_string())?;
    if contents(&again)? == found {
        Ok(())
    } else {
        Err("what came after the crash is not there".to_owned())
    }
}

/// Creates a tree with the setup applied, closed or not. The first store to a closed tree takes an
/// additional flush and fence.
pub(crate) fn prepare<K: Kind>(medium: &Arc<Tracked>, setup: &[Do], closed: bool) {
    let pool = Pool::create_on(Arc::clone(medium)).unwrap();
    let mut tree = K::create(&pool);
    run(&mut tree, setup, |_| (), |_| ());
    if closed {
        drop(tree)
    } else {
        fault::with(CloseFault::Unsealed, || drop(tree))
    }
}

pub(crate) fn work<K: Kind>(medium: &Arc<Tracked>, operations: &[Do]) {
    let pool = Pool::open_on(Arc::clone(medium)).unwrap();
    let mut tree = K::open(&pool).unwrap();
    run(
        &mut tree,
        operations,
        |number| medium.begin(number),
        |number| medium.acknowledge(number),
    );
    // Closing has a scenario of its own.
    fault::with(CloseFault::Unsealed, || drop(tree));
}

/// Explores operations on a tree with the setup applied, leaving out every flush and fence in turn.
pub(crate) fn explore<K: Kind>(limit: usize, setup: &[Do], operations: &[Do]) -> MutantReport {
    let states = states(&[setup, operations].concat());
    let explorer = Explorer {
        limit,
        ..Explorer::default()
    };
    let report = explorer.mutants(
        |medium| prepare::<K>(medium, setup, false),
        |medium| work::<K>(medium, operations),
        |medium, crash| check::<K>(medium, crash, &states, setup.len()),
    );
    let report = report.unwrap_or_else(|violation| panic!("{violation}"));
    images::count(report.images);
    report
}

/// Explores the operations once without leaving anything out.
pub(crate) fn survives<K: Kind>(
    limit: usize,
    seed: u64,
    setup: &[Do],
    operations: &[Do],
) -> Result<(), Box<Violation>> {
    let states = states(&[setup, operations].concat());
    let explorer = Explorer {
        limit,
        seed,
        ..Explorer::default()
    };
    let report = explorer.run(
        |medium| prepare::<K>(medium, setup, true),
        |medium| work::<K>(medium, operations),
        |medium, crash| check::<K>(medium, crash, &states, setup.len()),
    );
    report.map(|report| images::count(report.images))
}
