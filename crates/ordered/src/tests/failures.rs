//! A medium that fails, a pool that is full, nodes that are damaged, pools of other things.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halocline_media::{MediaError, Medium, MediumKind, Tracked};
use halocline_pool::{ObjectKind, Pool, PoolError};

use super::workload::{Lb, contents};
use crate::{LbOptions, LbTree, OrderedIndex, TreeError};

const OPTIONS: LbOptions = Lb::<1, true>::OPTIONS;

/// Tracked memory that does not grow beyond a length, and whose fences fail after so many.
struct Limited {
    medium: Tracked,
    most: AtomicU64,
    fences: AtomicU64,
}

impl Limited {
    fn new() -> Arc<Limited> {
        Arc::new(Limited {
            medium: Tracked::new(0).unwrap(),
            most: AtomicU64::new(u64::MAX),
            fences: AtomicU64::new(u64::MAX),
        })
    }
}

impl Medium for Limited {
    fn kind(&self) -> MediumKind {
        self.medium.kind()
    }

    fn len(&self) -> u64 {
        self.medium.len()
    }

    fn grow(&self, new_len: u64) -> Result<(), MediaError> {
        match new_len > self.most.load(Ordering::Relaxed) {
            true => Err(MediaError::DiskFull {
                path: PathBuf::from("small disk"),
                wanted: new_len,
            }),
            false => self.medium.grow(new_len),
        }
    }

    fn refresh(&self) -> Result<u64, MediaError> {
        self.medium.refresh()
    }

    fn load(&self, offset: u64, into: &mut [u8]) {
        self.medium.load(offset, into);
    }

    fn load_u64(&self, offset: u64) -> u64 {
        self.medium.load_u64(offset)
    }

    #[allow(unsafe_code, reason = "hands the caller's promise on")]
    unsafe fn slice(&self, offset: u64, len: usize) -> &[u8] {
        // SAFETY: the caller's promise is the medium's.
        unsafe { self.medium.slice(offset, len) }
    }

    fn prefetch(&self, offset: u64) {
        self.medium.prefetch(offset);
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        self.medium.store(offset, bytes);
    }

    fn store_u64(&self, offset: u64, value: u64) {
        self.medium.store_u64(offset, value);
    }

    fn flush(&self, offset: u64, len: u64) {
        self.medium.flush(offset, len);
    }

    fn fence(&self) -> Result<(), MediaError> {
        let left = self.fences.load(Ordering::Relaxed);
        if left == 0 {
            return Err(MediaError::Poisoned {
                name: "a disk".to_owned(),
                first: "it broke".to_owned(),
            });
        }
        self.fences.store(left - 1, Ordering::Relaxed);
        self.medium.fence()
    }

    fn sync(&self) -> Result<(), MediaError> {
        self.medium.sync()
    }

    fn fence_is_durable(&self) -> bool {
        true
    }
}

fn tree(medium: &Arc<Limited>) -> (Pool<Limited>, LbTree<Limited>) {
    let pool = Pool::create_on(Arc::clone(medium)).unwrap();
    let tree = LbTree::create(&pool, "tree", OPTIONS).unwrap();
    (pool, tree)
}

#[test]
fn a_full_pool_changes_nothing() {
    let medium = Limited::new();
    let (_pool, tree) = tree(&medium);
    medium.most.store(medium.len(), Ordering::Relaxed);
    let mut inserted = 0;
    let error = loop {
        match tree.insert(inserted * 3 % 1_000_003, inserted) {
            Ok(_) => inserted += 1,
            Err(error) => break error,
        }
    };
    let full = matches!(error, TreeError::Pool(PoolError::DiskFull { .. }));
    assert!(full, "{error}");
    assert_eq!(contents(&tree).unwrap().len() as u64, inserted);
    // What needs no room goes on, and makes some.
    assert_eq!(tree.update(0, 7).unwrap(), Some(0));
    for key in 0..100 {
        tree.remove(key * 3).unwrap();
    }
    medium.most.store(u64::MAX, Ordering::Relaxed);
    tree.insert(inserted * 3 % 1_000_003, inserted).unwrap();
    assert_eq!(contents(&tree).unwrap().len() as u64, inserted - 99);
}

#[test]
fn a_medium_that_fails_takes_no_more_and_can_be_read() {
    // At every fence of a workload with splits and removals.
    for after in 0..90 {
        let medium = Limited::new();
        let (_pool, tree) = tree(&medium);
        for key in 0..28 {
            tree.insert(key * 10, key).unwrap();
        }
        medium.fences.store(after, Ordering::Relaxed);
        let inserts = (0..30).map(|key| tree.insert(key * 9 + 1, 1).map(drop));
        let removals = (0..28).map(|key| tree.remove(key * 10).map(drop));
        let first = inserts.chain(removals).find_map(Result::err);
        let Some(first) = first else { continue };
        assert!(
            matches!(first, TreeError::Media(MediaError::Poisoned { .. })),
            "{first}"
        );
        let next = tree.insert(7, 7).unwrap_err();
        assert!(matches!(next, TreeError::Poisoned { .. }), "{next}");
        assert!(matches!(tree.remove(10), Err(TreeError::Poisoned { .. })));
        // Reads go on, and see a whole tree.
        let report = tree.check().unwrap();
        assert!(report.is_intact(), "after {after} fences: {:?}", report.problems);
        let mut all = Vec::new();
        tree.scan(0, 1_000, &mut all).unwrap();
        for (key, value) in all {
            assert_eq!(tree.get(key).unwrap(), Some(value), "after {after} fences");
        }
    }
}

