//! Files that a creation leaves: one, for its owner only, and none beside it, even if an earlier creation was
//! killed.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

use halocline_pool::{Pool, PoolOptions};

#[test]
fn a_new_pool_is_its_owners_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.pool");
    drop(Pool::create(&path, &PoolOptions::default()).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn files_of_killed_creations_are_removed() {
    // A process id that no process has or will have while the limit is below it.
    const GONE: u32 = i32::MAX as u32;
    let own = std::process::id();
    for create in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.pool");
        let other = directory.path().join("other.pool");
        drop(Pool::create(&other, &PoolOptions::default()).unwrap());
        if !create {
            drop(Pool::create(&path, &PoolOptions::default()).unwrap());
        }
        let put = |name: String, bytes: &[u8]| fs::write(directory.path().join(name), bytes).unwrap();
        let there = |name: &str| directory.path().join(name).exists();
        put(format!(".test.pool.{GONE}-0.new"), b"half");
        put(format!(".test.pool.{GONE}-1.new"), b"");
        put(format!(".test.pool.{own}-999.new"), b"half");
        let kept = [
            format!(".test.pool.{own}-998.new"),
            ".test.pool.1-0.new".to_owned(),
            format!(".other.pool.{GONE}-0.new"),
            format!(".test.pool.{GONE}-x.new"),
            ".test.pool.new".to_owned(),
        ];
        put(kept[0].clone(), b"");
        kept[1..].iter().for_each(|name| put(name.clone(), b"half"));
        // A running creation of another process.
        let live = format!(".test.pool.{GONE}-2.new");
        put(live.clone(), b"half");
        let file = File::options()
            .read(true)
            .write(true)
            .open(directory.path().join(&live))
            .unwrap();
        lock(&file);
        let pool = if create {
            Pool::create(&path, &PoolOptions::default()).unwrap()
        } else {
            Pool::open(&path, &PoolOptions::default()).unwrap()
        };
        for name in [
            format!(".test.pool.{GONE}-0.new"),
            format!(".test.pool.{GONE}-1.new"),
            format!(".test.pool.{own}-999.new"),
        ] {
            assert!(!there(&name), "{name}");
        }
        for name in kept.iter().chain([&live]) {
            assert!(there(name), "{name}");
        }
        assert!(pool.check(|_| ()).unwrap().is_intact());
        drop(file);
    }
}

/// Locks a file as a creation does.
#[allow(unsafe_code, reason = "fcntl with a lock structure")]
fn lock(file: &File) {
    use std::os::fd::AsRawFd;
    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 1 << 62,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and `lock` is a whole structure of the kind that the command reads.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) };
    assert_eq!(result, 0);
}
