//! Tests of trees that are entirely on the slow tier: changes of inner nodes, damage, and opening.

use std::sync::Arc;
use std::thread;

use halocline_explore::Tracked;
use halocline_media::{Counting, Dram, MediumAccess};
use halocline_pool::{Pool, PoolError};

use super::crash::{all_needed_but, inserts};
use super::workload::{Do, Kind, contents, run};
use crate::persistent::{NodeFormat, NodeHead, NodeRef, PersistentTree};
use crate::{OrderedIndex, Range, TreeError, TreeStats};

/// Internals of such a tree.
pub(crate) trait PersistentKind: Kind {
    type Nodes: NodeFormat;

    /// Redundant flushes and fences of one change of inner nodes; see
    /// [`Needless`](super::workload::Needless).
    const NEEDLESS_ABOVE: usize;

    fn persistent(tree: &Self::Tree) -> &PersistentTree<Self::Nodes>;

    /// Returns the offset of a slot's key in its node.
    fn key_offset(slot: usize) -> u64;
}

/// Defines a type with which such a tree runs all tests.
macro_rules! is_persistent {
    (
        $kind:ident: $tree:ident of $nodes:ident,
        leaf: $leaf:expr,
        needless: $needless:expr,
        needless_above: $above:expr,
        key_offset: $key_offset:expr,
    ) => {
        pub(crate) struct $kind;

        impl $crate::tests::workload::Kind for $kind {
            type Tree = $tree;

            const LEAF: u64 = $leaf;

            const NEEDLESS: $crate::tests::workload::Needless = $needless;

            fn create(pool: &halocline_pool::Pool) -> Self::Tree {
                $tree::create(pool, "tree", 8 << 10).unwrap()
            }

            fn open(pool: &halocline_pool::Pool) -> Result<Self::Tree, $crate::TreeError> {
                $tree::open(pool, "tree")
            }

            fn open_read_only(pool: &halocline_pool::Pool) -> Result<Self::Tree, $crate::TreeError> {
                $tree::open_read_only(pool, "tree")
            }
        }

        impl $crate::tests::persistent::PersistentKind for $kind {
            type Nodes = $nodes;

            const NEEDLESS_ABOVE: usize = $above;

            fn persistent(tree: &$tree) -> &$crate::persistent::PersistentTree<$nodes> {
                &tree.0
            }

            fn key_offset(slot: usize) -> u64 {
                $key_offset(slot)
            }
        }
    };
}

pub(crate) use is_persistent;

