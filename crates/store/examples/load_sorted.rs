//! Loads a store from sorted pairs, and prints pairs per second, bytes per pair, and the memory of the
//! process.
//!
//! ```text
//! cargo run --release -p halocline-store --example load_sorted -- \
//!     [PAIRS] [KEY] [VALUE] [FOLDER] [strict] [batches|shuffled]
//! ```
//! Loads PAIRS (10,000,000) pairs with keys of KEY (16) bytes, at least 8, and values of VALUE (11) bytes
//! into a pool in FOLDER (/var/tmp). With `strict` fences are durable; with `batches` the pairs are
//! committed, 1,000 at a time, instead of loaded; with `shuffled` they come in any order, and are sorted with
//! 64 MiB. After that one of 1,000 pairs is read, and the pool is opened again.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use halocline_pool::{Pool, PoolOptions};
use halocline_store::{LoadOptions, Store, Stores, WriteBatch};

fn key(number: u64, len: usize) -> Vec<u8> {
    let mut key = vec![0; len.max(8) - 8];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn commit(
    stores: &Stores,
    pairs: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
) -> halocline_store::Result<Store> {
    let store = stores.store("s")?;
    let mut batch = WriteBatch::new();
    for (at, (key, value)) in pairs.enumerate() {
        batch.put(&store, key, value)?;
        if at % 1000 == 999 {
            stores.write(std::mem::take(&mut batch))?;
        }
    }
    stores.write(batch)?;
    Ok(store)
}

fn sort(stores: &Stores, pairs: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> halocline_store::Result<Store> {
    let options = LoadOptions::new(64 << 20, Arc::new(|| tempfile::tempfile_in("/var/tmp")));
    let mut loader = stores.load("s", options)?;
    for (key, value) in pairs {
        loader.push(key, value)?;
    }
    loader.finish()
}

fn load(stores: &Stores, pairs: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> halocline_store::Result<Store> {
    let mut loader = stores.load_sorted("s")?;
    for (key, value) in pairs {
        loader.push(key, value)?;
    }
    loader.finish()
}

/// Returns the lines of the state of this process about its memory.
fn memory() -> std::io::Result<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let of = |name: &str| {
        status
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_default()
    };
    let words: Vec<&str> = ["RssAnon", "VmHWM"]
        .iter()
        .flat_map(|name| of(name).split_whitespace())
        .collect();
    Ok(words.join(" "))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let number = |at: usize, default: u64| numbers.get(at).copied().unwrap_or(default);
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let (pairs, key_len, value_len) = (
        number(0, 10_000_000),
        number(1, 16) as usize,
        number(2, 11) as usize,
    );
    let folder = words.iter().find(|word| word.contains('/'));
    let folder = Path::new(folder.map_or("/var/tmp", String::as_str));
    let path = folder.join(format!("load_sorted-{}.pool", std::process::id()));
    let options = PoolOptions::default().with_strict(has("strict"));
    let pool = Pool::create(&path, &options)?;
    let stores = Stores::open(&pool)?;
    // A prime that is no divisor of usual numbers of pairs.
    let step = if has("shuffled") { 7_368_787 } else { 1 };
    let number = |at: u64| (u128::from(at) * step % u128::from(pairs)) as u64;
    let all = (0..pairs).map(|at| (key(number(at), key_len), vec![number(at) as u8; value_len]));
    let start = Instant::now();
    let store = match (has("batches"), has("shuffled")) {
        (true, _) => commit(&stores, all)?,
        (_, true) => sort(&stores, all)?,
        _ => load(&stores, all)?,
    };
    let seconds = start.elapsed().as_secs_f64();
    let stats = stores.stats();
    let each = |bytes: u64| bytes as f64 / pairs as f64;
    println!(
        "{pairs} pairs in {seconds:.2} s: {:.2} million a second; {:.1} bytes of log, {:.1} bytes of the pool, {:.1} bytes of \
         the file for each; {}",
        pairs as f64 / seconds / 1e6,
        each(stats.log_bytes),
        each(stats.pool_bytes),
        each(std::fs::metadata(&path)?.len()),
        memory()?
    );
    let start = Instant::now();
    for number in (0..pairs).step_by(1000) {
        let value = store.get(key(number, key_len))?;
        assert_eq!(value, Some(vec![number as u8; value_len]));
    }
    println!("one in 1000 read in {:.2} s", start.elapsed().as_secs_f64());
    drop((store, stores, pool));
    let start = Instant::now();
    let stores = Stores::open(&Pool::open(&path, &options)?)?;
    assert_eq!(stores.existing("s")?.len(), pairs);
    println!("opened again in {:.3} s", start.elapsed().as_secs_f64());
    drop(stores);
    std::fs::remove_file(&path)?;
    Ok(())
}
