//! The environment of a pool's file: paths that name no file, and limits of the process. A limit applies to a
//! whole process, so this test runs itself as the limited one.

use std::env;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use halocline_pool::{ObjectKind, Pool, PoolError, PoolOptions};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Resource, Rlimit, setrlimit};

const LIMITED: &str = "HALOCLINE_POOL_TEST_LIMITED";
/// Maximum file size in the limited process, in bytes.
const LIMIT: u64 = 4 << 20;

fn put(pool: &Pool, name: &str, len: u64) -> Result<(), PoolError> {
    let txn = pool.begin()?;
    let mut writer = txn.alloc(len)?;
    writer.append(&vec![7; len as usize]);
    let extent = writer.finish(len)?;
    txn.put(name, ObjectKind::TABLE, b"", vec![extent])?;
    txn.commit().map(|_| ())
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _listener = UnixListener::bind(at("socket")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    std::os::unix::fs::symlink(at("pipe"), at("link")).unwrap();
    let others = ["pipe", "socket", "directory", "link"].map(at);
    for path in others.into_iter().chain([PathBuf::from("/dev/zero")]) {
        for read_only in [false, true] {
            let options = PoolOptions::default().with_read_only(read_only);
            let error = Pool::open(&path, &options).unwrap_err();
            assert!(
                matches!(error, PoolError::NotAPool { .. }),
                "{}: {error}",
                path.display()
            );
        }
        let error = Pool::create(&path, &PoolOptions::default()).unwrap_err();
        assert!(
            matches!(error, PoolError::AlreadyExists { .. }),
            "{}: {error}",
            path.display()
        );
    }
}

/// Runs in a process of its own: see [`a_limit_of_file_sizes_is_an_error`].
fn with_a_limit(path: &Path) {
    let limit = Rlimit {
        current: Some(LIMIT),
        maximum: None,
    };
    setrlimit(Resource::Fsize, limit).unwrap();
    let pool = Pool::open(path, &PoolOptions::default()).unwrap();
    let error = put(&pool, "large", 2 * LIMIT).unwrap_err();
    assert!(matches!(error, PoolError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("ulimit -f"), "{error}");
    // Smaller objects still fit.
    put(&pool, "small", 100_000).unwrap();
}

#[test]
fn a_limit_of_file_sizes_is_an_error() {
    if let Some(path) = env::var_os(LIMITED) {
        return with_a_limit(Path::new(&path));
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.pool");
    put(
        &Pool::create(&path, &PoolOptions::default()).unwrap(),
        "before",
        10_000,
    )
    .unwrap();
    let status = Command::new(env::current_exe().unwrap())
        .args(["--exact", "a_limit_of_file_sizes_is_an_error"])
        .env(LIMITED, &path)
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    let snapshot = pool.snapshot().unwrap();
    assert!(snapshot.get("before").is_some() && snapshot.get("small").is_some());
    assert!(snapshot.get("large").is_none());
    assert!(pool.check(|_| ()).unwrap().problems.is_empty());
}
