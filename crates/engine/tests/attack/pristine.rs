//! The pool that is attacked: small, and with one of everything that a pool can hold.
//!
//! Its stores are as a crash leaves them, with a log after the checkpoint: the file is copied while they are
//! open. The newest generation is the one with the first record of the log; the one before has the same trees
//! and stores, for the cases that lose the newest one.

use std::fs;
use std::path::{Path, PathBuf};

use halocline_engine::{Database, DatabaseOptions};
use halocline_pool::{Pool, PoolOptions};
use tokio::runtime::Runtime;

use crate::{items, keyed, pairs, tables, trees};

/// Memory with which strings get no dictionary.
const LITTLE: usize = 32 << 20;
/// Bytes that the pool may have: reads of holes would be reads of zeros.
const MOST_BYTES: u64 = 32 << 20;

/// Where the pool is.
pub(crate) fn path(directory: &Path) -> PathBuf {
    directory.join("pristine.pool")
}

/// Makes it.
pub(crate) fn make(directory: &Path) {
    let made = directory.join("made.pool");
    let runtime = Runtime::new().unwrap();
    let run = |database: &Database, statements: &[&str]| {
        for statement in statements {
            let done = runtime.block_on(database.sql(statement));
            done.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        database.sync().unwrap();
    };
    // With one thread all comes in the same order each time, so that a seed means the same.
    let usual = DatabaseOptions::default().with_threads(Some(1));
    let little = usual.clone().with_memory(Some(LITTLE));
    run(&Database::create(&made, &usual).unwrap(), tables::MAKE);
    run(&Database::open(&made, &little).unwrap(), tables::MAKE_TEXTS);
    let pool = Pool::open(&made, &PoolOptions::default()).unwrap();
    trees::make(&pool);
    pool.close().unwrap();
    // A server takes trees only for a pool that has no stores yet.
    items::make(&made);
    let database = Database::open(&made, &usual).unwrap();
    run(&database, keyed::MAKE_KEYED);
    let stores = database.stores().unwrap();
    pairs::make(&stores);
    run(&database, keyed::MAKE_BOTH);
    pairs::checkpoint(&stores);
    run(&database, tables::MAKE_LOG);
    run(&database, keyed::MAKE_KEYED_LOG);
    pairs::make_log(&stores);
    database.sync().unwrap();
    drop(database);
    fs::copy(&made, path(directory)).unwrap();
    drop(stores);
    assert!(
        fs::metadata(&made).unwrap().len() < MOST_BYTES,
        "the pool is small"
    );
}
