//! Benchmark of opening a tree that was closed and of one whose process was killed.
//!
//! ```text
//! cargo bench -p halocline-ordered --bench opening -- [KEYS] [FOLDER] [TREE]
//! ```
//! Bulk-loads KEYS (10,000,000) keys into a TREE (`lb`) in FOLDER (/dev/shm), 70 % full. Then opens it, each
//! time in the same process and with a warm page cache, and prints the time until it is open, the time of the
//! first lookup after that, and the time until all leaves were read by a scan. `killed` is after a child
//! process has inserted random keys, 1/64 of those in the tree or only one, and aborted. `copied` opens a
//! fresh copy of such a file, of which no page is mapped and none is huge, and inserts an entry. `written`
//! opens the tree after such a kill, inserts random keys and closes it; it prints the times of the opening,
//! of the slowest of the inserts, of all of them, and of the closing.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::process::Command;
use std::time::{Duration, Instant};

use halocline_ordered::{TreeKind, create_tree, open_tree, open_tree_read_only};
use halocline_pool::{Pool, PoolOptions};

type Failure = Box<dyn std::error::Error>;

/// Set in the child process to the path of the pool.
const CHILD: &str = "HALOCLINE_OPENING_CHILD";

/// Set in the child process to the number of keys that it inserts.
const INSERTS: &str = "HALOCLINE_OPENING_INSERTS";

fn options() -> PoolOptions {
    PoolOptions::default().with_assume_dax(true)
}

fn main() -> Result<(), Failure> {
    if let Ok(path) = std::env::var(CHILD) {
        return die_while_writing(&path);
    }
    // `cargo bench` passes `--bench`; `cargo test` does not, and uses small data.
    let (flags, rest): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument == "--bench");
    let mut arguments = rest.into_iter();
    let default = if flags.is_empty() { 100_000 } else { 10_000_000 };
    let keys = arguments.next().map_or(Ok(default), |text| text.parse())?;
    let folder = arguments.next().unwrap_or_else(|| "/dev/shm".to_owned());
    let kind = arguments.next().map_or(Ok(TreeKind::Lb), |text| text.parse())?;
    let path = format!("{folder}/halocline-opening-{}.pool", std::process::id());
    let result = measure(&path, keys, kind);
    std::fs::remove_file(&path)?;
    result
}

fn measure(path: &str, keys: u64, kind: TreeKind) -> Result<(), Failure> {
    println!("{keys} keys, {kind}");
    let pool = Pool::create(path, &options())?;
    let mut tree = create_tree(&pool, "tree", kind)?;
    tree.bulk_load(&mut (0..keys).map(|key| (key * 7, key)), 0.7)?;
    let start = Instant::now();
    drop(tree);
    println!("close           {:>10.3} ms", start.elapsed().as_secs_f64() * 1e3);
    pool.close()?;
    opened("closed", path, keys)?;
    opened("closed", path, keys)?;
    for inserts in [1, keys / 64] {
        killed(path, inserts)?;
        opened("killed", path, keys)?;
    }
    killed(path, keys / 64)?;
    for _ in 0..3 {
        copied(path, keys)?;
    }
    written(path, keys / 64)?;
    opened("closed", path, keys)
}

/// Opens a copy of the pool and the tree in it, and inserts an entry. Prints times.
fn copied(path: &str, keys: u64) -> Result<(), Failure> {
    let copy = format!("{path}.copy");
    std::fs::copy(path, &copy)?;
    let start = Instant::now();
    let pool = Pool::open(&copy, &options())?;
    let pool_open = start.elapsed();
    let start = Instant::now();
    let tree = open_tree(&pool, "tree")?;
    let open = start.elapsed();
    let start = Instant::now();
    tree.upsert(keys * 7 / 2, 1)?;
    println!(
        "copied: open {:>10.3} ms   pool {:>8.3} ms   first insert {:>8.3} ms",
        milliseconds(open),
        milliseconds(pool_open),
        milliseconds(start.elapsed())
    );
    drop(tree);
    pool.close()?;
    Ok(std::fs::remove_file(&copy)?)
}

/// Has a child process insert keys and die.
fn killed(path: &str, inserts: u64) -> Result<(), Failure> {
    let child = Command::new(std::env::current_exe()?)
        .env(CHILD, path)
        .env(INSERTS, inserts.to_string())
        .output()?;
    if child.status.success() {
        Err("the child process was not killed".into())
    } else {
        Ok(())
    }
}

/// Opens the tree, inserts keys and closes it. Prints times.
fn written(path: &str, inserts: u64) -> Result<(), Failure> {
    let pool = Pool::open(path, &options())?;
    let start = Instant::now();
    let tree = open_tree(&pool, "tree")?;
    let open = start.elapsed();
    let (start, mut slowest) = (Instant::now(), Duration::ZERO);
    for key in random_keys(inserts) {
        let start = Instant::now();
        tree.upsert(key, 2)?;
        slowest = slowest.max(start.elapsed());
    }
    let all = start.elapsed();
    let start = Instant::now();
    drop(tree);
    println!(
        "written: open {:>9.3} ms   slowest insert {:>6.3} ms   {inserts} inserts {:>8.3} ms   close {:>8.3} ms",
        milliseconds(open),
        milliseconds(slowest),
        milliseconds(all),
        milliseconds(start.elapsed())
    );
    Ok(pool.close()?)
}

/// Returns keys that are not loaded, spread over the whole tree, and different in each process.
fn random_keys(count: u64) -> impl Iterator<Item = u64> {
    let seed = u64::from(std::process::id());
    let keys = (0..count).map(move |number| (number + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    keys.map(move |key| (key >> 20) % (64 * count.max(1)) * 7 + 3)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Opens the tree and prints times. Leaves it as it was.
fn opened(state: &str, path: &str, keys: u64) -> Result<(), Failure> {
    let pool = Pool::open(path, &options())?;
    let start = Instant::now();
    let tree = open_tree_read_only(&pool, "tree")?;
    let open = start.elapsed();
    let middle = keys / 2;
    let start = Instant::now();
    assert_eq!(tree.get(middle * 7)?, Some(middle));
    let first = start.elapsed();
    let start = Instant::now();
    let mut all = Vec::with_capacity(keys as usize + 64);
    tree.scan(0, usize::MAX, &mut all)?;
    let scan = start.elapsed();
    assert!(all.len() as u64 >= keys);
    println!(
        "{state}: open {:>10.3} ms   first lookup {:>8.3} ms   scan {:>10.3} ms   {} MiB of DRAM",
        milliseconds(open),
        milliseconds(first),
        milliseconds(scan),
        tree.stats().dram_bytes >> 20
    );
    Ok(())
}

/// Inserts keys and dies without closing the tree.
fn die_while_writing(path: &str) -> Result<(), Failure> {
    let pool = Pool::open(path, &options())?;
    let tree = open_tree(&pool, "tree")?;
    let inserts = std::env::var(INSERTS)?.parse()?;
    for key in random_keys(inserts) {
        tree.upsert(key, 1)?;
    }
    std::process::abort()
}
