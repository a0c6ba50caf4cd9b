//! The choice between index and scan where only a part of the table and its index is in memory: random
//! conjunctions by the path that is chosen, by the index, and by the scan.
//!
//! `cargo bench -p halocline-engine --bench partly_resident`. `HALOCLINE_BENCH_ROWS` sets the number of rows
//! (10,000,000), `HALOCLINE_BENCH_QUERIES` the number of queries (12), `HALOCLINE_BENCH_RUNS` the turns, of
//! which the median counts (3), `HALOCLINE_BENCH_SEED` the random conjunctions (1), and
//! `HALOCLINE_BENCH_RESIDENT` the percentage of the file that is in memory when a query starts (25): pieces
//! of 2 MiB, chosen at random. The pool is in `HALOCLINE_BENCH_FOLDER`, or in the folder for temporary files,
//! which must be on a file system with a device: tmpfs keeps everything in memory.
//!
//! With `HALOCLINE_BENCH_RESIDENT=all` nothing is dropped, and the database stays open: in a memory cgroup
//! that is smaller than the file, the kernel decides what is in memory.
//!
//! A profile of the medium (`halocline calibrate`) in the folder is used.

mod common;

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use halocline_engine::{Database, DatabaseOptions};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use common::{Failure, IntegerColumn, expressions, number, print};

/// The columns that queries restrict, with the number of values of each and a factor that makes them
/// independent. The index is over all but the last.
const COLUMNS: [IntegerColumn; 5] = [
    ("tax", 9, 67_867_967),
    ("discount", 11, 49_979_687),
    ("quantity", 50, 32_452_843),
    ("day", 2_556, 15_485_863),
    ("part", 200_000, 104_729),
];

/// The outputs of queries.
const OUTPUTS: [&str; 3] = [
    "count(*)",
    "count(*), sum(price)",
    "count(*), sum(price * quantity)",
];

/// The values of `halocline.index`: the choice, and each path.
const MODES: [&str; 3] = ["auto", "force", "off"];

/// Bytes that are in memory, or are not, together.
const PIECE: u64 = 2 << 20;

fn main() -> Result<(), Failure> {
    print(measure())
}

/// Creates the pool.
async fn create(path: &Path, rows: u64) -> Result<(), Failure> {
    let db = Database::create(path, &DatabaseOptions::default())?;
    let statement = format!(
        "CREATE TABLE t AS SELECT {}, v * 31 % 1000000 AS price, v * 7919 % 1000000007 AS other \
         FROM generate_series(1, {rows}) AS s(v)",
        expressions(&COLUMNS)
    );
    db.sql(&statement).await?;
    db.sql("CREATE INDEX i ON t USING elf (tax, discount, quantity, day)")
        .await?;
    Ok(())
}

/// A random conjunction of conditions on two to four columns, with a random selectivity.
fn conjunction(rng: &mut StdRng) -> String {
    let count = rng.random_range(2..=4);
    let share = 10_f64.powf(rng.random_range(-5.0..-0.3) / f64::from(count));
    let chosen: Vec<_> = COLUMNS.choose_multiple(rng, count as usize).collect();
    let conditions = chosen.iter().map(|(name, values, _)| {
        let width = ((*values as f64 * share) as u64).max(1);
        let low = rng.random_range(0..=*values - width);
        format!("{name} BETWEEN {low} AND {}", low + width - 1)
    });
    let conditions: Vec<String> = conditions.collect();
    let output = OUTPUTS.choose(rng).copied().unwrap_or("count(*)");
    format!("SELECT {output} FROM t WHERE {}", conditions.join(" AND "))
}

/// Drops the file from the page cache but for a percentage of its pieces, which are chosen by the seed.
fn evict(path: &Path, resident: u64, seed: u64) -> Result<(), Failure> {
    let file = File::open(path)?;
    file.sync_all()?;
    let len = file.metadata()?.len();
    rustix::fs::fadvise(&file, 0, NonZeroU64::new(len), rustix::fs::Advice::DontNeed)?;
    // The kernel would read ahead what is not wanted.
    rustix::fs::fadvise(&file, 0, NonZeroU64::new(len), rustix::fs::Advice::Random)?;
    let mut rng = StdRng::seed_from_u64(seed);
    let mut piece = vec![0; PIECE as usize];
    for at in (0..len).step_by(PIECE as usize) {
        if rng.random_range(0..100) < resident {
            let wanted = PIECE.min(len - at) as usize;
            file.read_exact_at(&mut piece[..wanted], at)?;
        }
    }
    Ok(())
}

