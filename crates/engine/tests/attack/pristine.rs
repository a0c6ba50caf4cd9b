//! The pool that is attacked: small, and with one of everything that a pool can hold.

use std::fs;
use std::path::{Path, PathBuf};

use halocline_engine::{Database, DatabaseOptions};
use halocline_pool::{Pool, PoolOptions};
use tokio::runtime::Runtime;

use crate::{tables, trees};

/// Memory with which strings get no dictionary.
const LITTLE: usize = 32 << 20;

/// Where the pool is.
pub(crate) fn path(directory: &Path) -> PathBuf {
    directory.join("pristine.pool")
}

/// Makes it.
pub(crate) fn make(directory: &Path) {
    let path = path(directory);
    let runtime = Runtime::new().unwrap();
    let run = |options: &DatabaseOptions, statements: &[&str]| {
        let database = if path.exists() {
            Database::open(&path, options).unwrap()
        } else {
            Database::create(&path, options).unwrap()
        };
        for statement in statements {
            let done = runtime.block_on(database.sql(statement));
            done.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        database.sync().unwrap();
    };
    // With one thread all comes in the same order each time, so that a seed means the same.
    let usual = DatabaseOptions::default().with_threads(Some(1));
    let little = usual.clone().with_memory(Some(LITTLE));
    run(&usual, tables::MAKE);
    run(&little, tables::MAKE_TEXTS);
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    trees::make(&pool);
    pool.close().unwrap();
    run(&usual, tables::MAKE_LOG);
    // Reads of holes would be reads of zeros.
    assert!(fs::metadata(&path).unwrap().len() < 16 << 20, "the pool is small");
}
