//! Latencies of `put` beside long work on the same stores: percentiles, alone and beside each kind of work.
//!
//! ```text
//! cargo bench -p halocline-store --bench put_latency -- [KEYS] [VALUE] [FOLDER] [strict]
//! ```
//! Fills a store with KEYS (1,000,000) keys with values of VALUE (100) bytes in FOLDER (/dev/shm), on a file
//! that is treated as DAX, or with `strict` on a page-cache file whose fences are durable. One thread puts
//! into another store, while a second one works on the first.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use halocline_media::{FileMedium, FileOptions};
use halocline_pool::Pool;
use halocline_store::{Store, StoreError, Stores, WriteBatch};

type Failure = Box<dyn std::error::Error>;

/// Work beside the puts on the store with all keys.
type Work<'a> = &'a dyn Fn() -> Result<(), StoreError>;

/// Keys of the store that the puts go to.
const PUT_KEYS: u64 = 100_000;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

fn main() -> Result<(), Failure> {
    let (flags, rest): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument == "--bench");
    let words: Vec<&str> = rest.iter().map(String::as_str).collect();
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let default = if flags.is_empty() { 1000 } else { 1_000_000 };
    let keys = numbers.first().copied().unwrap_or(default);
    let value = vec![7; numbers.get(1).copied().unwrap_or(100) as usize];
    let folder = words
        .iter()
        .find(|word| word.contains('/'))
        .copied()
        .unwrap_or("/dev/shm");
    let path = std::path::Path::new(folder).join("put_latency.pool");
    if path.exists() {
        std::fs::remove_file(&path)?;
    }
    let strict = words.contains(&"strict");
    let options = FileOptions {
        create: true,
        strict,
        assume_dax: !strict,
        ..FileOptions::default()
    };
    let pool = Pool::create_on(FileMedium::open(&path, &options)?)?;
    let result = measure(&pool, keys, &value);
    drop(pool);
    std::fs::remove_file(&path)?;
    result
}

fn measure(pool: &Pool, keys: u64, value: &[u8]) -> Result<(), Failure> {
    let stores = Stores::open(pool)?;
    let (all, puts) = (stores.store("all")?, stores.store("puts")?);
    load(&stores, &all, keys, value)?;
    load(&stores, &puts, PUT_KEYS.min(keys), value)?;
    let second = Duration::from_secs(if keys > 1000 { 2 } else { 0 });
    let beside = |what: &str, work: Work<'_>| beside(what, &puts, keys, value, work);
    println!(
        "{:<24} {:>9}  {:>8} {:>8} {:>8} {:>8}",
        "beside", "puts", "p50 us", "p99", "p99.9", "most"
    );
    beside("nothing", &|| {
        std::thread::sleep(second);
        Ok(())
    })?;
    beside("checkpoints", &|| {
        let start = Instant::now();
        while start.elapsed() < second {
            stores.checkpoint()?;
        }
        Ok(())
    })?;
    beside("transaction", &|| {
        let mut transaction = stores.begin();
        for pair in transaction.scan::<&[u8]>(&all, ..) {
            pair?;
        }
        transaction.put(&all, "sum", "1")?;
        transaction.commit()
    })?;
    beside("transaction of gets", &|| {
        let mut transaction = stores.begin();
        for number in 0..keys {
            transaction.get(&all, key(number))?;
        }
        transaction.put(&all, "sum", "2")?;
        transaction.commit()
    })?;
    let loaded = stores.store("loaded")?;
    beside("load", &|| load(&stores, &loaded, keys, value))?;
    beside("delete_range", &|| all.delete_range::<&[u8]>(..))?;
    beside("delete_range, snapshot", &|| {
        let _snapshot = stores.snapshot();
        loaded.delete_range::<&[u8]>(..)?;
        stores.checkpoint()
    })?;
    beside("purging", &|| {
        std::thread::sleep(second);
        Ok(())
    })?;
    assert_eq!((all.len(), loaded.len()), (0, 0));
    Ok(())
}

fn load(stores: &Stores, store: &Store, keys: u64, value: &[u8]) -> Result<(), StoreError> {
    for from in (0..keys).step_by(1000) {
        let mut batch = WriteBatch::new();
        for number in from..keys.min(from + 1000) {
            batch.put(store, key(number), value)?;
        }
        stores.write(batch)?;
    }
    Ok(())
}

/// Puts while `work` goes on, and prints how long the puts took.
fn beside(what: &str, store: &Store, keys: u64, value: &[u8], work: Work<'_>) -> Result<(), Failure> {
    let is_done = AtomicBool::new(false);
    let (latencies, took) = std::thread::scope(|scope| {
        let putting = scope.spawn(|| -> Result<Vec<Duration>, StoreError> {
            let (mut latencies, mut number) = (Vec::new(), 0);
            while !is_done.load(Ordering::Relaxed) {
                number = (number + 7919) % PUT_KEYS.min(keys);
                let start = Instant::now();
                store.put(key(number), value)?;
                latencies.push(start.elapsed());
            }
            Ok(latencies)
        });
        let start = Instant::now();
        let worked = work();
        let took = start.elapsed();
        is_done.store(true, Ordering::Relaxed);
        let latencies = putting.join().map_err(|_| "a put panicked")??;
        worked?;
        Ok::<_, Failure>((latencies, took))
    })?;
    let mut latencies = latencies;
    latencies.sort_unstable();
    let at = |part: f64| {
        let at = ((latencies.len() as f64 * part) as usize).min(latencies.len().saturating_sub(1));
        latencies.get(at).map_or(0, Duration::as_micros)
    };
    println!(
        "{what:<24} {:>9}  {:>8} {:>8} {:>8} {:>8}   in {:.2} s",
        latencies.len(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        took.as_secs_f64()
    );
    Ok(())
}
