//! Time of small queries: prepared, with a text that was seen before, with a new text, and `count(*)`; and
//! the steps that it goes into.
//!
//! `cargo bench -p halocline-engine --bench small_queries`. `HALOCLINE_BENCH_ROWS` sets the number of rows
//! (1,000,000), `HALOCLINE_BENCH_RUNS` the number of executions of each kind (2,000).

use std::fmt::Write;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use halocline_engine::{Database, DatabaseOptions, params};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Columns of the table, each with values from 0 to 999.
const COLUMNS: [&str; 5] = ["a", "b", "c", "d", "e"];

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let number = |name: &str, otherwise: usize| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(otherwise)
    };
    let (rows, runs) = (
        number("HALOCLINE_BENCH_ROWS", 1_000_000),
        number("HALOCLINE_BENCH_RUNS", 2_000),
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let report = runtime.block_on(measure(rows, runs))?;
    std::io::Write::write_all(&mut std::io::stdout(), report.as_bytes())?;
    Ok(())
}

/// A database with one table and an index over all of its columns.
async fn database(rows: usize) -> Result<Database, Failure> {
    let db = Database::in_memory(&DatabaseOptions::default())?;
    let columns: Vec<String> = COLUMNS
        .iter()
        .zip([7_919_u64, 104_729, 1_299_709, 15_485_863, 32_452_843])
        .map(|(name, factor)| format!("CAST((i * {factor} + i / 7) % 1000 AS int) AS {name}"))
        .collect();
    let table = format!(
        "CREATE TABLE t AS SELECT i AS id, {}, 'row ' || i AS note FROM generate_series(1, {rows}) AS s(i)",
        columns.join(", ")
    );
    db.sql(&table).await?;
    db.sql(&format!("CREATE INDEX i ON t USING elf ({})", COLUMNS.join(", ")))
        .await?;
    Ok(db)
}

/// A random conjunction that selects few rows, as a text.
fn conjunction(rng: &mut StdRng) -> String {
    let mut text = String::from("SELECT id, note FROM t WHERE ");
    for (at, column) in COLUMNS
        .iter()
        .enumerate()
        .take(rng.random_range(2..=COLUMNS.len()))
    {
        let and = if at == 0 { "" } else { " AND " };
        let low = rng.random_range(0..995);
        // A String takes any text.
        let _ = write!(text, "{and}{column} BETWEEN {low} AND {}", low + 2);
    }
    text
}

async fn measure(rows: usize, runs: usize) -> Result<String, Failure> {
    let db = database(rows).await?;
    let mut rng = StdRng::seed_from_u64(17);
    let mut report = format!("{rows} rows, {runs} executions each\n\n| query | p50 | p99 |\n|---|---|---|\n");

    let prepared = db
        .prepare("SELECT id, note FROM t WHERE a = $1 AND b BETWEEN $2 AND $3")
        .await?;
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let (a, b) = (rng.random_range(0..1000), rng.random_range(0..990));
        let start = Instant::now();
        let found = prepared.execute(params![a, b, b + 5]).await?.collect().await?;
        times.push(start.elapsed());
        drop(found);
    }
    row(&mut report, "prepared selection", &mut times);

    for (name, text) in [
        ("`SELECT count(*)`", "SELECT count(*) FROM t"),
        ("one text", "SELECT id FROM t WHERE a = 5 AND b = 7"),
    ] {
        for _ in 0..runs {
            times.push(timed(&db, text).await?);
        }
        row(&mut report, name, &mut times);
    }
    for _ in 0..runs {
        let text = format!(
            "SELECT id, note FROM t WHERE a = {} AND b < {}",
            rng.random_range(0..1000),
            rng.random_range(0..9)
        );
        times.push(timed(&db, &text).await?);
    }
    row(&mut report, "text with other literals", &mut times);
    for number in 0..runs {
        // The name of the output makes it a text that was not seen before.
        let text = conjunction(&mut rng).replacen("note", &format!("note AS n{number}"), 1);
        times.push(timed(&db, &text).await?);
    }
    row(&mut report, "new text", &mut times);
    db.sql("SET halocline.plan_cache = off").await?;
    for _ in 0..runs {
        times.push(timed(&db, "SELECT count(*) FROM t").await?);
    }
    row(&mut report, "`SELECT count(*)`, `plan_cache = off`", &mut times);
    db.sql("SET halocline.plan_cache = on").await?;

    report += "\n| step | new text, p50 | text with other literals, p50 |\n|---|---|---|\n";
    let new = steps(&db, runs, |rng, number| {
        conjunction(rng).replacen("note", &format!("note AS m{number}"), 1)
    })
    .await?;
    let seen = steps(&db, runs, |rng, _| {
        format!(
            "SELECT id, note FROM t WHERE c = {} AND d < {}",
            rng.random_range(0..1000),
            rng.random_range(0..9)
        )
    })
    .await?;
    for (step, (mut new, mut seen)) in STEPS.iter().zip(new.into_iter().zip(seen)) {
        let line = format!(
            "| {step} | {:?} | {:?} |\n",
            percentile(&mut new, 50),
            percentile(&mut seen, 50)
        );
        report += &line;
    }
    Ok(report)
}

async fn timed(db: &Database, text: &str) -> Result<Duration, Failure> {
    let start = Instant::now();
    let found = db.sql(text).await?.collect().await?;
    let time = start.elapsed();
    drop(found);
    Ok(time)
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times
        .get((times.len() * percent / 100).min(times.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

/// Adds a row for these times, which are removed.
fn row(report: &mut String, name: &str, times: &mut Vec<Duration>) {
    let (half, most) = (percentile(times, 50), percentile(times, 99));
    *report += &format!("| {name} | {half:?} | {most:?} |\n");
    times.clear();
}

/// The steps that EXPLAIN ANALYZE shows.
const STEPS: [&str; 4] = ["parse", "plan", "optimise", "execute"];

/// Times of the steps of queries, by step.
async fn steps(
    db: &Database,
    runs: usize,
    text: impl Fn(&mut StdRng, usize) -> String,
) -> Result<[Vec<Duration>; 4], Failure> {
    let mut rng = StdRng::seed_from_u64(18);
    let mut times = [const { Vec::new() }; 4];
    for number in 0..runs {
        let batches = db
            .sql(&format!("EXPLAIN ANALYZE {}", text(&mut rng, number)))
            .await?
            .collect()
            .await?;
        for batch in batches {
            for line in batch.column(1).as_string::<i32>().iter().flatten() {
                if line.starts_with("parse=") {
                    for (step, times) in STEPS.iter().zip(&mut times) {
                        times.extend(time_of(line, step));
                    }
                }
            }
        }
    }
    Ok(times)
}

/// Reads the time of a step, `step=12.5µs`.
fn time_of(line: &str, step: &str) -> Option<Duration> {
    let (_, rest) = line.split_once(&format!("{step}="))?;
    let text = rest.split(',').next()?;
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "ns" => 1e-9,
        "µs" => 1e-6,
        "ms" => 1e-3,
        _ => 1.0,
    };
    Some(Duration::from_secs_f64(digits.parse::<f64>().ok()? * unit))
}
