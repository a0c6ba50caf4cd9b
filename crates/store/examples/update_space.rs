//! Overwrites the keys of a store at random, and prints updates per second and the size of the file.
//!
//! ```text
//! cargo run --release -p halocline-store --example update_space -- \
//!     [KEYS] [VALUE] [ROUNDS] [COMMIT] [FOLDER] [strict] [reader] [skewed]
//! ```
//! Writes KEYS (100,000) keys with values of VALUE (1,000) bytes to a file in FOLDER (/dev/shm), then as many
//! updates for each of ROUNDS (10) rounds, COMMIT (1) of them in each commit: of uniformly drawn keys, or
//! with `skewed` nine in ten of a tenth of the keys. The file is treated as DAX, or with `strict` as a
//! page-cache file whose fences are durable. With `reader` a snapshot is held from before the first update.
//! `ratio` is the size of the slab in the file by the bytes of keys and values that are live or held for the
//! snapshot, `longest` the time of the slowest commit of the round.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::path::Path;
use std::time::{Duration, Instant};

use halocline_media::{FileMedium, FileOptions};
use halocline_pool::Pool;
use halocline_store::{Stores, WriteBatch};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let number = |at: usize, default: u64| numbers.get(at).copied().unwrap_or(default);
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let (keys, len, rounds, commit) = (number(0, 100_000), number(1, 1000), number(2, 10), number(3, 1));
    let folder = words.iter().find(|word| word.contains('/'));
    let folder = Path::new(folder.map_or("/dev/shm", String::as_str));
    let path = folder.join(format!("update_space-{}.pool", std::process::id()));
    let options = FileOptions {
        create: true,
        strict: has("strict"),
        assume_dax: !has("strict"),
        ..FileOptions::default()
    };
    let pool = Pool::create_on(FileMedium::open(&path, &options)?)?;
    let stores = Stores::open(&pool)?;
    let store = stores.store("s")?;
    let value = vec![7; len as usize];
    let key = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let write = |numbers: &[u64]| -> Result<Duration, halocline_store::StoreError> {
        let mut batch = WriteBatch::new();
        for number in numbers {
            batch.put(&store, key(*number), &value)?;
        }
        let start = Instant::now();
        stores.write(batch)?;
        Ok(start.elapsed())
    };
    let all: Vec<u64> = (0..keys).collect();
    for numbers in all.chunks(commit.max(1000) as usize) {
        write(numbers)?;
    }
    let snapshot = has("reader").then(|| stores.snapshot());
    let held = if snapshot.is_some() { 2 } else { 1 };
    let mut rng = SmallRng::seed_from_u64(1);
    for round in 1..=rounds {
        let before = stores.stats().appended_bytes;
        let start = Instant::now();
        let mut longest = Duration::ZERO;
        for _ in 0..keys.div_ceil(commit) {
            let mut draw = || {
                let is_hot = has("skewed") && rng.random_bool(0.9);
                let most = if is_hot { (keys / 10).max(1) } else { keys };
                rng.random_range(0..most)
            };
            let drawn: Vec<u64> = (0..commit).map(|_| draw()).collect();
            longest = longest.max(write(&drawn)?);
        }
        let rate = keys as f64 / start.elapsed().as_secs_f64();
        let stats = stores.stats();
        let written = (stats.appended_bytes - before) as f64 / (keys * (len + 8)) as f64;
        let ratio = stats.pool_bytes as f64 / (stats.bytes * held) as f64;
        println!(
            "round {round:>2}: {rate:>9.0} updates/s, longest {longest:>8.1?}, {written:.2} bytes logged per byte, log \
             {:.1} MB, pool {:.1} MB, ratio {ratio:.2}",
            stats.log_bytes as f64 / 1e6,
            stats.pool_bytes as f64 / 1e6
        );
    }
    drop((snapshot, store, stores, pool));
    std::fs::remove_file(&path)?;
    Ok(())
}
