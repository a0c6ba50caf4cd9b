//! Benchmark of scans: rates of scans of up to 100 pairs between inserts, as YCSB E has them.
//!
//! ```text
//! cargo bench -p halocline-store --bench scan_rates -- [KEYS] [VALUE] [FOLDER]
//! ```
//! Inserts KEYS (1,000,000) keys of 23 bytes with values of VALUE (100) bytes into a store in FOLDER
//! (/dev/shm), on a file that is treated as DAX. Each round then has one insert for 19 scans; rates are per
//! second of CPU time of the thread, the best of five rounds.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::hint::black_box;

use halocline_media::{FileMedium, FileOptions};
use halocline_pool::Pool;
use halocline_store::{Store, Stores, WriteBatch};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

type Failure = Box<dyn std::error::Error>;

/// Scans of a round, and rounds.
const SCANS: u64 = 20_000;
const ROUNDS: usize = 5;

/// Returns the CPU time of this thread in seconds, which other programs on the machine do not change much.
fn cpu_seconds() -> Result<f64, Failure> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds: u64 = stat.split(' ').next().unwrap_or_default().parse()?;
    Ok(nanoseconds as f64 / 1e9)
}

fn key(number: u64) -> String {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1;
    format!("user{mixed:019}")
}

fn main() -> Result<(), Failure> {
    let (flags, rest): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument == "--bench");
    let numbers: Vec<u64> = rest.iter().filter_map(|word| word.parse().ok()).collect();
    let keys = numbers
        .first()
        .copied()
        .unwrap_or(if flags.is_empty() { 1000 } else { 1_000_000 });
    let value = vec![b'v'; numbers.get(1).copied().unwrap_or(100) as usize];
    let folder = rest.iter().find(|word| word.contains('/'));
    let path = std::path::Path::new(folder.map_or("/dev/shm", String::as_str)).join("scan_rates.pool");
    if path.exists() {
        std::fs::remove_file(&path)?;
    }
    let result = measure(keys, &value, &path);
    std::fs::remove_file(&path)?;
    result
}

fn measure(keys: u64, value: &[u8], path: &std::path::Path) -> Result<(), Failure> {
    println!("{keys} keys, values of {} bytes, {}", value.len(), path.display());
    let options = FileOptions {
        create: true,
        assume_dax: true,
        ..FileOptions::default()
    };
    let pool = Pool::create_on(FileMedium::open(path, &options)?)?;
    let stores = Stores::open(&pool)?;
    let store = stores.store("s")?;
    let mut order: Vec<u64> = (0..keys).collect();
    order.shuffle(&mut SmallRng::seed_from_u64(1));
    for numbers in order.chunks(1000) {
        let mut batch = WriteBatch::new();
        for number in numbers {
            batch.put(&store, key(*number), value)?;
        }
        stores.write(batch)?;
    }
    let mut next = keys;
    let mut rate = |name: &str, scan: &dyn Fn(&Store, &str, usize) -> Result<usize, Failure>| {
        let mut best = (f64::MAX, 0);
        for round in 0..ROUNDS {
            let mut rng = SmallRng::seed_from_u64(round as u64);
            let start = cpu_seconds()?;
            let mut pairs = 0;
            for number in 0..SCANS {
                if number % 20 == 0 {
                    store.put(key(next), value)?;
                    next += 1;
                } else {
                    let from = key(rng.random_range(0..keys));
                    pairs += scan(&store, &from, rng.random_range(1..=100))?;
                }
            }
            let seconds = cpu_seconds()? - start;
            if seconds < best.0 {
                best = (seconds, pairs);
            }
        }
        let (seconds, pairs) = best;
        println!(
            "{name:<28} {:>10.0} operations/s {:>10.2} M pairs/s",
            SCANS as f64 / seconds,
            pairs as f64 / seconds / 1e6
        );
        Ok::<(), Failure>(())
    };
    rate("lent", &|store, from, length| {
        let mut scan = store.scan(from..);
        let mut count = 0;
        while count < length
            && let Some(pair) = scan.next_ref()
        {
            black_box(pair?);
            count += 1;
        }
        Ok(count)
    })?;
    rate("lent, with a limit", &|store, from, length| {
        let mut scan = store.scan(from..).with_limit(length);
        let mut count = 0;
        while let Some(pair) = scan.next_ref() {
            black_box(pair?);
            count += 1;
        }
        Ok(count)
    })?;
    rate("lent, with a limit, backward", &|store, from, length| {
        let mut scan = store.scan(..from).with_limit(length);
        let mut count = 0;
        while let Some(pair) = scan.next_back_ref() {
            black_box(pair?);
            count += 1;
        }
        Ok(count)
    })?;
    rate("owned", &|store, from, length| {
        let mut count = 0;
        for pair in store.scan(from..).take(length) {
            black_box(pair?);
            count += 1;
        }
        Ok(count)
    })?;
    rate("owned, backward", &|store, from, length| {
        let mut count = 0;
        for pair in store.scan(..from).rev().take(length) {
            black_box(pair?);
            count += 1;
        }
        Ok(count)
    })
}
