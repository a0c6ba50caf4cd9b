//! Tests of failures: a failing medium, a full pool, damaged nodes, and pools with other objects.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halocline_explore::Tracked;
use halocline_media::{MediaError, MediumAccess, MediumBackend, forward_medium};
use halocline_pool::{ObjectKind, Pool, PoolError, SlabOptions};

use super::workload::{Kind, contents};
use crate::sched;
use crate::{
    LbOptions, LbTree, OrderedIndex, TreeError, TreeKind, create_tree_in, open_tree, tree_kind, trees,
};

/// Tracked memory of limited length, whose fences fail after a number of them. Where threads are
/// modelled, each access is a scheduling point.
pub(crate) struct Limited {
    medium: Tracked,
    most: AtomicU64,
    fences: AtomicU64,
    /// Number of words that were loaded.
    pub(crate) loads: AtomicU64,
}

impl Limited {
    pub(crate) fn new() -> Arc<Limited> {
        Arc::new(Limited {
            medium: Tracked::new(0).unwrap(),
            most: AtomicU64::new(u64::MAX),
            fences: AtomicU64::new(u64::MAX),
            loads: AtomicU64::new(0),
        })
    }
}

impl MediumAccess for Limited {
    forward_medium!(medium: len, load, slice, prefetch, store, flush);

    fn load_u64(&self, offset: u64) -> u64 {
        sched::point();
        self.loads.fetch_add(1, Ordering::Relaxed);
        self.medium.load_u64(offset)
    }

    fn store_u64(&self, offset: u64, value: u64) {
        sched::point();
        self.medium.store_u64(offset, value);
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
}

impl MediumBackend for Limited {
    forward_medium!(medium: kind, refresh, sync);

    fn grow(&self, new_len: u64) -> Result<(), MediaError> {
        if new_len > self.most.load(Ordering::Relaxed) {
            Err(MediaError::DiskFull {
                path: PathBuf::from("small disk"),
                wanted: new_len,
            })
        } else {
            self.medium.grow(new_len)
        }
    }

    fn fence_is_durable(&self) -> bool {
        true
    }
}

fn tree<K: Kind>(medium: &Arc<Limited>) -> (Pool, K::Tree) {
    let pool = Pool::create_on(Arc::clone(medium)).unwrap();
    let tree = K::create(&pool);
    (pool, tree)
}

pub(crate) fn a_full_pool_changes_nothing<K: Kind>() {
    let medium = Limited::new();
    let (_pool, tree) = tree::<K>(&medium);
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
    // An update needs no room and succeeds.
    assert_eq!(tree.update(0, 7).unwrap(), Some(0));
    for key in 0..100 {
        tree.remove(key * 3).unwrap();
    }
    medium.most.store(u64::MAX, Ordering::Relaxed);
    tree.insert(inserted * 3 % 1_000_003, inserted).unwrap();
    assert_eq!(contents(&tree).unwrap().len() as u64, inserted - 99);
}

pub(crate) fn a_medium_that_fails_takes_no_more_and_can_be_read<K: Kind>() {
    // Fails each fence of a workload with splits and removals in turn.
    for after in 0..6 * K::LEAF {
        let medium = Limited::new();
        let (_pool, tree) = tree::<K>(&medium);
        for key in 0..2 * K::LEAF {
            tree.insert(key * 10, key).unwrap();
        }
        medium.fences.store(after, Ordering::Relaxed);
        let inserts = (0..2 * K::LEAF + 2).map(|key| tree.insert(key * 9 + 1, 1).map(drop));
        let removals = (0..2 * K::LEAF).map(|key| tree.remove(key * 10).map(drop));
        let first = inserts.chain(removals).find_map(Result::err);
        let Some(first) = first else { continue };
        assert!(
            matches!(first, TreeError::Media(MediaError::Poisoned { .. })),
            "{first}"
        );
        let next = tree.insert(7, 7).unwrap_err();
        assert!(matches!(next, TreeError::Poisoned { .. }), "{next}");
        assert!(matches!(tree.remove(10), Err(TreeError::Poisoned { .. })));
        // Reads continue and see a consistent tree.
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
fn other_things_are_refused() {
    let pool = Pool::create_on(Arc::new(Tracked::new(0).unwrap())).unwrap();
    drop(LbTree::<2>::create(&pool, "tree", LbOptions::default()).unwrap());
    let open = |name: &str| {
        LbTree::<1>::open(&pool, name, LbOptions::default())
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
    let again = LbTree::<1>::create(&pool, "tree", LbOptions::default())
        .map(drop)
        .unwrap_err();
    assert!(matches!(refused(again), PoolError::AlreadyThere { .. }));
    let tree = LbTree::<2>::open(&pool, "tree", LbOptions::default()).unwrap();
    let twice = LbTree::<2>::open(&pool, "tree", LbOptions::default())
        .map(drop)
        .unwrap_err();
    assert!(matches!(refused(twice), PoolError::SlabInUse { .. }));
    drop(tree);
}

#[test]
fn trees_are_opened_as_what_they_are() {
    let pool = Pool::create_on(Arc::new(Tracked::new(0).unwrap())).unwrap();
    let mut made = Vec::new();
    for kind in TreeKind::ALL {
        let name = format!("tree/{kind}");
        let tree = create_tree_in(&pool, &name, *kind, 8 << 10).unwrap();
        assert!(tree.insert(1, 2).unwrap());
        assert_eq!(kind.to_string().parse::<TreeKind>().unwrap(), *kind);
        made.push((name, *kind));
    }
    made.sort();
    let options = SlabOptions {
        node_size: 256,
        owner: *b"other\0\0\0",
        chunk: 4096,
    };
    drop(pool.create_slab("slab", &options).unwrap());
    let txn = pool.begin().unwrap();
    txn.put("table", ObjectKind::TABLE, b"", vec![]).unwrap();
    txn.commit().unwrap();
    assert_eq!(trees(&pool).unwrap(), made);
    for (name, kind) in &made {
        assert_eq!(tree_kind(&pool, name).unwrap(), *kind);
        assert_eq!(open_tree(&pool, name).unwrap().get(1).unwrap(), Some(2));
    }
    for (name, what) in [("slab", "slab of a 'other\\x00\\x00\\x00'"), ("table", "table")] {
        match open_tree(&pool, name).map(drop) {
            Err(TreeError::NotATree { found, .. }) => assert_eq!(found, what),
            other => panic!("{other:?}"),
        }
    }
    let missing = open_tree(&pool, "nothing").map(drop);
    assert!(matches!(
        missing,
        Err(TreeError::Pool(PoolError::NoSuchObject { .. }))
    ));
    let unknown = "b".parse::<TreeKind>();
    assert!(matches!(unknown, Err(TreeError::UnknownKind { .. })));
}
