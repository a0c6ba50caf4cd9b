//! Stores that grow while another writer has the pool.

use std::sync::mpsc::channel;

use halocline_pool::{ObjectKind, Pool, PoolOptions};
use halocline_store::{Stores, StoresOptions};

/// A transaction of the pool, like that of an import, ends only after the puts have returned.
#[test]
fn puts_of_several_segments_do_not_wait_for_a_writer_of_the_pool() {
    for background in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
        let options = StoresOptions::default().with_background(background);
        let stores = Stores::open_with(&pool, options).unwrap();
        let store = stores.store("s").unwrap();
        let importer = Pool::open(&path, &PoolOptions::default()).unwrap();
        let (begun, wait_for_begin) = channel();
        let (put, wait_for_puts) = channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let txn = importer.begin().unwrap();
                begun.send(()).unwrap();
                wait_for_puts.recv().unwrap();
                txn.put("imported", ObjectKind::TABLE, b"", vec![]).unwrap();
                txn.commit().unwrap();
            });
            wait_for_begin.recv().unwrap();
            // The pool has a writer: growth would end in an error.
            assert!(pool.begin().is_err());
            for number in 0..350_u32 {
                store.put(number.to_be_bytes(), [1; 1000]).unwrap();
            }
            stores.checkpoint().unwrap();
            put.send(()).unwrap();
        });
        assert!(pool.snapshot().unwrap().object("imported").is_ok());
        // Now it grows.
        for number in 0..3000_u32 {
            store.put(number.to_be_bytes(), [2; 1000]).unwrap();
        }
        assert_eq!(store.scan::<&[u8]>(..).count(), 3000);
    }
}

/// Updates need no growth: emptied segments are used again.
#[test]
fn updates_go_on_beside_a_writer_of_the_pool() {
    let pool = Pool::create_on(std::sync::Arc::new(halocline_media::Dram::new(0).unwrap())).unwrap();
    let options = StoresOptions::default()
        .with_background(false)
        .with_pending_bytes(64 << 10);
    let stores = Stores::open_with(&pool, options).unwrap();
    let store = stores.store("s").unwrap();
    let txn = pool.begin().unwrap();
    for number in 0..10_000_u32 {
        store.put((number % 100).to_be_bytes(), [1; 1000]).unwrap();
    }
    drop(txn);
}
