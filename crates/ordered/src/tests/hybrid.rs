//! Tests of damage in trees with inner nodes in DRAM.

use std::sync::Arc;

use halocline_explore::Tracked;
use halocline_media::{Medium, MediumAccess};
use halocline_pool::{Pool, PoolError};

use super::workload::Kind;
use crate::hybrid::{HybridTree, LeafFormat, LeafRef};
use crate::{OrderedIndex, TreeError};

/// Internals of such a tree.
pub(crate) trait HybridKind: Kind {
    type Leaves: LeafFormat;

    fn hybrid(tree: &Self::Tree) -> &HybridTree<Self::Leaves>;
}

/// Creates a tree of several leaves with the keys 0, 10 and so on; the value is the entry's number.
fn filled<K: HybridKind>() -> (Arc<Tracked>, Pool, K::Tree) {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let tree = K::create(&pool);
    (0..5 * K::LEAF).for_each(|key| _ = tree.insert(key * 10, key).unwrap());
    (medium, pool, tree)
}

/// Returns the offset of a word in a node.
fn place_of<K: HybridKind>(medium: &Tracked, node: u64, word: u64) -> u64 {
    let words = (node..node + K::Leaves::BYTES).step_by(8);
    words.into_iter().find(|at| medium.load_u64(*at) == word).unwrap()
}

pub(crate) fn damaged_leaves_are_named_and_refused<K: HybridKind>() {
    let (medium, pool, tree) = filled::<K>();
    let (count, middle) = (5 * K::LEAF, 5 * K::LEAF / 2 * 10);
    // Replaces the key of an entry.
    let leaf = u64::from(K::hybrid(&tree).inner.find(middle).leaf) * 256;
    medium.store_u64(place_of::<K>(&medium, leaf, middle), middle ^ 0xFFFF);
    let report = tree.check().unwrap();
    assert_eq!(report.problems.len(), 1);
    assert_eq!(report.problems[0].node, leaf);
    let check = |tree: &K::Tree| {
        let damaged = |result: Result<(), TreeError>| matches!(result, Err(TreeError::Damaged { node, .. }) if node == leaf);
        let mut refused = 0;
        for key in 0..count {
            match tree.get(key * 10) {
                Ok(found) => assert_eq!(found, Some(key)),
                Err(error) => {
                    refused += 1;
                    assert!(damaged(Err(error)));
                }
            }
        }
        assert!((K::LEAF / 2..=K::LEAF).contains(&refused), "{refused}");
        assert!(damaged(tree.insert(middle + 1, 1).map(drop)));
        assert!(damaged(tree.remove(middle).map(drop)));
        assert!(damaged(tree.update(middle, 1).map(drop)));
        assert!(damaged(tree.scan(0, 1_000, &mut Vec::new())));
        assert!(damaged(tree.scan_back(u64::MAX, 1_000, &mut Vec::new())));
        assert!(damaged(tree.get_batch(&[middle], &mut [None])));
    };
    check(&tree);
    drop(tree);
    let tree = K::open(&pool).unwrap();
    check(&tree);
    assert_eq!(tree.check().unwrap().problems.len(), 1);
}

pub(crate) fn broken_links_keep_a_tree_from_opening<K: HybridKind>() {
    let (medium, pool, tree) = filled::<K>();
    let offset = medium.load_u64(K::hybrid(&tree).slab.root());
    let right = K::Leaves::next(LeafRef {
        medium: &Medium::from(&medium),
        offset,
    });
    let link = place_of::<K>(&medium, offset, right);
    drop(tree);
    for wrong in [offset, 3, 1 << 50, right + 8] {
        medium.store_u64(link, wrong);
        let error = K::open(&pool).map(drop).unwrap_err();
        let refused = matches!(error, TreeError::Pool(PoolError::NotANode { .. }));
        assert!(refused, "{error}");
    }
    medium.store_u64(link, right);
    assert!(K::open(&pool).is_ok());
}
