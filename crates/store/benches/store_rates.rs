//! Benchmark of a store: rates of its operations, time to open after a crash, and space.
//!
//! ```text
//! cargo bench -p halocline-store --bench store_rates -- [KEYS] [VALUE] [FOLDER] [urls] [strict]
//! ```
//! Inserts KEYS (1,000,000) random keys with values of VALUE (100) bytes into a store in FOLDER (/dev/shm),
//! on a file that is treated as DAX, or with `strict` on a page-cache file whose fences are durable. Keys are
//! 8 bytes, or with `urls` addresses of about 60 bytes.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::time::Instant;

use halocline_media::{FileMedium, FileOptions};
use halocline_pool::Pool;
use halocline_store::{Store, Stores, StoresOptions, WriteBatch};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

type Failure = Box<dyn std::error::Error>;

struct Settings {
    keys: u64,
    value: usize,
    urls: bool,
}

impl Settings {
    fn key(&self, number: u64) -> Vec<u8> {
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if self.urls {
            format!(
                "https://www.example.com/shop-{:03}/category-{:04}/item/{number:010}",
                mixed % 300,
                mixed >> 32 & 0xFFF
            )
            .into_bytes()
        } else {
            mixed.to_be_bytes().to_vec()
        }
    }
}

fn rate(what: &str, count: u64, run: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let start = Instant::now();
    run()?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{what:<28} {:>10.0} /s", count as f64 / seconds);
    Ok(())
}

fn main() -> Result<(), Failure> {
    let (flags, rest): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument == "--bench");
    let words: Vec<&str> = rest.iter().map(String::as_str).collect();
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let strict = words.contains(&"strict");
    let default = if flags.is_empty() { 1000 } else { 1_000_000 };
    let settings = Settings {
        keys: numbers.first().copied().unwrap_or(default),
        value: numbers.get(1).copied().unwrap_or(100) as usize,
        urls: words.contains(&"urls"),
    };
    if let ["crash", path, ..] = words[..] {
        return crash(&settings, path.as_ref(), strict);
    }
    let folder = words
        .iter()
        .find(|word| word.contains('/'))
        .copied()
        .unwrap_or("/dev/shm");
    let path = std::path::Path::new(folder).join("store_rates.pool");
    if path.exists() {
        std::fs::remove_file(&path)?;
    }
    let result = measure(&settings, &path, strict);
    std::fs::remove_file(&path)?;
    result
}

fn open(path: &std::path::Path, strict: bool, create: bool) -> Result<Pool, Failure> {
    let options = FileOptions {
        create,
        strict,
        assume_dax: !strict,
        ..FileOptions::default()
    };
    let medium = FileMedium::open(path, &options)?;
    Ok(if create {
        Pool::create_on(medium)?
    } else {
        Pool::open_on(medium)?
    })
}

fn measure(settings: &Settings, path: &std::path::Path, strict: bool) -> Result<(), Failure> {
    let keys = settings.keys;
    println!(
        "{keys} keys, values of {} bytes, {}",
        settings.value,
        path.display()
    );
    let pool = open(path, strict, true)?;
    let stores = Stores::open_with(&pool, StoresOptions::default())?;
    let store = stores.store("s")?;
    let mut rng = SmallRng::seed_from_u64(1);
    let mut order: Vec<u64> = (0..keys).collect();
    order.shuffle(&mut rng);
    let value = vec![b'v'; settings.value];
    rate("insert", keys, || {
        for number in &order {
            store.put(settings.key(*number), &value)?;
        }
        Ok(())
    })?;
    let draws: Vec<u64> = (0..keys).map(|_| rng.random_range(0..keys)).collect();
    rate("get", keys, || get(settings, &store, &draws))?;
    rate("get, 2 threads", 2 * keys, || {
        std::thread::scope(|scope| {
            let run = || get(settings, &store, &draws).map_err(|error| error.to_string());
            let threads = [scope.spawn(run), scope.spawn(run)];
            for thread in threads {
                thread.join().map_err(|_| "a thread failed")??;
            }
            Ok(())
        })
    })?;
    rate("update", keys, || {
        for number in &draws {
            store.put(settings.key(*number), &value)?;
        }
        Ok(())
    })?;
    rate("update, 1000 per batch", keys, || {
        for numbers in draws.chunks(1000) {
            let mut batch = WriteBatch::new();
            for number in numbers {
                batch.put(&store, settings.key(*number), &value)?;
            }
            stores.write(batch)?;
        }
        Ok(())
    })?;
    rate("scan of 50", keys / 50, || {
        for number in draws.iter().take(keys as usize / 50) {
            let pairs = store.scan(settings.key(*number)..).take(50);
            assert!(pairs.map(|pair| pair.map(|_| ())).all(|pair| pair.is_ok()));
        }
        Ok(())
    })?;
    rate("scan of all", keys, || {
        let count = store.scan::<&[u8]>(..).count();
        assert_eq!(count as u64, keys);
        Ok(())
    })?;
    let stats = stores.stats();
    println!(
        "pool {:.1} MB, log {:.1} MB, live {:.1} MB, keys and values {:.1} MB, appended {:.1} MB, {} checkpoints",
        stats.pool_bytes as f64 / 1e6,
        stats.log_bytes as f64 / 1e6,
        stats.live_bytes as f64 / 1e6,
        stats.bytes as f64 / 1e6,
        stats.appended_bytes as f64 / 1e6,
        stats.checkpoints
    );
    drop((store, stores, pool));
    reopen(settings, path, strict)
}

fn get(settings: &Settings, store: &Store, draws: &[u64]) -> Result<(), Failure> {
    for number in draws {
        let found = store.get(settings.key(*number))?;
        assert!(found.is_some_and(|value| value.len() == settings.value));
    }
    Ok(())
}

/// Opens the stores after a process that wrote them was killed.
fn reopen(settings: &Settings, path: &std::path::Path, strict: bool) -> Result<(), Failure> {
    let mut writer = std::process::Command::new(std::env::current_exe()?);
    writer.arg("crash").arg(path).args(strict.then_some("strict"));
    writer.args(settings.urls.then_some("urls"));
    writer.status()?;
    let start = Instant::now();
    let pool = open(path, strict, false)?;
    let opened = start.elapsed();
    let stores = Stores::open(&pool)?;
    let recovered = start.elapsed();
    let found = stores.existing("s")?.get(settings.key(5))?;
    assert_eq!(found.as_deref(), Some(&b"after"[..]));
    let answered = start.elapsed();
    println!("after a crash: pool {opened:.2?}, stores {recovered:.2?}, first answer {answered:.2?}");
    Ok(())
}

/// Writes and ends as if killed.
fn crash(settings: &Settings, path: &std::path::Path, strict: bool) -> Result<(), Failure> {
    let stores = Stores::open(&open(path, strict, false)?)?;
    let store = stores.store("s")?;
    for number in 0..100_000 {
        store.put(settings.key(number), "after")?;
    }
    std::process::abort()
}