/// Returns the positions of the operations that change inner nodes, ignoring the first ones.
fn changes_above<K: Kind>(operations: &[Do], from: usize) -> Vec<usize> {
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

/// Explores each operation that splits or merges inner nodes, or replaces the root, separately.
pub(crate) fn changes_of_inner_nodes<K: PersistentKind + Kind>() {
    let leaf = <K as Kind>::LEAF;
    // Leaves filled in order are full, and so is a root with as many children.
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

/// Creates a tree of several levels; also returns its medium.
fn grown<K: PersistentKind>() -> (Arc<Tracked>, Pool, K::Tree) {
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

/// Returns the leaf of a key, or a node above it.
fn node_of<K: PersistentKind>(tree: &K::Tree, key: u64, level: u32) -> NodeRef<'_> {
    let persistent = K::persistent(tree);
    persistent.at(persistent.node_for(key, level).unwrap())
}

fn is_damaged<T>(result: Result<T, TreeError>, offset: u64) -> bool {
    matches!(result, Err(TreeError::Damaged { node, .. }) if node == offset)
}

/// Returns the number of keys that cannot be read because a node is damaged. All others must be
/// readable; every operation on the key 1,000, or on all keys, must fail.
fn refused(tree: &impl OrderedIndex, node: u64) -> usize {
    let mut refused = 0;
    for key in 0..2_003 {
        match tree.get(key) {
            Ok(found) => assert_eq!(found.is_some(), key * 1_717 % 2_003 < 2_000, "{key}"),
            Err(error) => {
                refused += 1;
                assert!(is_damaged(Err::<(), _>(error), node));
            }
        }
    }
    assert!(is_damaged(tree.insert(1_000, 1), node) && is_damaged(tree.remove(1_000), node));
    assert!(is_damaged(tree.update(1_000, 1), node));
    assert!(is_damaged(tree.scan(0, 3_000, &mut Vec::new()), node));
    assert!(is_damaged(tree.scan_back(2_500, 3_000, &mut Vec::new()), node));
    assert!(is_damaged(tree.get_batch(&[1_000], &mut [None]), node));
    refused
}

/// Checks a leaf with a wrong key: `check` must name it and operations on it must fail, also after the
/// tree is reopened without another check.
pub(crate) fn damaged_leaves_are_named_and_refused<K: PersistentKind>() {
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
        let refused = refused(tree, offset);
        assert!((5..=60).contains(&refused), "{refused}");
    };
    refuses(&tree);
    drop(tree);
    let tree = K::open(&pool).unwrap();
    refuses(&tree);
    assert_eq!(tree.check().unwrap().problems.len(), 1);
    let intact = tree.check().unwrap().entries;
    assert!(intact < 2_000 && tree.len() == intact);
}

/// Damages one inner node above the key 1,000. Operations below it must fail, in the open tree and
/// after it is reopened, and everything else must be readable and writable. `check` must name this node
/// only. After the node is restored, everything must be present.
fn refuses_what_is_below<K: PersistentKind>(
    (medium, pool, mut tree): (Arc<Tracked>, Pool, K::Tree),
    node: u64,
    (at, wrong): (u64, u64),
    noticed: bool,
) {
    let right = medium.load_u64(at);
    let below = K::persistent(&tree).node_for(1_000, 0).unwrap();
    medium.store_u64(at, wrong);
    for key in [10_000, 20_000] {
        if noticed {
            assert!(is_damaged(tree.get(1_000), node));
        }
        let entries = tree.len();
        let report = tree.check().unwrap();
        let named: Vec<u64> = report.problems.iter().map(|problem| problem.node).collect();
        assert_eq!(named, [node], "{at}: {:?}", report.problems);
        let refused = refused(&tree, node);
        assert!((50..=1_500).contains(&refused), "{refused}");
        // Before reopening, the entries had already been counted.
        assert!(
            !noticed || key == 10_000 || entries == report.entries,
            "{entries}"
        );
        for key in key..key + 500 {
            assert!(tree.insert(key, key).unwrap());
        }
        (key..key + 500)
            .step_by(2)
            .for_each(|key| _ = tree.remove(key).unwrap());
        drop(tree);
        tree = K::open(&pool).unwrap();
    }
    drop(tree);
    medium.store_u64(at, right);
    let tree = K::open(&pool).unwrap();
    assert_eq!(contents(&tree).unwrap().len(), 2_500);
    assert_eq!(K::persistent(&tree).node_for(1_000, 0).unwrap(), below);
}

pub(crate) fn damaged_inner_nodes_are_named_and_refused<K: PersistentKind>() {
    for (at, wrong) in [
        (NodeHead::META, 7),
        (NodeHead::LOW, 1_010),
        (NodeHead::LOW, 1_900),
        (NodeHead::HIGH, 990),
        (NodeHead::SIBLING, 3),
    ] {
        let grown = grown::<K>();
        let node = node_of::<K>(&grown.2, 1_000, 1).offset;
        refuses_what_is_below::<K>(grown, node, (node + at, wrong), at != NodeHead::SIBLING);
    }
}

/// Checks links of an inner node that lead nowhere, or to a child of another node.
pub(crate) fn broken_links_are_named_and_refused<K: PersistentKind>() {
    for number in 0..5 {
        let grown = grown::<K>();
        let node = node_of::<K>(&grown.2, 1_000, 1).offset;
        let right = node_of::<K>(&grown.2, 1_000, 0).offset;
        let others = [10, 1_900].map(|key| node_of::<K>(&grown.2, key, 0).offset);
        let links = (0..K::Nodes::CAPACITY).map(|slot| node + K::key_offset(slot) + 8);
        let link = links.into_iter().find(|at| grown.0.load_u64(*at) == right);
        let wrong = [others[0], others[1], 3, 1 << 50, right + 8][number];
        // From a leaf on the left, the sibling links lead to the target of the bad link, until it is noticed.
        refuses_what_is_below::<K>(grown, node, (link.unwrap(), wrong), number > 0);
    }
}

/// Checks a leaf with a wrong head, in an open tree or before it is opened. Every operation must
/// terminate, no result may be wrong, `check` must name a node, and writes must not spread the damage.
pub(crate) fn leaves_with_wrong_heads_end_in_errors<K: PersistentKind>() {
    for (reopen, case) in [false, true]
        .into_iter()
        .flat_map(|reopen| (0..8).map(move |case| (reopen, case)))
    {
        let (medium, pool, mut tree) = grown::<K>();
        let leaf = node_of::<K>(&tree, 1_000, 0);
        let (offset, low, high) = (leaf.offset, leaf.low(), leaf.high());
        let (at, wrong) = [
            (NodeHead::HIGH, high - 1),
            (NodeHead::HIGH, high + 3),
            (NodeHead::HIGH, u64::MAX),
            (NodeHead::HIGH, 0),
            (NodeHead::LOW, low - 3),
            (NodeHead::LOW, low + 1),
            (NodeHead::META, 0),
            (NodeHead::META, leaf.meta() ^ 1),
        ][case];
        if reopen {
            drop(tree);
            medium.store_u64(offset + at, wrong);
            tree = K::open(&pool).unwrap();
        } else {
            medium.store_u64(offset + at, wrong);
        }
        let all: Vec<(u64, u64)> = (0..2_003)
            .filter(|key| key * 1_717 % 2_003 < 2_000)
            .map(|key| (key, key + 1))
            .collect();
        let up = Range::new(&tree, ..).collect::<Result<Vec<_>, _>>();
        assert!(up.is_err(), "{reopen} {case}");
        let down = Range::new(&tree, ..).rev().collect::<Result<Vec<_>, _>>();
        assert!(down.is_err(), "{reopen} {case}");
        assert!(tree.len() <= 2_000);
        for (key, value) in &all {
            match tree.get(*key) {
                Ok(found) => assert_eq!(found, Some(*value), "{reopen} {case}"),
                Err(error) => assert!(is_damaged(Err::<(), _>(error), offset)),
            }
        }
        let more: Vec<u64> = (3_000..4_000)
            .chain((0..2_003).filter(|key| key * 1_717 % 2_003 >= 2_000))
            .collect();
        for key in &more {
            if let Err(error) = tree.insert(*key, 1) {
                assert!(is_damaged(Err::<(), _>(error), offset));
            }
        }
        for key in high - 20..high + 20 {
            if let Err(error) = tree.remove(key) {
                assert!(is_damaged(Err::<(), _>(error), offset));
            }
        }
        let report = tree.check().unwrap();
        let named: Vec<u64> = report.problems.iter().map(|problem| problem.node).collect();
        assert_eq!(named, [offset], "{reopen} {case}: {:?}", report.problems);
        drop(tree);
        assert!(!K::open(&pool).unwrap().check().unwrap().is_intact());
    }
}

/// Checks that a tree with an invalid root node can be opened, but not used, and that one with an
/// invalid link to its root cannot be opened.
pub(crate) fn a_damaged_root_is_named<K: PersistentKind>() {
    let (medium, pool, tree) = grown::<K>();
    let (link, root) = (
        K::persistent(&tree).slab.root(),
        medium.load_u64(K::persistent(&tree).slab.root()),
    );
    drop(tree);
    medium.store_u64(root, 0);
    let tree = K::open(&pool).unwrap();
    assert!(is_damaged(tree.get(7), root) && is_damaged(tree.insert(7, 7), root));
    let report = tree.check().unwrap();
    assert_eq!(report.problems.len(), 1);
    assert_eq!(report.problems[0].node, root);
    assert_eq!((tree.len(), tree.is_empty()), (0, false));
    drop(tree);
    medium.store_u64(link, 3);
    let error = K::open(&pool).map(drop).unwrap_err();
    assert!(
        matches!(error, TreeError::Pool(PoolError::NotANode { .. })),
        "{error}"
    );
}

/// Checks counting during concurrent writes.
pub(crate) fn a_count_among_writers<K: Kind>() {
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

/// Checks that opening a tree that has not crashed writes nothing.
pub(crate) fn opening_writes_nothing<K: Kind>() {
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

/// Compares a key's node with a parent on a level that the tree no longer has, as a thread does that read the
/// height before another one removed the root. That is neither damage nor a reason to read a leaf as a
/// parent.
pub(crate) fn levels_above_the_root_are_not_damage<K: PersistentKind>() {
    let (_, _, tree) = grown::<K>();
    let height = tree.stats().height;
    for level in height..height + 3 {
        K::persistent(&tree).verify_place(1_000, level).unwrap();
    }
    assert!(tree.check().unwrap().is_intact());
    assert!(tree.get(1_000).unwrap().is_some());
}