#[test]
fn damaged_leaves_are_named_and_refused() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let tree: LbTree<Tracked> = LbTree::create(&pool, "tree", OPTIONS).unwrap();
    for key in 0..100 {
        tree.insert(key * 10, key).unwrap();
    }
    // Another key in an entry of the leaf that has the key 500.
    let leaf = tree.inner.find(500).leaf;
    let offset = u64::from(leaf) * 256;
    let before = medium.load_u64(offset + 16 + 11 * 16);
    medium.store_u64(offset + 16 + 11 * 16, before ^ 0xFFFF);
    let report = tree.check().unwrap();
    assert_eq!(report.problems.len(), 1);
    assert_eq!(report.problems[0].node, offset);
    let check = |tree: &LbTree<Tracked>| {
        let damaged = |result: Result<(), TreeError>| matches!(result, Err(TreeError::Damaged { node, .. }) if node == offset);
        let mut refused = 0;
        for key in 0..100 {
            match tree.get(key * 10) {
                Ok(found) => assert_eq!(found, Some(key)),
                Err(error) => {
                    refused += 1;
                    assert!(damaged(Err(error)));
                }
            }
        }
        assert!((7..=14).contains(&refused), "{refused}");
        assert!(damaged(tree.insert(501, 1).map(drop)) && damaged(tree.remove(500).map(drop)));
        assert!(damaged(tree.update(500, 1).map(drop)));
        assert!(damaged(tree.scan(0, 1_000, &mut Vec::new())));
        assert!(damaged(tree.scan_back(u64::MAX, 1_000, &mut Vec::new())));
        assert!(damaged(tree.get_batch(&[500], &mut [None])));
    };
    check(&tree);
    drop(tree);
    let tree: LbTree<Tracked> = LbTree::open(&pool, "tree", OPTIONS).unwrap();
    check(&tree);
    assert_eq!(tree.check().unwrap().problems.len(), 1);
}

#[test]
fn broken_links_keep_a_tree_from_opening() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let tree: LbTree<Tracked> = LbTree::create(&pool, "tree", OPTIONS).unwrap();
    for key in 0..100 {
        tree.insert(key * 10, key).unwrap();
    }
    let first = medium.load_u64(tree.slab.root());
    let link = first + 240 + 8 * (medium.load_u64(first) >> 15 & 1);
    drop(tree);
    let right = medium.load_u64(link);
    for wrong in [first, 3, 1 << 50, right + 8] {
        medium.store_u64(link, wrong);
        let error = LbTree::<Tracked>::open(&pool, "tree", OPTIONS).unwrap_err();
        assert!(
            matches!(error, TreeError::Pool(PoolError::NotANode { .. })),
            "{error}"
        );
    }
    medium.store_u64(link, right);
    assert!(LbTree::<Tracked>::open(&pool, "tree", OPTIONS).is_ok());
}

#[test]
fn other_things_are_refused() {
    let pool = Pool::create_on(Arc::new(Tracked::new(0).unwrap())).unwrap();
    drop(LbTree::<Tracked, 2>::create(&pool, "tree", OPTIONS).unwrap());
    let open = |name: &str| {
        LbTree::<Tracked, 1>::open(&pool, name, OPTIONS)
            .map(drop)
            .unwrap_err()
    };
    let refused = |error: TreeError| match error {
        TreeError::Pool(error) => error,
        other => panic!("{other}"),
    };
    assert!(matches!(refused(open("tree")), PoolError::WrongSlab { .. }));
    assert!(matches!(refused(open("other")), PoolError::NoSuchObject { .. }));
    let txn = pool.begin().unwrap();
    txn.put("table", ObjectKind::TABLE, b"", vec![]).unwrap();
    txn.commit().unwrap();
    assert!(matches!(refused(open("table")), PoolError::NotASlab { .. }));
    let again = LbTree::<Tracked, 1>::create(&pool, "tree", OPTIONS)
        .map(drop)
        .unwrap_err();
    assert!(matches!(refused(again), PoolError::AlreadyThere { .. }));
    let tree = LbTree::<Tracked, 2>::open(&pool, "tree", OPTIONS).unwrap();
    let twice = LbTree::<Tracked, 2>::open(&pool, "tree", OPTIONS)
        .map(drop)
        .unwrap_err();
    assert!(matches!(refused(twice), PoolError::SlabInUse { .. }));
    drop(tree);
}
