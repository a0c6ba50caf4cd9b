//! The file changes under an open pool: deleted, replaced, moved or truncated. No commit is acknowledged that
//! nobody would find again.

use std::fs;
use std::path::Path;

use halocline_pool::{ObjectKind, Pool, PoolError, PoolOptions};

fn put(pool: &Pool, seed: u8) -> Result<u64, PoolError> {
    let txn = pool.begin()?;
    let mut writer = txn.alloc(100)?;
    writer.append(&[seed; 100]);
    let extent = writer.finish(100)?;
    txn.put("table/a", ObjectKind::TABLE, b"", vec![extent])?;
    txn.commit()
}

fn with_log(path: &Path) -> Pool {
    let pool = Pool::create(path, &PoolOptions::default()).unwrap();
    let txn = pool.begin().unwrap();
    txn.put_log("log", 8192).unwrap();
    txn.commit().unwrap();
    pool
}

#[test]
fn nothing_is_acknowledged_into_a_file_that_is_gone() {
    for replace in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.pool");
        let pool = with_log(&path);
        put(&pool, 1).unwrap();
        // Transactions that began before the file changed.
        let appending = pool.begin().unwrap();
        let saved = directory.path().join("saved");
        fs::rename(&path, &saved).unwrap();
        if replace {
            fs::copy(&saved, &path).unwrap();
        }
        let gone = |result: Result<u64, PoolError>| {
            let error = result.unwrap_err();
            assert!(matches!(error, PoolError::FileGone { .. }), "{error}");
            assert!(error.to_string().contains("test.pool"), "{error}");
        };
        gone(appending.log_append("log", b"record"));
        appending.put("table/b", ObjectKind::TABLE, b"", vec![]).unwrap();
        appending.put_log("log", 8192).unwrap();
        drop(appending);
        gone(put(&pool, 2));
        // Open snapshots stay readable, and work continues once the file is back.
        let object = pool.snapshot().unwrap().object("table/a").unwrap();
        assert_eq!(*object.extent(0).unwrap(), [1; 100]);
        fs::rename(&saved, &path).unwrap();
        pool.begin().unwrap().remove("table/a").unwrap();
    }
}

#[test]
fn a_commit_begun_before_the_file_went_is_not_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let txn = pool.begin().unwrap();
    txn.put("table/a", ObjectKind::TABLE, b"", vec![]).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(matches!(txn.commit(), Err(PoolError::FileGone { .. })));
}

#[test]
fn a_path_through_a_link_is_the_file_it_leads_to() {
    let directory = tempfile::tempdir().unwrap();
    let (path, link) = (directory.path().join("test.pool"), directory.path().join("link"));
    drop(Pool::create(&path, &PoolOptions::default()).unwrap());
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let pool = Pool::open(&link, &PoolOptions::default()).unwrap();
    put(&pool, 1).unwrap();
    fs::remove_file(&link).unwrap();
    assert!(matches!(put(&pool, 2), Err(PoolError::FileGone { .. })));
}

#[test]
fn a_file_that_was_cut_off_is_an_error_before_it_is_touched() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    put(&pool, 1).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    // Keep the superblocks.
    file.set_len(16 << 10).unwrap();
    let cut = |error: PoolError| assert!(matches!(error, PoolError::Truncated { .. }), "{error}");
    cut(pool.snapshot().unwrap_err());
    cut(pool.begin().unwrap_err());
    cut(pool.info().unwrap_err());
    cut(pool.close().unwrap_err());
}
