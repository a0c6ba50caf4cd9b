//! A server whose pool has another writer, such as an open SQL transaction: items are stored meanwhile, as the
//! stores and the slabs of the items keep room for that.

use std::time::Duration;

use halocline_pool::{ObjectKind, Pool, PoolOptions};

use crate::support::process::{ServerProcess, connect};

/// Items that are stored beside the transaction.
const ITEMS: usize = 50;
/// How long to wait for the server to let the pool grow, at most.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn sets_do_not_wait_for_an_open_transaction() {
    for options in [&[][..], &["--tree", "lb"]] {
        let directory = tempfile::tempdir().unwrap();
        let mut process = ServerProcess::start(directory.path(), options);
        let mut client = connect(directory.path());
        // The slab for items of this size, where items are in trees.
        client.talk("set first 0 0 5\r\nfirst\r\n", "STORED\r\n");
        let pool = Pool::open(directory.path().join("cache.pool"), &PoolOptions::default()).unwrap();
        let transaction = pool.begin_wait(LONG).unwrap();
        transaction.put("table", ObjectKind::TABLE, b"", vec![]).unwrap();
        for number in 0..ITEMS {
            client.talk(&format!("set k{number} 0 0 1\r\nx\r\n"), "STORED\r\n");
        }
        client.talk(
            "delete k0\r\nget k0 k1\r\n",
            "DELETED\r\nVALUE k1 0 1\r\nx\r\nEND\r\n",
        );
        // It ends after all replies.
        transaction.commit().unwrap();
        client.talk("set last 0 0 1\r\ny\r\n", "STORED\r\n");
        process.kill();
    }
}
