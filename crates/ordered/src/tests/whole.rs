//! Trees wholly on the slow tier: changes of inner nodes, damage, what opening reads.

use std::sync::Arc;
use std::thread;

use halocline_media::{Counting, Dram, Medium, Tracked};
use halocline_pool::{Pool, PoolError};

use super::crash::{all_needed_but, inserts};
use super::workload::{Do, Kind, contents, run};
use crate::whole::{Format, Node, NodeHead, Whole};
use crate::{OrderedIndex, TreeError, TreeStats};

/// Such a tree, seen from inside.
pub(crate) trait Inside: Kind<Tracked> {
    type Nodes: Format;

    /// As [`Needless`](super::workload::Needless), of one change of inner nodes.
    const NEEDLESS_ABOVE: usize;

    fn whole(tree: &Self::Tree) -> &Whole<Tracked, Self::Nodes>;

    /// Where in a node the key of a slot is.
    fn key_offset(slot: usize) -> u64;
}

/// The numbers of operations that change inner nodes, after so many that do not count.
fn changes_above<K: Kind<Dram>>(operations: &[Do], from: usize) -> Vec<usize> {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let mut tree = K::create(&pool);
    let above = |stats: TreeStats| (stats.inner_nodes, stats.height);
    let mut before = above(tree.stats());
    let mut changes = Vec::new();
    for (number, operation) in operations.iter().enumerate() {
        run(&mut tree, std::slice::from_ref(operation), |_| (), |_| ());
        let after = above(tree.stats());
        if number >= from && after != before {
            changes.push(number);
        }
        before = after;
    }
    changes
}

/// Each operation that splits or joins inner nodes, or changes the root, alone.
pub(crate) fn changes_of_inner_nodes<K: Inside + Kind<Dram>>() {
    let leaf = <K as Kind<Tracked>>::LEAF;
    // Leaves that are filled in order are full, and so is the root when it has as many.
    let full = inserts((1..=leaf * leaf).map(|key| key * 10));
    for key in [5, leaf * leaf * 5 + 5, leaf * leaf * 10 + 5] {
        all_needed_but::<K>(K::NEEDLESS_ABOVE, &full, &inserts([key]));
    }
    let count = full.len() + 1;
    let removals = (1..=leaf * leaf).map(|key| Do::Remove(key * 10));
    for (key, removals) in [
        (5, removals.clone().collect::<Vec<_>>()),
        (5, removals.rev().collect()),
    ] {
        let operations = [full.clone(), inserts([key]), removals].concat();
        let changes = changes_above::<K>(&operations, count);
        assert!(!changes.is_empty());
        for change in changes {
            let (setup, rest) = operations.split_at(change);
            all_needed_but::<K>(K::NEEDLESS_ABOVE, setup, &rest[..1]);
        }
    }
}

/// A tree of several levels, and its medium.
fn grown<K: Inside>() -> (Arc<Tracked>, Pool<Tracked>, K::Tree) {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let mut tree = K::create(&pool);
    run(
        &mut tree,
        &inserts((0..2_000).map(|key| key * 7 % 2_003)),
        |_| (),
        |_| (),
    );
    assert!(tree.stats().height >= 2);
    (medium, pool, tree)
}

/// The leaf of a key, or a node above it.
fn node_of<K: Inside>(tree: &K::Tree, key: u64, level: u32) -> Node<'_, Tracked> {
    let whole = K::whole(tree);
    whole.at(whole.node_for(key, level).unwrap())
}

fn is_damaged<T>(result: Result<T, TreeError>, offset: u64) -> bool {
    matches!(result, Err(TreeError::Damaged { node, .. }) if node == offset)
}

/// A key that is another one: `check` names the leaf, and whatever needs it is refused, also after the tree is opened again, when
/// nobody has checked it.
pub(crate) fn damaged_leaves_are_named_and_refused<K: Inside>() {
    let (medium, pool, tree) = grown::<K>();
    let leaf = node_of::<K>(&tree, 1_000, 0);
    let offset = leaf.offset;
    let (slot, _) = K::Nodes::find(leaf, 1_000).unwrap();
    let at = offset + K::key_offset(slot);
    medium.store_u64(at, 1_500);
    let report = tree.check().unwrap();
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert_eq!(report.problems[0].node, offset);
    let refuses = |tree: &K::Tree| {
        let mut refused = 0;
        for key in 0..2_003 {
            match tree.get(key) {
                Ok(found) => assert_eq!(found.is_some(), key * 1_717 % 2_003 < 2_000, "{key}"),
                Err(error) => {
                    refused += 1;
                    assert!(is_damaged(Err::<(), _>(error), offset));
                }
            }
        }
        assert!((5..=60).contains(&refused), "{refused}");
        assert!(is_damaged(tree.insert(1_000, 1), offset) && is_damaged(tree.remove(1_000), offset));
        assert!(is_damaged(tree.update(1_000, 1), offset));
        assert!(is_damaged(tree.scan(0, 3_000, &mut Vec::new()), offset));
        assert!(is_damaged(
            tree.scan_back(u64::MAX, 3_000, &mut Vec::new()),
            offset
        ));
        assert!(is_damaged(tree.get_batch(&[1_000], &mut [None]), offset));
    };
    refuses(&tree);
    drop(tree);
    let tree = K::open(&pool).unwrap();
    refuses(&tree);
    assert_eq!(tree.check().unwrap().problems.len(), 1);
    let intact = tree.check().unwrap().entries;
    assert!(intact < 2_000 && tree.len() == intact);
}

