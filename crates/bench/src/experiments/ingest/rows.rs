//! A few rows at a time, by two ways, on three kinds of medium.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use halocline_emulator::{EmulatedSpec, Watch};
use halocline_engine::{Database, DatabaseOptions};
use halocline_measure::answer;
use halocline_workloads::SplitMix64;
use tokio::runtime::Runtime;

use crate::{BenchError, Reporter, Samples, Settings, config};

/// Sessions that insert at the same time.
const THREADS: usize = 8;
/// Rows of one call of a group.
const GROUP: usize = 100;
/// Where a file is as near to persistent memory as a machine without it can have.
const SHARED_MEMORY: &str = "/dev/shm";
const TABLE: &str = "CREATE TABLE orders (id bigint NOT NULL, day date, price double, note varchar)";

/// Storage of a pool and its durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Default,
    Strict,
    AssumedDax,
}

/// How rows are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InsertPath {
    Rust,
    Sql,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Default, Self::Strict, Self::AssumedDax];

    fn name(self) -> &'static str {
        match self {
            Self::Default => "page cache, default",
            Self::Strict => "page cache, strict",
            Self::AssumedDax => "taken for DAX",
        }
    }

    fn options(self, medium: Option<&EmulatedSpec>) -> DatabaseOptions {
        DatabaseOptions::default()
            .with_strict(self == Self::Strict)
            .with_assume_dax(self == Self::AssumedDax)
            .with_medium(medium.cloned())
    }

    fn settings(self, settings: &Settings) -> Settings {
        let mut settings = settings.clone();
        if self == Self::AssumedDax && Path::new(SHARED_MEMORY).is_dir() {
            settings.directory = Some(PathBuf::from(SHARED_MEMORY));
        }
        settings
    }

    /// Returns the number of calls in one measurement.
    fn calls(self, quick: bool) -> usize {
        match (self, quick) {
            (_, true) => 20,
            (Self::Strict, _) => 500,
            _ => 5000,
        }
    }
}

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let emulated = settings.pool_medium()?;
    for kind in Kind::ALL {
        let directory = kind.settings(settings).temporary_directory()?;
        let calls = kind.calls(settings.quick);
        let mut samples: [Samples; 5] = Default::default();
        let mut medium = String::new();
        for repetition in 0..=settings.repetitions(3) {
            let path = directory.path().join(format!("{repetition}.pool"));
            let database = Database::create(&path, &kind.options(emulated.as_ref()))?;
            medium = database.info()?.pool.medium;
            for (at, (way, group, threads)) in measured().into_iter().enumerate() {
                let seconds = match threads {
                    1 => insert(&database, &runtime, way, group, calls, settings.seed)?,
                    _ => insert_at_once(&database, &runtime, threads, calls, settings.seed)?,
                };
                // The first round warms up.
                if repetition > 0 {
                    samples[at].push((calls * group) as f64 / seconds);
                }
            }
            drop(database);
            std::fs::remove_file(path)?;
        }
        for ((way, group, threads), samples) in measured().into_iter().zip(&samples) {
            let config = config! {
                "medium": medium,
                "rows_per_call": group,
                "calls": calls,
                "durability": kind.name(),
                "threads": threads,
            };
            report.samples(way_name(way), &config, "insert_rate", samples, "rows/s")?;
        }
    }
    Ok(())
}

/// Returns the insert paths, rows per call and threads, in the order of measurement.
fn measured() -> [(InsertPath, usize, usize); 5] {
    [
        (InsertPath::Rust, 1, 1),
        (InsertPath::Sql, 1, 1),
        (InsertPath::Rust, GROUP, 1),
        (InsertPath::Sql, GROUP, 1),
        (InsertPath::Rust, 1, THREADS),
    ]
}

fn way_name(way: InsertPath) -> &'static str {
    match way {
        InsertPath::Rust => "Rust API",
        InsertPath::Sql => "SQL text",
    }
}

