//! Overwrites the keys of a store at random, and prints updates per second and the size of the file.
//!
//! ```text
//! cargo run --release -p halocline-store --example update_space -- [KEYS] [VALUE] [ROUNDS] [reader] [skewed]
//! ```
//! Writes KEYS (100,000) keys with values of VALUE (1,000) bytes to a file in /dev/shm that is treated as
//! DAX, then as many updates for each of ROUNDS (10) rounds: of uniformly drawn keys, or with `skewed` nine
//! in ten of a tenth of the keys. With `reader` a snapshot is held from before the first update. `ratio` is
//! the size of the slab in the file by the bytes of keys and values that are live or held for the snapshot.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::time::Instant;

use halocline_pool::{Pool, PoolOptions};
use halocline_store::Stores;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
        numbers.get(at).copied().unwrap_or(default)
    };
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let (keys, len, rounds) = (number(0, 100_000), number(1, 1000), number(2, 10));
    let path = std::path::Path::new("/dev/shm").join(format!("update_space-{}.pool", std::process::id()));
    let pool = Pool::create(&path, &PoolOptions::default().with_assume_dax(true))?;
    let stores = Stores::open(&pool)?;
    let store = stores.store("s")?;
    let value = vec![7; len as usize];
    let key = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    for number in 0..keys {
        store.put(key(number), &value)?;
    }
    let snapshot = has("reader").then(|| stores.snapshot());
    let held = if snapshot.is_some() { 2 } else { 1 };
    let mut rng = SmallRng::seed_from_u64(1);
    for round in 1..=rounds {
        let before = stores.stats().appended_bytes;
        let start = Instant::now();
        for _ in 0..keys {
            let is_hot = has("skewed") && rng.random_bool(0.9);
            let most = if is_hot { (keys / 10).max(1) } else { keys };
            store.put(key(rng.random_range(0..most)), &value)?;
        }
        let rate = keys as f64 / start.elapsed().as_secs_f64();
        let stats = stores.stats();
        let written = (stats.appended_bytes - before) as f64 / (keys * (len + 8)) as f64;
        let ratio = stats.pool_bytes as f64 / (stats.bytes * held) as f64;
        println!(
            "round {round:>2}: {rate:>9.0} updates/s, {written:.2} bytes logged per byte, log {:.1} MB, pool {:.1} MB, \
             ratio {ratio:.2}",
            stats.log_bytes as f64 / 1e6,
            stats.pool_bytes as f64 / 1e6
        );
    }
    drop((snapshot, store, stores, pool));
    std::fs::remove_file(&path)?;
    Ok(())
}