/// An inner node that contradicts itself or its parent is refused as soon as it is met, and keeps a tree from opening.
pub(crate) fn damaged_inner_nodes_are_refused<K: Inside>() {
    for (at, wrong) in [
        (NodeHead::META, 7),
        (NodeHead::LOW, 1_200),
        (NodeHead::HIGH, 900),
        (NodeHead::SIBLING, 3),
    ] {
        let (medium, pool, tree) = grown::<K>();
        let node = node_of::<K>(&tree, 1_000, 1);
        let offset = node.offset;
        medium.store_u64(offset + at, wrong);
        if at != NodeHead::SIBLING {
            assert!(tree.get(1_000).is_err(), "{at}");
        }
        assert!(!tree.check().unwrap().is_intact());
        assert!(tree.get(1_000).is_err(), "{at}");
        drop(tree);
        if at != NodeHead::SIBLING {
            assert!(is_damaged(K::open(&pool), offset), "{at}");
        }
    }
}

/// Links of an inner node that lead nowhere, or twice to a node.
pub(crate) fn broken_links_keep_a_tree_from_opening<K: Inside>() {
    let (medium, pool, tree) = grown::<K>();
    let node = node_of::<K>(&tree, 1_000, 1);
    let mut slots = Vec::new();
    K::Nodes::each(node, |key, link| slots.push((key, link)));
    let other = slots[1].1;
    let at = (0..30).map(|slot| node.offset + K::key_offset(slot) + 8);
    let at = at
        .into_iter()
        .find(|at| medium.load_u64(*at) == slots[0].1)
        .unwrap();
    drop(tree);
    let right = medium.load_u64(at);
    for wrong in [other, 3, 1 << 50, right + 8] {
        medium.store_u64(at, wrong);
        let error = K::open(&pool).map(drop).unwrap_err();
        let refused = matches!(error, TreeError::Pool(PoolError::NotANode { .. }));
        assert!(refused, "{error}");
    }
    medium.store_u64(at, right);
    assert_eq!(contents(&K::open(&pool).unwrap()).unwrap().len(), 2_000);
}

/// Entries are counted while others write.
pub(crate) fn a_count_among_writers<K: Kind<Dram>>() {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let tree = K::create(&pool);
    for key in 0..20_000 {
        tree.insert(key * 3, key).unwrap();
    }
    drop(tree);
    let tree = K::open(&pool).unwrap();
    thread::scope(|scope| {
        for worker in 0..2 {
            let tree = &tree;
            scope.spawn(move || {
                for key in 0..20_000 {
                    assert!(tree.insert(key * 3 + 1 + worker, key).unwrap());
                    if key % 2 == worker {
                        assert!(tree.remove(key * 3).unwrap().is_some());
                    }
                }
            });
        }
        scope.spawn(|| assert!((20_000..=60_000).contains(&tree.len())));
    });
    assert_eq!(tree.len(), 40_000);
    assert_eq!(tree.check().unwrap().entries, 40_000);
}

/// Nothing is to be mended in a tree that no crash has met.
pub(crate) fn opening_writes_nothing<K>()
where
    K: Kind<Counting<Tracked>>,
{
    let medium = Arc::new(Counting::new(Tracked::new(0).unwrap()));
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let tree = K::create(&pool);
    for key in 0..5_000_u64 {
        tree.insert(key * 7_919 % 100_003, key).unwrap();
    }
    drop(tree);
    let before = medium.counts();
    let tree = K::open(&pool).unwrap();
    assert_eq!(tree.get(7_919).unwrap(), Some(1));
    assert_eq!(tree.len(), 5_000);
    assert!(tree.check().unwrap().is_intact());
    let cost = medium.counts() - before;
    assert_eq!((cost.lines, cost.fences), (0, 0));
}
