//! Opens stores whose writer was killed, and prints the time from the beginning of opening the pool to the
//! first answer.
//!
//! ```text
//! cargo run --release -p halocline-store --example open_after_kill -- [RECORDS] [VALUE] [TURNS] [FOLDER] [cold]
//! ```
//! Loads RECORDS (1,000,000) keys with values of VALUE (1,000) bytes into a page-cache file in FOLDER
//! (/var/tmp). TURNS (5) times, a process that overwrites random keys, 1,000 in each commit, is killed after
//! two seconds, and another process opens the pool, looks one key up, counts the keys, and closes it.
//! `settled` is the time until the number of keys is known. With `cold` the pages of the file are removed
//! from the page cache before it is opened.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use halocline_pool::{Pool, PoolOptions};
use halocline_store::{Stores, WriteBatch};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

type Failure = Box<dyn std::error::Error>;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let number = |at: usize, default: u64| numbers.get(at).copied().unwrap_or(default);
    let (records, len) = (number(0, 1_000_000), number(1, 1000) as usize);
    let folder = words.iter().find(|word| word.contains('/'));
    let folder = Path::new(folder.map_or("/var/tmp", String::as_str));
    match words.first().map(String::as_str) {
        Some("write") => return write(folder, records, len),
        Some("open") => return open(folder, records, len),
        _ => {}
    }
    let path = folder.join(format!("open_after_kill-{}.pool", std::process::id()));
    load(&path, records, len)?;
    let run = |task: &str| {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg(task)
            .arg(&path)
            .args([records, len as u64].map(|number| number.to_string()));
        command.spawn()
    };
    for _ in 0..number(2, 5) {
        let mut writer = run("write")?;
        std::thread::sleep(Duration::from_secs(2));
        writer.kill()?;
        writer.wait()?;
        if words.iter().any(|word| word == "cold") {
            let file = File::open(&path)?;
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
        run("open")?.wait()?;
    }
    std::fs::remove_file(&path)?;
    Ok(())
}

fn load(path: &Path, records: u64, len: usize) -> Result<(), Failure> {
    let pool = Pool::create(path, &PoolOptions::default())?;
    let stores = Stores::open(&pool)?;
    let store = stores.store("s")?;
    let all: Vec<u64> = (0..records).collect();
    for numbers in all.chunks(1000) {
        let mut batch = WriteBatch::new();
        for number in numbers {
            batch.put(&store, key(*number), vec![1; len])?;
        }
        stores.write(batch)?;
    }
    println!(
        "{records} records, file {:.1} MB",
        std::fs::metadata(path)?.len() as f64 / 1e6
    );
    Ok(())
}

fn write(path: &Path, records: u64, len: usize) -> Result<(), Failure> {
    let stores = Stores::open(&Pool::open(path, &PoolOptions::default())?)?;
    let store = stores.store("s")?;
    let mut rng = SmallRng::seed_from_u64(u64::from(std::process::id()));
    loop {
        let mut batch = WriteBatch::new();
        for _ in 0..1000 {
            batch.put(&store, key(rng.random_range(0..records)), vec![2; len])?;
        }
        stores.write(batch)?;
    }
}

fn open(path: &Path, records: u64, len: usize) -> Result<(), Failure> {
    let start = Instant::now();
    let pool = Pool::open(path, &PoolOptions::default())?;
    let opened = start.elapsed();
    let stores = Stores::open(&pool)?;
    let recovered = start.elapsed();
    let store = stores.existing("s")?;
    let found = store.get(key(records / 2))?;
    let answered = start.elapsed();
    assert_eq!(found.map(|value| value.len()), Some(len));
    assert_eq!(store.len(), records);
    let settled = start.elapsed();
    let pending = stores.stats().pending_records;
    println!(
        "pool {opened:.1?}, stores {recovered:.1?}, first answer {answered:.1?}, settled {settled:.1?}, {pending} \
         records pending"
    );
    Ok(())
}
