//! The trees of the attacked pool: one of each kind, and what must be found in them.

use std::collections::BTreeMap;
use std::ops::Bound;

use halocline_ordered::{OrderedIndex, TreeError, TreeKind, create_tree_in, open_tree, open_tree_read_only};
use halocline_pool::Pool;
use halocline_workloads::SplitMix64;

/// Entries that are inserted into each.
const ENTRIES: u64 = 2400;
/// Bytes that a tree takes of the pool at a time.
const CHUNK: u64 = 16 << 10;
/// Entries that are looked up.
const LOOKUPS: u64 = 40;

/// The name of the tree of a kind.
pub(crate) fn name(kind: TreeKind) -> String {
    format!("tree/{kind}")
}

/// The entries of each tree.
pub(crate) fn entries() -> BTreeMap<u64, u64> {
    let entries = (0..ENTRIES).map(|number| (number * 7919 % 100_003, number));
    entries.filter(|(key, _)| !is_removed(*key)).collect()
}

fn is_removed(key: u64) -> bool {
    (20_000..30_000).contains(&key) || key.is_multiple_of(5)
}

/// Makes all of them.
pub(crate) fn make(pool: &Pool) {
    for kind in TreeKind::ALL {
        let tree = create_tree_in(pool, &name(*kind), *kind, CHUNK).unwrap();
        for number in 0..ENTRIES {
            assert!(tree.insert(number * 7919 % 100_003, number).unwrap());
        }
        for key in (0..100_003).filter(|key| is_removed(*key)) {
            tree.remove(key).unwrap();
        }
    }
}

/// The state of a tree after a case.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) errors: Vec<TreeError>,
    /// Answers that are not right.
    pub(crate) wrong: Vec<String>,
    /// `check` has found nothing.
    pub(crate) clean: bool,
}

/// Asks a tree for entries, one by one and in order, and has it checked. `write`: changes it as well.
pub(crate) fn visit(pool: &Pool, kind: TreeKind, write: bool, rng: &mut SplitMix64) -> Seen {
    let mut seen = Seen::default();
    let tree = if write {
        open_tree(pool, &name(kind))
    } else {
        open_tree_read_only(pool, &name(kind))
    };
    match tree {
        Ok(tree) => ask(&*tree, write, rng, &mut seen),
        Err(error) => seen.errors.push(error),
    }
    seen
}

fn ask(tree: &dyn OrderedIndex, write: bool, rng: &mut SplitMix64, seen: &mut Seen) {
    let mut model = entries();
    look(tree, &model, rng, seen);
    if write {
        change(tree, &mut model, rng, seen);
    }
    let report = tree.check();
    seen.clean = report.as_ref().is_ok_and(|report| report.is_intact());
    seen.errors.extend(report.err());
}

fn change(tree: &dyn OrderedIndex, model: &mut BTreeMap<u64, u64>, rng: &mut SplitMix64, seen: &mut Seen) {
    let key = 50_001 + rng.below(1000);
    match tree.upsert(key, 1) {
        Ok(before) => {
            if before != model.insert(key, 1) {
                seen.wrong.push(format!("upsert of {key} found {before:?}"));
            }
        }
        Err(error) => seen.errors.push(error),
    }
    let start = 60_001 + rng.below(1000);
    for key in model
        .range(start..start + 400)
        .map(|(key, _)| *key)
        .collect::<Vec<_>>()
    {
        match tree.remove(key) {
            Ok(before) => {
                if before != model.remove(&key) {
                    seen.wrong.push(format!("removal of {key} found {before:?}"));
                }
            }
            Err(error) => seen.errors.push(error),
        }
    }
    // What could not be changed may be as it was, or not.
    if seen.errors.is_empty() {
        look(tree, model, rng, seen);
    }
}

fn look(tree: &dyn OrderedIndex, model: &BTreeMap<u64, u64>, rng: &mut SplitMix64, seen: &mut Seen) {
    for _ in 0..LOOKUPS {
        let near = rng.below(101_000);
        let key = match rng.below(4) {
            0 => near,
            _ => model.range(near..).next().map_or(near, |(key, _)| *key),
        };
        match tree.get(key) {
            Ok(value) if value == model.get(&key).copied() => {}
            Ok(value) => seen.wrong.push(format!("get of {key} is {value:?}")),
            Err(error) => seen.errors.push(error),
        }
    }
    let mut forward = Vec::new();
    match tree.scan(0, usize::MAX, &mut forward) {
        Ok(()) if forward.iter().copied().eq(model.iter().map(pair)) => {}
        Ok(()) => seen
            .wrong
            .push(format!("scan has {} of {} entries", forward.len(), model.len())),
        Err(error) => seen.errors.push(error),
    }
    let from = rng.below(101_000);
    let below = || {
        model
            .range((Bound::Unbounded, Bound::Included(from)))
            .rev()
            .map(pair)
    };
    let mut backward = Vec::new();
    match tree.scan_back(from, usize::MAX, &mut backward) {
        Ok(()) if backward.iter().copied().eq(below()) => {}
        Ok(()) => seen.wrong.push(format!(
            "scan_back has {} of {} entries",
            backward.len(),
            below().count()
        )),
        Err(error) => seen.errors.push(error),
    }
    if seen.errors.is_empty() && tree.len() != model.len() as u64 {
        seen.wrong
            .push(format!("len is {} of {}", tree.len(), model.len()));
    }
}

fn pair((key, value): (&u64, &u64)) -> (u64, u64) {
    (*key, *value)
}
