//! Trees of a process that is killed with SIGKILL while several threads write, again and again. Those with
//! inner nodes in DRAM are large enough to be opened from a checkpoint. All are written further while most
//! nodes are not read.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use halocline_ordered::{TreeKind, create_tree, open_tree};
use halocline_pool::{Pool, PoolOptions};

/// Set in the child process to the folder of the pool.
const CHILD: &str = "HALOCLINE_KILL_CHILD";

const THREADS: u64 = 3;

/// Number of keys that are loaded first, into full leaves.
const LOADED: u64 = 300_000;

/// An operation removes what this many operations before it has inserted.
const BEFORE: u64 = 64;

/// Returns the key that an operation of a thread inserts. Keys are different and spread over all leaves.
fn key(thread: u64, number: u64) -> u64 {
    ((thread + 1) << 40 | number).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn loaded(number: u64) -> u64 {
    number * (u64::MAX / LOADED)
}

/// Returns the key that an operation removes.
fn removed(thread: u64, number: u64) -> Option<u64> {
    (number.is_multiple_of(3) && number >= BEFORE).then(|| key(thread, number - BEFORE))
}

/// Returns how many operations of a thread have been acknowledged.
fn acknowledged(progress: &File, thread: u64) -> u64 {
    let mut bytes = [0; 8];
    progress.read_exact_at(&mut bytes, thread * 8).unwrap();
    u64::from_le_bytes(bytes)
}

/// Runs in the child process: writes until it is killed.
#[test]
fn child() {
    let Ok(folder) = std::env::var(CHILD) else {
        return;
    };
    let folder = Path::new(&folder);
    let progress = File::options()
        .read(true)
        .write(true)
        .open(folder.join("progress"))
        .unwrap();
    let pool = Pool::open(folder.join("pool"), &PoolOptions::default()).unwrap();
    let tree = open_tree(&pool, "tree").unwrap();
    let (tree, progress) = (&*tree, &progress);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for number in acknowledged(progress, thread).. {
                    tree.upsert(key(thread, number), number).unwrap();
                    if let Some(key) = removed(thread, number) {
                        tree.remove(key).unwrap();
                    }
                    progress
                        .write_all_at(&(number + 1).to_le_bytes(), thread * 8)
                        .unwrap();
                }
            });
        }
    });
}

/// Of operations that were compared before, one in this many is compared again.
const STRIDE: usize = 101;

/// Compares a tree with what was acknowledged: with all operations since the last time, whose numbers are in
/// `compared`, and with some of the older ones. Operations in flight may be there or not.
fn check(folder: &Path, progress: &File, compared: &mut [u64; THREADS as usize]) {
    let pool = Pool::open(folder.join("pool"), &PoolOptions::default()).unwrap();
    let tree = open_tree(&pool, "tree").unwrap();
    // First a few lookups, of nodes that have not been read.
    for number in (0..LOADED).step_by(7_919) {
        assert_eq!(tree.get(loaded(number)).unwrap(), Some(number));
    }
    for (thread, compared) in (0..THREADS).zip(compared) {
        let done = acknowledged(progress, thread);
        let in_flight = removed(thread, done);
        // The newest of the older ones may have been removed since.
        let since = compared.saturating_sub(BEFORE);
        for number in (0..since).step_by(STRIDE).chain(since..done) {
            let key = key(thread, number);
            let gone = number + BEFORE < done && removed(thread, number + BEFORE).is_some();
            if in_flight != Some(key) {
                let expected = (!gone).then_some(number);
                assert_eq!(
                    tree.get(key).unwrap(),
                    expected,
                    "operation {number} of thread {thread}"
                );
            }
        }
        assert_eq!(tree.get(key(thread, done + 1)).unwrap(), None);
        *compared = done;
    }
    let report = tree.check().unwrap();
    assert_eq!(report.problems, []);
    assert_eq!((report.entries, report.leaves), (tree.len(), tree.stats().leaves));
}

/// Returns the number of kills: an eighth of `HALOCLINE_KILLS` (80), as the trees are large.
fn kills() -> u64 {
    let kills = std::env::var("HALOCLINE_KILLS").ok();
    let kills: u64 = kills.and_then(|kills| kills.parse().ok()).unwrap_or(80);
    kills.div_ceil(8)
}

fn survives_kills(kind: TreeKind) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let progress = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(folder.join("progress"))
        .unwrap();
    progress.write_all_at(&[0; 8 * THREADS as usize], 0).unwrap();
    {
        let pool = Pool::create(folder.join("pool"), &PoolOptions::default()).unwrap();
        let mut tree = create_tree(&pool, "tree", kind).unwrap();
        let mut entries = (0..LOADED).map(|number| (loaded(number), number));
        tree.bulk_load(&mut entries, 1.0).unwrap();
    }
    let mut compared = [0; THREADS as usize];
    for round in 0..kills() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child"])
            .env(CHILD, folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Some rounds end soon after the first splits.
        let before = acknowledged(&progress, 0);
        let start = Instant::now();
        while acknowledged(&progress, 0) < before + 1 + round % 16 * 1_500
            && start.elapsed() < Duration::from_secs(60)
        {
            thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(
            acknowledged(&progress, 0) > before,
            "round {round}: the child has written nothing"
        );
        // Otherwise the next process finds the tree as this one left it.
        if round % 2 == 1 {
            check(folder, &progress, &mut compared);
        }
    }
}

#[test]
fn lb() {
    survives_kills(TreeKind::Lb);
}

#[test]
fn lb4() {
    survives_kills(TreeKind::Lb4);
}

#[test]
fn fp() {
    survives_kills(TreeKind::Fp);
}

#[test]
fn fast_fair() {
    survives_kills(TreeKind::FastFair);
}

#[test]
fn wb() {
    survives_kills(TreeKind::Wb);
}