/// Opens the database for one path.
async fn open(path: &Path, mode: &str) -> Result<Database, Failure> {
    let options = DatabaseOptions::default().with_threads(Some(2));
    let db = Database::open(path, &options)?;
    db.sql(&format!("SET halocline.index = {mode}")).await?;
    // Opens the catalog and reads what planning needs.
    db.sql("EXPLAIN SELECT count(*) FROM t WHERE day = 3")
        .await?
        .collect()
        .await?;
    Ok(db)
}

/// Runs a query: its milliseconds, the MiB that the process has read from the device, and the rows that
/// match.
async fn time(db: &Database, text: &str) -> Result<(f64, f64, i64), Failure> {
    let (before, start) = (bytes_read()?, Instant::now());
    let batches = db.sql(text).await?.collect().await?;
    let time = start.elapsed().as_secs_f64() * 1e3;
    let read = (bytes_read()? - before) as f64 / f64::from(1 << 20);
    Ok((
        time,
        read,
        batches[0].column(0).as_primitive::<Int64Type>().value(0),
    ))
}

/// Returns the bytes that this process has read from devices; 0 where the kernel does not say.
fn bytes_read() -> Result<u64, Failure> {
    let mut text = String::new();
    let Ok(mut file) = File::open("/proc/self/io") else {
        return Ok(0);
    };
    file.read_to_string(&mut text)?;
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    Ok(line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0))
}

/// The folder of the pool, and one that is removed at the end if none is given.
fn folder() -> Result<(PathBuf, Option<tempfile::TempDir>), Failure> {
    Ok(match std::env::var_os("HALOCLINE_BENCH_FOLDER") {
        Some(folder) => (folder.into(), None),
        None => {
            let folder = tempfile::tempdir()?;
            (folder.path().to_owned(), Some(folder))
        }
    })
}

async fn measure() -> Result<String, Failure> {
    let rows = number("HALOCLINE_BENCH_ROWS", 10_000_000);
    let runs = number("HALOCLINE_BENCH_RUNS", 3).max(1);
    let stays_open = std::env::var("HALOCLINE_BENCH_RESIDENT").is_ok_and(|text| text == "all");
    let resident = number("HALOCLINE_BENCH_RESIDENT", 25);
    let (folder, _removed) = folder()?;
    let path = folder.join(format!("partly-resident-{rows}.pool"));
    if !path.exists() {
        create(&path, rows).await?;
    }
    let size = std::fs::metadata(&path)?.len() >> 20;
    let mut report = format!("{rows} rows, a pool of {size} MiB\n");
    writeln!(
        report,
        "  chosen    index     scan  ratio  chosen MiB read      rows  query"
    )?;
    let mut rng = StdRng::seed_from_u64(number("HALOCLINE_BENCH_SEED", 1));
    let mut kept = Vec::new();
    if stays_open {
        for mode in MODES {
            kept.push(open(&path, mode).await?);
        }
    }
    let mut ratios = Vec::new();
    for query in 0..number("HALOCLINE_BENCH_QUERIES", 12) {
        let text = conjunction(&mut rng);
        let (mut times, mut read, mut matching) = ([const { Vec::new() }; MODES.len()], Vec::new(), 0);
        for run in 0..runs {
            for (number, mode) in MODES.iter().enumerate() {
                let (time, bytes, found) = match kept.get(number) {
                    Some(db) => time(db, &text).await?,
                    None => {
                        evict(&path, resident, query * 1000 + run)?;
                        let db = open(&path, mode).await?;
                        time(&db, &text).await?
                    }
                };
                times[number].push(time);
                if number == 0 {
                    read.push(bytes);
                }
                matching = found;
            }
        }
        let [chosen, index, scan] = times.map(median);
        let ratio = chosen / index.min(scan);
        let read = median(read);
        writeln!(
            report,
            "{chosen:8.2} {index:8.2} {scan:8.2} {ratio:6.2} {read:16.1} {matching:9}  {text}"
        )?;
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    writeln!(
        report,
        "chosen to the better path: mean {:.2}, worst {:.2}, above 1.1: {} of {}",
        (logs / ratios.len().max(1) as f64).exp(),
        ratios.last().copied().unwrap_or(1.0),
        ratios.iter().filter(|ratio| **ratio > 1.1).count(),
        ratios.len()
    )?;
    Ok(report)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
