//! Trees in files, with every kind of durability that the machine supports.

use halocline_ordered::{TreeKind, create_tree, open_tree};
use halocline_pool::{Pool, PoolOptions};

#[test]
fn a_tree_is_there_after_closing_its_pool() {
    TreeKind::ALL.iter().copied().for_each(close_and_open);
}

fn close_and_open(kind: TreeKind) {
    let options = [
        PoolOptions::default(),
        PoolOptions::default().with_assume_dax(true),
        PoolOptions::default().with_strict(true),
    ];
    for options in options {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        // Enough leaves of 256 bytes for a checkpoint.
        let count = if options.strict { 60 } else { 80_000 };
        let pool = Pool::create(&path, &options).unwrap();
        let tree = create_tree(&pool, "tree", kind).unwrap();
        for key in 0..count {
            assert!(tree.insert(key * 7, key).unwrap());
        }
        pool.sync().unwrap();
        assert_eq!(tree.remove(7).unwrap(), Some(1));
        drop(tree);
        pool.close().unwrap();
        let pool = Pool::open(&path, &options).unwrap();
        assert!(pool.check(|_| ()).unwrap().is_intact());
        let tree = open_tree(&pool, "tree").unwrap();
        assert!(tree.check().unwrap().is_intact());
        assert_eq!(tree.len(), count - 1);
        assert_eq!(tree.get(7 * (count - 1)).unwrap(), Some(count - 1));
        assert_eq!(tree.get(7).unwrap(), None);
    }
}
