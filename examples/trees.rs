//! Ordered trees beside the tables of a database: keys and values of 64 bits, each change durable on its own,
//! range scans, use by several threads.
//!
//! `cargo run --release -p halocline --example trees`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::thread;
use std::time::Instant;

use halocline::{Database, DatabaseOptions};

const KEYS: u64 = 200_000;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("numbers.pool");
    let db = Database::create(&path, &DatabaseOptions::default())?;

    // `lb` is the LB+-Tree; `wb`, `fp`, `fair` and others are there to compare.
    let squares = db.create_tree("squares", "lb".parse()?)?;
    let start = Instant::now();
    thread::scope(|scope| {
        let insert = |first: u64| {
            let squares = &squares;
            move || {
                (first..KEYS)
                    .step_by(2)
                    .try_for_each(|key| squares.insert(key, key * key).map(drop))
            }
        };
        let threads = [scope.spawn(insert(0)), scope.spawn(insert(1))];
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    println!("{KEYS} inserts in {:?}", start.elapsed());

    assert_eq!(squares.get(12)?, Some(144));
    assert_eq!(squares.upsert(12, 0)?, Some(144));
    assert_eq!(squares.remove(13)?, Some(169));
    let mut entries = Vec::new();
    squares.scan(11, 4, &mut entries)?;
    // Whole leaves are read, so there may be more entries than that.
    assert_eq!(entries[..4], [(11, 121), (12, 0), (14, 196), (15, 225)]);

    // Several keys at once: their cache misses overlap.
    let mut values = [None; 3];
    squares.get_batch(&[3, 13, KEYS], &mut values)?;
    assert_eq!(values, [Some(9), None, None]);
    drop((squares, db));

    let start = Instant::now();
    let db = Database::open(&path, &DatabaseOptions::default())?;
    let squares = db.tree("squares")?;
    println!(
        "opened again with {} entries in {:?}",
        squares.len(),
        start.elapsed()
    );
    println!("trees of the pool: {:?}", db.trees()?);
    Ok(())
}
