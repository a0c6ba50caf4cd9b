//! Benchmark of opening a tree that was closed and of one whose process was killed.
//!
//! ```text
//! cargo bench -p halocline-ordered --bench opening -- [KEYS] [FOLDER] [TREE]
//! ```
//! Bulk-loads KEYS (10,000,000) keys into a TREE (`lb`) in FOLDER (/dev/shm), 70 % full. Then opens it,
//! each time in the same process and with a warm page cache, and prints the time until it is open, the time
//! of the first lookup after that, and the time until all leaves were read by a scan. `killed` is after a
//! child process has inserted one key and aborted.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::process::Command;
use std::time::Instant;

use halocline_ordered::{TreeKind, create_tree, open_tree, open_tree_read_only};
use halocline_pool::{Pool, PoolOptions};

type Failure = Box<dyn std::error::Error>;

/// Set in the child process to the path of the pool.
const CHILD: &str = "HALOCLINE_OPENING_CHILD";

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
    let child = Command::new(std::env::current_exe()?).env(CHILD, path).output()?;
    if child.status.success() {
        return Err("the child process was not killed".into());
    }
    opened("killed", path, keys)
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
    let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    println!(
        "{state}: open {:>10.3} ms   first lookup {:>8.3} ms   scan {:>10.3} ms   {} MiB of DRAM",
        milliseconds(open),
        milliseconds(first),
        milliseconds(scan),
        tree.stats().dram_bytes >> 20
    );
    Ok(())
}

/// Inserts a key and dies without closing the tree.
fn die_while_writing(path: &str) -> Result<(), Failure> {
    let pool = Pool::open(path, &options())?;
    let tree = open_tree(&pool, "tree")?;
    tree.insert(1, 1)?;
    std::process::abort()
}