/// Recreates the table, inserts into it and returns the seconds that the inserts took.
fn insert(
    database: &Database,
    runtime: &Runtime,
    way: InsertPath,
    group: usize,
    calls: usize,
    seed: u64,
) -> Result<f64, BenchError> {
    prepare(database, runtime)?;
    let mut rng = SplitMix64::new(seed);
    let seconds = match way {
        InsertPath::Rust => {
            let batches = (0..calls).map(|call| batch(&mut rng, call * group, group));
            let batches: Vec<RecordBatch> = batches.collect::<Result<_, _>>()?;
            let watch = Watch::start(database.device());
            for batch in &batches {
                database.insert("orders", batch)?;
            }
            watch.elapsed().as_secs_f64()
        }
        InsertPath::Sql => {
            let texts: Vec<String> = (0..calls)
                .map(|call| text(&mut rng, call * group, group))
                .collect();
            let watch = Watch::start(database.device());
            runtime.block_on(async {
                for text in &texts {
                    database.sql(text).await?;
                }
                Ok::<(), BenchError>(())
            })?;
            watch.elapsed().as_secs_f64()
        }
    };
    verify(database, runtime, (calls * group) as u64, way_name(way))?;
    Ok(seconds)
}

/// Recreates the table, inserts `calls` rows one by one from several threads, each with its own session, and
/// returns the seconds until all threads are done.
fn insert_at_once(
    database: &Database,
    runtime: &Runtime,
    threads: usize,
    calls: usize,
    seed: u64,
) -> Result<f64, BenchError> {
    prepare(database, runtime)?;
    let mut rng = SplitMix64::new(seed);
    let batches = (0..calls).map(|call| batch(&mut rng, call, 1));
    let batches: Vec<RecordBatch> = batches.collect::<Result<_, _>>()?;
    let sessions: Vec<Database> = (0..threads).map(|_| database.session()).collect();
    let watch = Watch::start(database.device());
    std::thread::scope(|scope| {
        let insert = |thread: usize| {
            let (session, batches) = (&sessions[thread], &batches);
            scope.spawn(move || {
                let own = batches.iter().skip(thread).step_by(threads);
                own.map(|batch| session.insert("orders", batch)).collect()
            })
        };
        let inserting: Vec<_> = (0..threads).map(insert).collect();
        inserting.into_iter().try_for_each(|thread| {
            let done: Result<Vec<u64>, _> = match thread.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            done.map(drop)
        })
    })?;
    let seconds = watch.elapsed().as_secs_f64();
    verify(database, runtime, calls as u64, "Rust API, several threads")?;
    Ok(seconds)
}

/// Recreates the table with the row that creates the log.
fn prepare(database: &Database, runtime: &Runtime) -> Result<(), BenchError> {
    runtime.block_on(async {
        database.sql("DROP TABLE IF EXISTS orders").await?;
        database.sql(TABLE).await?;
        // The first row makes the log.
        database.sql("INSERT INTO orders (id) VALUES (-1)").await
    })?;
    Ok(())
}

/// Fails unless the number of rows and the sum of their ids are those of the rows `0..rows` and of the row
/// that creates the log.
fn verify(database: &Database, runtime: &Runtime, rows: u64, system: &str) -> Result<(), BenchError> {
    let expected = format!("{}|{}", rows + 1, (0..rows).sum::<u64>() as i64 - 1);
    let sql = "SELECT count(*), sum(id) FROM orders";
    let found = runtime.block_on(async { database.sql(sql).await?.collect().await })?;
    let found = answer::lines(&found)?.concat();
    if found == expected {
        return Ok(());
    }
    Err(BenchError::Disagreement {
        what: sql.to_owned(),
        left_system: system.to_owned(),
        left: expected,
        right_system: "the table".to_owned(),
        right: found,
    })
}

fn batch(rng: &mut SplitMix64, first: usize, rows: usize) -> Result<RecordBatch, BenchError> {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (first..first + rows).map(|id| id as i64),
    ));
    let days: ArrayRef = Arc::new(Date32Array::from_iter_values(
        (0..rows).map(|_| 20_000 + rng.below(365) as i32),
    ));
    let prices: ArrayRef = Arc::new(Float64Array::from_iter_values(
        (0..rows).map(|_| rng.unit() * 1e3),
    ));
    let notes: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..rows).map(|_| format!("note {}", rng.below(1000))),
    ));
    RecordBatch::try_from_iter([("id", ids), ("day", days), ("price", prices), ("note", notes)])
        .map_err(|error| BenchError::Setup(error.to_string()))
}

fn text(rng: &mut SplitMix64, first: usize, rows: usize) -> String {
    let rows: Vec<String> = (first..first + rows)
        .map(|id| {
            let (day, note) = (1 + rng.below(28), rng.below(1000));
            format!(
                "({id}, '2026-01-{day:02}', {:.3}, 'note {note}')",
                rng.unit() * 1e3
            )
        })
        .collect();
    format!("INSERT INTO orders VALUES {}", rows.join(", "))
}
