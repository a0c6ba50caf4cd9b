//! Slabs through the public interface.

use std::sync::Arc;

use halocline_media::Dram;
use halocline_pool::{ObjectKind, Pool, PoolError, PoolOptions, Slab, SlabOptions};

const OPTIONS: SlabOptions = SlabOptions {
    node_size: 256,
    owner: *b"test\0\0\0\0",
    chunk: 64 << 10,
};

#[test]
fn nodes_are_found_again_in_another_handle() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let slab = pool.create_slab("nodes", &OPTIONS).unwrap();
    let nodes: Vec<u64> = (0..1000).map(|_| slab.alloc().unwrap()).collect();
    for (value, node) in (0..).zip(&nodes) {
        assert!(node.is_multiple_of(256) && slab.is_node(*node));
        slab.medium().store_u64(*node, value);
    }
    let stats = slab.stats();
    assert!(
        stats.used == 1000 && stats.capacity >= 1000 && stats.chunks > 1,
        "{stats:?}"
    );

    let other = Pool::open(&path, &PoolOptions::default()).unwrap();
    let busy = other.open_slab("nodes", OPTIONS.owner);
    assert!(matches!(busy, Err(PoolError::SlabInUse { .. })));
    let txn = other.begin().unwrap();
    assert!(matches!(txn.remove("nodes"), Err(PoolError::SlabInUse { .. })));
    drop(txn);
    drop(slab);
    pool.close().unwrap();

    let mut recovery = other.open_slab("nodes", OPTIONS.owner).unwrap();
    for node in &nodes[..500] {
        recovery.keep(*node).unwrap();
    }
    for broken in [nodes[3], nodes[700] + 8, 0, u64::MAX] {
        let error = recovery.keep(broken).unwrap_err();
        assert!(matches!(error, PoolError::NotANode { .. }), "{error}");
    }
    let slab: Slab = recovery.finish();
    for (value, node) in (0..500).zip(&nodes) {
        assert_eq!(slab.medium().load_u64(*node), value);
    }
    let free = slab.stats().capacity - 500;
    for _ in 0..free {
        assert!(!nodes[..500].contains(&slab.alloc().unwrap()));
    }
    assert_eq!(slab.stats().chunks, stats.chunks);
}

#[test]
fn what_is_asked_for_wrongly_is_refused() {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    for node_size in [0, 100, 65_792] {
        let options = SlabOptions { node_size, ..OPTIONS };
        let error = pool.create_slab("x", &options).unwrap_err();
        assert!(matches!(error, PoolError::InvalidSlab { .. }), "{error}");
    }
    drop(pool.create_slab("nodes", &OPTIONS).unwrap());
    let again = pool.create_slab("nodes", &OPTIONS).unwrap_err();
    assert!(matches!(again, PoolError::AlreadyThere { .. }), "{again}");
    let wrong = pool.open_slab("nodes", *b"other\0\0\0").unwrap_err();
    assert!(
        matches!(&wrong, PoolError::WrongSlab { found, expected, .. } if found == "test" && expected == "other")
    );
    let txn = pool.begin().unwrap();
    let put = txn.put("y", ObjectKind::SLAB, b"", vec![]).unwrap_err();
    assert!(matches!(put, PoolError::IsASlab { .. }), "{put}");
    let nodes = txn.get("nodes").unwrap();
    let shared = txn.put("y", ObjectKind::TABLE, b"", vec![nodes.extent_ref(0)]);
    assert!(matches!(shared, Err(PoolError::UnknownExtent { .. })));
    assert!(matches!(nodes.extent(0), Err(PoolError::IsASlab { .. })));
    txn.put("table", ObjectKind::TABLE, b"", vec![]).unwrap();
    txn.commit().unwrap();
    let table = pool.open_slab("table", OPTIONS.owner).unwrap_err();
    assert!(matches!(table, PoolError::NotASlab { .. }), "{table}");
    assert!(pool.check(|_| ()).unwrap().is_intact());
}

#[test]
#[should_panic(expected = "is not in use")]
fn a_node_is_not_given_back_twice() {
    let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
    let slab = pool.create_slab("nodes", &OPTIONS).unwrap();
    let node = slab.alloc().unwrap();
    slab.free(node);
    slab.free(node);
}

#[test]
fn readers_beside_the_writer_pin_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let slab = pool.create_slab("nodes", &OPTIONS).unwrap();
    let node = slab.alloc().unwrap();
    slab.medium().store_u64(node, 7);
    let read_only = PoolOptions::default().with_read_only(true);
    let other = Pool::open(&path, &read_only).unwrap();
    let wrong = other.observe_slab("nodes", *b"other\0\0\0").unwrap_err();
    assert!(matches!(wrong, PoolError::WrongSlab { .. }), "{wrong}");
    // One in the handle of the writer, one elsewhere.
    for pool in [&pool, &other] {
        let reader = pool.observe_slab("nodes", OPTIONS.owner).unwrap().finish();
        assert_eq!(reader.medium().load_u64(node), 7);
        assert!(slab.pinned(0..Slab::PINS).unwrap().is_empty());
        let pin = reader.pin(9).unwrap();
        let again = reader.pin(9).unwrap();
        let first = reader.pin(0).unwrap();
        let far = reader.pin(Slab::PINS - 1).unwrap();
        drop(reader);
        let is_pinned =
            |number: u64| slab.pinned(number..number + 1).unwrap().first() == Some(&(number..number + 1));
        let expected = [
            (0, true),
            (1, false),
            (8, false),
            (9, true),
            (10, false),
            (Slab::PINS - 1, true),
        ];
        for (number, pinned) in expected {
            assert_eq!(is_pinned(number), pinned, "{number}");
        }
        let mut all = slab.pinned(1..Slab::PINS).unwrap();
        all.sort_by_key(|range| range.start);
        assert_eq!(all, [9..10, Slab::PINS - 1..Slab::PINS]);
        drop((pin, first, far));
        assert!(is_pinned(9));
        drop(again);
        assert!(slab.pinned(0..Slab::PINS).unwrap().is_empty());
    }
}
